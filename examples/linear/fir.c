void fir(const float *x, const float *h, float *y, int n, int taps)
{
  for (int i = 0; i < n; i++) {
    float s = 0.0f;
    for (int t = 0; t < taps; t++)
      s += h[t] * x[i + t];
    y[i] = s;
  }
}
