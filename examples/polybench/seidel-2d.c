/* Mean of nine neighbours in place, over and over, in two dimensions. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef TSTEPS
#define TSTEPS 40
#endif
#ifndef N
#define N 120
#endif

void kernel_seidel_2d(DATA_TYPE A[N][N])
{
#pragma scop
  for (int t = 0; t <= TSTEPS - 1; t++)
    for (int i = 1; i <= N - 2; i++)
      for (int j = 1; j <= N - 2; j++)
        A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1] + A[i][j - 1] + A[i][j] + A[i][j + 1]
                   + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9;
#pragma endscop
}
