/* Mean of five neighbours, over and over, in two dimensions. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef TSTEPS
#define TSTEPS 40
#endif
#ifndef N
#define N 90
#endif

void kernel_jacobi_2d(DATA_TYPE A[N][N], DATA_TYPE B[N][N])
{
#pragma scop
  for (int t = 0; t < TSTEPS; t++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        B[i][j] = (DATA_TYPE)0.2 * (A[i][j] + A[i][j - 1] + A[i][1 + j] + A[1 + i][j] + A[i - 1][j]);
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        A[i][j] = (DATA_TYPE)0.2 * (B[i][j] + B[i][j - 1] + B[i][1 + j] + B[1 + i][j] + B[i - 1][j]);
  }
#pragma endscop
}
