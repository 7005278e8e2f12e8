int absmax(const int *x, int n, int *y) {
  int best = 0;
  for (int i = 0; i < n; i++) {
    int v = x[i], neg = v < 0;
    if (neg) { v = -v; y[0] = v; }
    if (best < v) { best = v; if (!neg) y[1] = best; }
  }
  return best;
}
