/* A = Q R by Givens' rotations, each of two rows, from the lowest element of each column up. */
#include <math.h>
#ifndef N
#define N 3
#endif

void qr_givens(const float a[N][N], float q[N][N], float r[N][N])
{
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      r[i][j] = a[i][j];
      q[i][j] = i == j ? 1.0f : 0.0f;
    }
  for (int k = 0; k < N - 1; k++)
    for (int i = N - 1; i > k; i--) {
      float x = r[i - 1][k], y = r[i][k];
      float length = sqrtf(x * x + y * y);
      float c = x / length, s = y / length;
      for (int j = 0; j < N; j++) {
        float above = r[i - 1][j], below = r[i][j];
        r[i - 1][j] = c * above + s * below;
        r[i][j] = c * below - s * above;
      }
      for (int j = 0; j < N; j++) {
        float left = q[j][i - 1], right = q[j][i];
        q[j][i - 1] = c * left + s * right;
        q[j][i] = c * right - s * left;
      }
    }
}
