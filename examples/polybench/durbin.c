/* Levinson and Durbin's recursion for the Yule-Walker equations.
   @input r expr 0.5*cos(1.3*(arange(N)+1)) + 0.3*cos(0.4*(arange(N)+1)) */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef N
#define N 120
#endif

void kernel_durbin(const DATA_TYPE r[N], DATA_TYPE y[N])
{
  DATA_TYPE z[N];
  DATA_TYPE alpha;
  DATA_TYPE beta;
  DATA_TYPE sum;
#pragma scop
  y[0] = -r[0];
  beta = 1;
  alpha = -r[0];
  for (int k = 1; k < N; k++) {
    beta = (1 - alpha * alpha) * beta;
    sum = 0;
    for (int i = 0; i < k; i++)
      sum += r[k - i - 1] * y[i];
    alpha = -(r[k] + sum) / beta;
    for (int i = 0; i < k; i++)
      z[i] = y[i] + alpha * y[k - i - 1];
    for (int i = 0; i < k; i++)
      y[i] = z[i];
    y[k] = alpha;
  }
#pragma endscop
}
