void vadd(const int *a, const int *b, int *c, int n) {
  for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
}
