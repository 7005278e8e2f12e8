/* Autocorrelation of N samples, all N lags; a lag has fewer products the longer it is. */
#ifndef N
#define N 64
#endif

void autocor(const float x[N], float r[N])
{
  for (int i = 0; i < N; i++) {
    r[i] = 0.0f;
    for (int k = 0; k < N - i; k++)
      r[i] += x[k] * x[k + i];
  }
}
