/* direct form II transposed; c has b0, b1, b2, a1, a2 */
void biquad(const float *x, const float *c, float *y, int n)
{
  float d1 = 0.0f, d2 = 0.0f;
  for (int i = 0; i < n; i++) {
    float v = c[0] * x[i] + d1;
    d1 = c[1] * x[i] - c[3] * v + d2;
    d2 = c[2] * x[i] - c[4] * v;
    y[i] = v;
  }
}
