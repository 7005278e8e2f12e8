/* Solves L x = b for a lower triangular L.
   @input L expr (N+1)*eye(N) + cos(outer(arange(N), arange(N))) */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 120
#endif

void kernel_trisolv(const DATA_TYPE L[N][N], DATA_TYPE x[N], const DATA_TYPE b[N])
{
#pragma scop
  for (int i = 0; i < N; i++) {
    x[i] = b[i];
    for (int j = 0; j < i; j++)
      x[i] -= L[i][j] * x[j];
    x[i] = x[i] / L[i][i];
  }
#pragma endscop
}
