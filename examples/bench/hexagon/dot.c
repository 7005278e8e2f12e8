/* A scalar product. */
#ifndef N
#define N 1024
#endif
void dot(int r[restrict 1], const int x[N], const int y[N]) {
#pragma scop
  r[0] = 0;
  for (int i = 0; i < N; i++)
    r[0] += x[i] * y[i];
#pragma endscop
}
