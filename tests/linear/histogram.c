void histogram(const int *p, int *h, int n) {
  for (int i = 0; i < n; i++) h[p[i]]++;
}
