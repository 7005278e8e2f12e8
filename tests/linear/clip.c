int clip(const int *x, int *y, int n, int lo, int hi) {
  int hits = 0;
  for (int i = 0; i < n; i++) {
    int v = x[i];
    if (v < lo) { v = lo; hits++; }
    if (hi < v) { v = hi; hits++; }
    y[i] = v;
  }
  return hits;
}
