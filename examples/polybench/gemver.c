/* Two rank-1 updates of A, then x = beta A^T y + z and w = alpha A x. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 120
#endif

void kernel_gemver(DATA_TYPE alpha, DATA_TYPE beta, DATA_TYPE A[N][N], const DATA_TYPE u1[N], const DATA_TYPE v1[N],
                   const DATA_TYPE u2[N], const DATA_TYPE v2[N], DATA_TYPE w[N], DATA_TYPE x[N],
                   const DATA_TYPE y[N], const DATA_TYPE z[N])
{
#pragma scop
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      x[i] = x[i] + beta * A[j][i] * y[j];
  for (int i = 0; i < N; i++)
    x[i] = x[i] + z[i];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      w[i] = w[i] + alpha * A[i][j] * x[j];
#pragma endscop
}
