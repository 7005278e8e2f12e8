void smooth(int *a, int n) {
  for (int i = 1; i < n - 1; i++) a[i] = (a[i - 1] + a[i] + a[i + 1]) >> 1;
}
