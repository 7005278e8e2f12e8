/* Correlation matrix of the columns of data; the columns are normalised in place.
   @input float_n expr N */
#include <math.h>

#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef SQRT_FUN
#define SQRT_FUN sqrtf
#endif
#ifndef M
#define M 80
#endif
#ifndef N
#define N 100
#endif

void kernel_correlation(DATA_TYPE float_n, DATA_TYPE data[N][M], DATA_TYPE corr[M][M], DATA_TYPE mean[M],
                        DATA_TYPE stddev[M])
{
  DATA_TYPE eps = (DATA_TYPE)0.1;
#pragma scop
  for (int j = 0; j < M; j++) {
    mean[j] = 0;
    for (int i = 0; i < N; i++)
      mean[j] += data[i][j];
    mean[j] /= float_n;
  }
  for (int j = 0; j < M; j++) {
    stddev[j] = 0;
    for (int i = 0; i < N; i++)
      stddev[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
    stddev[j] /= float_n;
    stddev[j] = SQRT_FUN(stddev[j]);
    /* A column that hardly varies would be divided by almost nothing. */
    stddev[j] = stddev[j] <= eps ? 1 : stddev[j];
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      data[i][j] -= mean[j];
      data[i][j] /= SQRT_FUN(float_n) * stddev[j];
    }
  for (int i = 0; i < M - 1; i++) {
    corr[i][i] = 1;
    for (int j = i + 1; j < M; j++) {
      corr[i][j] = 0;
      for (int k = 0; k < N; k++)
        corr[i][j] += data[k][i] * data[k][j];
      corr[j][i] = corr[i][j];
    }
  }
  corr[M - 1][M - 1] = 1;
#pragma endscop
}
