/* A finite impulse response filter. */
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
#pragma scop
  for (int i = 0; i < N; i++) {
    y[i] = 0;
    for (int k = 0; k < TAPS; k++)
      y[i] += x[i + k] * h[k];
  }
#pragma endscop
}
