/* FIR filter on 16-bit samples and taps; 32-bit sums, which wrap. */
#include <stdint.h>

#ifndef N
#define N 1024
#endif
#ifndef T
#define T 32
#endif

void fir16(const int16_t x[N + T - 1], const int16_t h[T], int32_t y[N])
{
  for (int i = 0; i < N; i++) {
    int32_t sum = 0;
    for (int k = 0; k < T; k++)
      sum += h[k] * x[i + k];
    y[i] = sum;
  }
}
