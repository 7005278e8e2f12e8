void shufrev(const int *x, int *y, int groups) {
  for (int g = 0; g < groups; g++)
    for (int i = 0; i < 16; i++) y[16 * g + i] = x[16 * g + 15 - i];
}
