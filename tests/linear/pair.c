int pair(const int *x, int n) {
  int m = x[0];
  for (int i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}
