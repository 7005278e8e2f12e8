void relu(int *x, int n) {
  for (int i = 0; i < (n + 15) / 16 * 16; i++) x[i] = x[i] < 0 ? 0 : x[i];
}
