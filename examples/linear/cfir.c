void cfir(const float *x, const float *h, float *y, int n, int taps)
{
  for (int i = 0; i < n; i++) {
    float re = 0.0f, im = 0.0f;
    for (int t = 0; t < taps; t++) {
      re += h[2 * t] * x[2 * (i + t)] - h[2 * t + 1] * x[2 * (i + t) + 1];
      im += h[2 * t] * x[2 * (i + t) + 1] + h[2 * t + 1] * x[2 * (i + t)];
    }
    y[2 * i] = re;
    y[2 * i + 1] = im;
  }
}
