/* The same filter, a tap at a time. */
#ifndef N
#define N 256
#endif
#ifndef TAPS
#define TAPS 32
#endif
#ifndef IN
#define IN int
#endif
void fir(int y[restrict N], const IN x[N + TAPS - 1], const IN h[TAPS]) {
  for (int i = 0; i < N; i++)
    y[i] = 0;
  for (int k = 0; k < TAPS; k++)
    for (int i = 0; i < N; i++)
      y[i] += x[i + k] * h[k];
}
