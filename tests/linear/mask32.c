int mask32(int *x, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) {
    x[i] = (0x12345678 ^ (x[i] & 0x7f0000ff)) - 2;
    s += x[i];
  }
  return s;
}
