/* Symmetric rank-k update of the lower triangle: C = alpha A A^T + beta C. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef M
#define M 60
#endif
#ifndef N
#define N 80
#endif

void kernel_syrk(DATA_TYPE alpha, DATA_TYPE beta, DATA_TYPE C[N][N], const DATA_TYPE A[N][M])
{
#pragma scop
  for (int i = 0; i < N; i++) {
    for (int j = 0; j <= i; j++)
      C[i][j] *= beta;
    for (int k = 0; k < M; k++)
      for (int j = 0; j <= i; j++)
        C[i][j] += alpha * A[i][k] * A[j][k];
  }
#pragma endscop
}
