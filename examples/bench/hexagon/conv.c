/* A convolution with a square filter, where it lies within the image. */
#ifndef N
#define N 64
#endif
#ifndef F
#define F 4
#endif
#ifndef IN
#define IN int
#endif
void conv(int y[restrict N - F + 1][N - F + 1], const IN x[N][N], const IN w[F][F]) {
#pragma scop
  for (int i = 0; i <= N - F; i++)
    for (int j = 0; j <= N - F; j++) {
      y[i][j] = 0;
      for (int p = 0; p < F; p++)
        for (int q = 0; q < F; q++)
          y[i][j] += x[i + p][j + q] * w[p][q];
    }
#pragma endscop
}
