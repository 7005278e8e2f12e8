/* Product with a unit lower triangular matrix, transposed, in place: B = alpha A^T B. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef M
#define M 60
#endif
#ifndef N
#define N 80
#endif

void kernel_trmm(DATA_TYPE alpha, const DATA_TYPE A[M][M], DATA_TYPE B[M][N])
{
#pragma scop
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      for (int k = i + 1; k < M; k++)
        B[i][j] += A[k][i] * B[k][j];
      B[i][j] = alpha * B[i][j];
    }
#pragma endscop
}
