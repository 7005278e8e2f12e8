void rowsum(const float *a, int lda, int m, int n, float *out) {
  for (int i = 0; i < m; i++) {
    float s = 0;
    for (int j = 0; j < n; j++) s += a[i * lda + j];
    out[i] = s;
  }
}
