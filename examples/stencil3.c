/* Three-point stencil with fixed weights; the two border points are copied. */
#ifndef N
#define N 1024
#endif

void stencil3(const float x[N], float y[N])
{
  y[0] = x[0];
  for (int i = 1; i < N - 1; i++)
    y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
  y[N - 1] = x[N - 1];
}
