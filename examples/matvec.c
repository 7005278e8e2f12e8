/* Matrix times vector, y = A x. */
#ifndef N
#define N 64
#endif

void matvec(const float A[N][N], const float x[N], float y[N])
{
  for (int i = 0; i < N; i++) {
    float sum = 0.0f;
    for (int j = 0; j < N; j++)
      sum += A[i][j] * x[j];
    y[i] = sum;
  }
}
