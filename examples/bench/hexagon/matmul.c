/* A matrix product of integers. */
#ifndef N
#define N 64
#endif
#ifndef IN
#define IN int
#endif
void matmul(int C[restrict N][N], const IN A[N][N], const IN B[N][N]) {
#pragma scop
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      C[i][j] = 0;
      for (int k = 0; k < N; k++)
        C[i][j] += A[i][k] * B[k][j];
    }
#pragma endscop
}
