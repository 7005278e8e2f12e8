/* The same product in blocks of four rows, whose sums stay in registers. */
#ifndef N
#define N 64
#endif
#ifndef IN
#define IN int
#endif
void matmul(int C[restrict N][N], const IN A[N][N], const IN B[N][N]) {
  for (int i = 0; i < N; i += 4)
    for (int j = 0; j < N; j += 32) {
      int s[4][32];
      for (int r = 0; r < 4; r++)
        for (int l = 0; l < 32; l++)
          s[r][l] = 0;
      for (int k = 0; k < N; k++)
        for (int r = 0; r < 4; r++)
          for (int l = 0; l < 32; l++)
            s[r][l] += A[i + r][k] * B[k][j + l];
      for (int r = 0; r < 4; r++)
        for (int l = 0; l < 32; l++)
          C[i + r][j + l] = s[r][l];
    }
}
