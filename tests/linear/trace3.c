int trace3(const int *a, int n) {
  int total = 0;
  for (int i = 0; i < n * n * n && n > 0; i++) total += a[i];
  return total;
}
