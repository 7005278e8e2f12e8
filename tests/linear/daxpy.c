void daxpy(int n, double alpha, const double *x, double *y) {
  for (int i = 0; i < n; i++) y[i] = alpha * x[i] + y[i];
}
