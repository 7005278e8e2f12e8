/* FIR filter: N outputs, T taps; x starts T - 1 samples before the first output. */
#ifndef N
#define N 1024
#endif
#ifndef T
#define T 32
#endif

void fir(const float x[N + T - 1], const float h[T], float y[N])
{
  for (int i = 0; i < N; i++) {
    y[i] = 0.0f;
    for (int k = 0; k < T; k++)
      y[i] += h[k] * x[i + T - 1 - k];
  }
}
