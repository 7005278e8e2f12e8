/* Autocorrelation with history: N lags over a window of N samples that N older ones precede. */
#ifndef N
#define N 256
#endif

void autocor_history(const float x[2 * N], float r[N])
{
  for (int i = 0; i < N; i++) {
    float sum = 0.0f;
    for (int k = N; k < 2 * N; k++)
      sum += x[k] * x[k - i];
    r[i] = sum;
  }
}
