/* A = Q R by Householder's reflections. */
#include <math.h>
#ifndef N
#define N 3
#endif

void qr_householder(const float a[N][N], float q[N][N], float r[N][N])
{
  float v[N];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      r[i][j] = a[i][j];
      q[i][j] = i == j ? 1.0f : 0.0f;
    }
  for (int k = 0; k < N - 1; k++) {
    float norm = 0.0f;
    for (int i = k; i < N; i++)
      norm += r[i][k] * r[i][k];
    norm = sqrtf(norm);
    float alpha = r[k][k] > 0.0f ? -norm : norm;
    float length = 0.0f;
    for (int i = k; i < N; i++) {
      v[i] = i == k ? r[i][k] - alpha : r[i][k];
      length += v[i] * v[i];
    }
    float scale = 2.0f / length;
    for (int j = 0; j < N; j++) {
      float along = 0.0f;
      for (int i = k; i < N; i++)
        along += v[i] * r[i][j];
      for (int i = k; i < N; i++)
        r[i][j] -= scale * along * v[i];
    }
    for (int i = 0; i < N; i++) {
      float along = 0.0f;
      for (int j = k; j < N; j++)
        along += q[i][j] * v[j];
      for (int j = k; j < N; j++)
        q[i][j] -= scale * along * v[j];
    }
  }
}
