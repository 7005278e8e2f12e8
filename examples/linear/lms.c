void lms(const float *x, const float *d, float *w, float *e, int n, int taps, float mu)
{
  for (int i = 0; i < n; i++) {
    float y = 0.0f;
    for (int k = 0; k < taps; k++)
      y += w[k] * x[i + k];
    e[i] = d[i] - y;
    for (int k = 0; k < taps; k++)
      w[k] += mu * e[i] * x[i + k];
  }
}
