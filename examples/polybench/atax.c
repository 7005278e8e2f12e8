/* A matrix, then its transpose, times a vector: y = A^T (A x). */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef M
#define M 116
#endif
#ifndef N
#define N 124
#endif

void kernel_atax(const DATA_TYPE A[M][N], const DATA_TYPE x[N], DATA_TYPE y[N], DATA_TYPE tmp[M])
{
#pragma scop
  for (int i = 0; i < N; i++)
    y[i] = 0;
  for (int i = 0; i < M; i++) {
    tmp[i] = 0;
    for (int j = 0; j < N; j++)
      tmp[i] = tmp[i] + A[i][j] * x[j];
    for (int j = 0; j < N; j++)
      y[j] = y[j] + A[i][j] * tmp[i];
  }
#pragma endscop
}
