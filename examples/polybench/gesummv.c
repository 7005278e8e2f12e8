/* Sum of two matrix-vector products: y = alpha A x + beta B x. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 90
#endif

void kernel_gesummv(DATA_TYPE alpha, DATA_TYPE beta, const DATA_TYPE A[N][N], const DATA_TYPE B[N][N],
                    DATA_TYPE tmp[N], const DATA_TYPE x[N], DATA_TYPE y[N])
{
#pragma scop
  for (int i = 0; i < N; i++) {
    tmp[i] = 0;
    y[i] = 0;
    for (int j = 0; j < N; j++) {
      tmp[i] = A[i][j] * x[j] + tmp[i];
      y[i] = B[i][j] * x[j] + y[i];
    }
    y[i] = alpha * tmp[i] + beta * y[i];
  }
#pragma endscop
}
