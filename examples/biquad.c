/* IIR biquad, direct form II transposed. c has b0, b1, b2, a1, a2; each output needs the one before it.
 * @input c expr 0.5*cos(arange(5))
 */
#ifndef N
#define N 256
#endif

void biquad(const float x[N], const float c[5], float y[N])
{
  float d1 = 0.0f, d2 = 0.0f;
  for (int n = 0; n < N; n++) {
    float v = c[0] * x[n] + d1;
    d1 = c[1] * x[n] - c[3] * v + d2;
    d2 = c[2] * x[n] - c[4] * v;
    y[n] = v;
  }
}
