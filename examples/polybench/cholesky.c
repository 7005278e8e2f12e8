/* Cholesky factor of a positive definite matrix, in its lower triangle.
   @input A expr (N+1)*eye(N) + cos(outer(arange(N), arange(N))) */
#include <math.h>

#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef SQRT_FUN
#define SQRT_FUN sqrtf
#endif
#ifndef N
#define N 120
#endif

void kernel_cholesky(DATA_TYPE A[N][N])
{
#pragma scop
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++)
        A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++)
      A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = SQRT_FUN(A[i][i]);
  }
#pragma endscop
}
