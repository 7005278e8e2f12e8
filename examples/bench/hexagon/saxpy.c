/* y + a x. */
#ifndef N
#define N 1024
#endif
void saxpy(int y[restrict N], const int x[N], int a) {
#pragma scop
  for (int i = 0; i < N; i++)
    y[i] = y[i] + a * x[i];
#pragma endscop
}
