/* The first lags of an autocorrelation. */
#ifndef N
#define N 256
#endif
#ifndef LAGS
#define LAGS 16
#endif
void autocor(int r[restrict LAGS], const int x[N + LAGS]) {
#pragma scop
  for (int k = 0; k < LAGS; k++) {
    r[k] = 0;
    for (int i = 0; i < N; i++)
      r[k] += x[i] * x[i + k];
  }
#pragma endscop
}
