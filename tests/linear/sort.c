void sort(int *a, int n) {
  for (int i = 1; i < n; i++) {
    int v = a[i], j = i;
    for (; j > 0 && v < a[j - 1]; j--) a[j] = a[j - 1];
    a[j] = v;
  }
}
