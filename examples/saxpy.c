/* y = a x + y with a scalar parameter. */
#ifndef N
#define N 1024
#endif

void saxpy(float a, const float x[N], float y[N])
{
  for (int i = 0; i < N; i++)
    y[i] = a * x[i] + y[i];
}
