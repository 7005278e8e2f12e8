/* A product of matrices of a few rows. */
#ifndef M
#define M 2
#endif
#ifndef N
#define N 3
#endif
#ifndef K
#define K 3
#endif

void matmul_small(const float a[M][K], const float b[K][N], float c[M][N])
{
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      c[i][j] = 0.0f;
      for (int k = 0; k < K; k++)
        c[i][j] += a[i][k] * b[k][j];
    }
}
