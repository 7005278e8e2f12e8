void deinterleave(const float *z, float *re, float *im, int n) {
  for (int i = 0; i < (n + 15) / 16 * 16; i++) {
    re[i] = z[2 * i];
    im[i] = z[2 * i + 1] + z[2 * i + 1];
  }
}
