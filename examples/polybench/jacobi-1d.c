/* Mean of three neighbours, over and over, in one dimension. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef TSTEPS
#define TSTEPS 40
#endif
#ifndef N
#define N 120
#endif

void kernel_jacobi_1d(DATA_TYPE A[N], DATA_TYPE B[N])
{
#pragma scop
  for (int t = 0; t < TSTEPS; t++) {
    for (int i = 1; i < N - 1; i++)
      B[i] = (DATA_TYPE)0.33333 * (A[i - 1] + A[i] + A[i + 1]);
    for (int i = 1; i < N - 1; i++)
      A[i] = (DATA_TYPE)0.33333 * (B[i - 1] + B[i] + B[i + 1]);
  }
#pragma endscop
}
