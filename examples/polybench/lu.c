/* LU factors of A, in place, without pivoting.
   @input A expr (N+1)*eye(N) + cos(outer(arange(N), arange(N))) */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 120
#endif

void kernel_lu(DATA_TYPE A[N][N])
{
#pragma scop
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++)
        A[i][j] -= A[i][k] * A[k][j];
      A[i][j] /= A[j][j];
    }
    for (int j = i; j < N; j++)
      for (int k = 0; k < i; k++)
        A[i][j] -= A[i][k] * A[k][j];
  }
#pragma endscop
}
