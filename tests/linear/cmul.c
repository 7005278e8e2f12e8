void cmul(const float *x, const float *y, float *z, int blocks) {
  for (int i = 0; i < 16 * blocks; i++) {
    z[2 * i] = x[2 * i] * y[2 * i] - x[2 * i + 1] * y[2 * i + 1];
    z[2 * i + 1] = x[2 * i] * y[2 * i + 1] + x[2 * i + 1] * y[2 * i];
  }
}
