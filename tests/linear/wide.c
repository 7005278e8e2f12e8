void wide(const unsigned *x, int n, unsigned long long *r) {
  unsigned long long s = 0;
  for (int i = 0; i < n; i++) s += (unsigned long long)x[i] * x[i];
  *r = s;
}
