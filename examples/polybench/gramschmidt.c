/* QR factors of A by the modified Gram-Schmidt process. */
#include <math.h>

#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef SQRT_FUN
#define SQRT_FUN sqrtf
#endif
#ifndef M
#define M 60
#endif
#ifndef N
#define N 80
#endif

void kernel_gramschmidt(DATA_TYPE A[M][N], DATA_TYPE R[N][N], DATA_TYPE Q[M][N])
{
  DATA_TYPE nrm;
#pragma scop
  for (int k = 0; k < N; k++) {
    nrm = 0;
    for (int i = 0; i < M; i++)
      nrm += A[i][k] * A[i][k];
    R[k][k] = SQRT_FUN(nrm);
    for (int i = 0; i < M; i++)
      Q[i][k] = A[i][k] / R[k][k];
    for (int j = k + 1; j < N; j++) {
      R[k][j] = 0;
      for (int i = 0; i < M; i++)
        R[k][j] += Q[i][k] * A[i][j];
      for (int i = 0; i < M; i++)
        A[i][j] = A[i][j] - Q[i][k] * R[k][j];
    }
  }
#pragma endscop
}
