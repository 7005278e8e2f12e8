/* Dot product of two vectors. */
#ifndef N
#define N 1024
#endif

void dot(const float x[N], const float y[N], float result[1])
{
  float sum = 0.0f;
  for (int i = 0; i < N; i++)
    sum += x[i] * y[i];
  result[0] = sum;
}
