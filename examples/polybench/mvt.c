/* Two matrix-vector products, one with the transpose: x1 += A y_1 and x2 += A^T y_2. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 120
#endif

void kernel_mvt(DATA_TYPE x1[N], DATA_TYPE x2[N], const DATA_TYPE y_1[N], const DATA_TYPE y_2[N],
                const DATA_TYPE A[N][N])
{
#pragma scop
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      x1[i] = x1[i] + A[i][j] * y_1[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      x2[i] = x2[i] + A[j][i] * y_2[j];
#pragma endscop
}
