/* The same product, row by row, as compilers like it: the inner loop runs along rows. */
#ifndef N
#define N 64
#endif
#ifndef IN
#define IN int
#endif
void matmul(int C[restrict N][N], const IN A[N][N], const IN B[N][N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      C[i][j] = 0;
    for (int k = 0; k < N; k++)
      for (int j = 0; j < N; j++)
        C[i][j] += A[i][k] * B[k][j];
  }
}
