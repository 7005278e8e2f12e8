/* The two products of the BiCG solver: q = A p and s = A^T r. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef M
#define M 116
#endif
#ifndef N
#define N 124
#endif

void kernel_bicg(const DATA_TYPE A[N][M], DATA_TYPE s[M], DATA_TYPE q[N], const DATA_TYPE p[M], const DATA_TYPE r[N])
{
#pragma scop
  for (int i = 0; i < M; i++)
    s[i] = 0;
  for (int i = 0; i < N; i++) {
    q[i] = 0;
    for (int j = 0; j < M; j++) {
      s[j] = s[j] + r[i] * A[i][j];
      q[i] = q[i] + A[i][j] * p[j];
    }
  }
#pragma endscop
}
