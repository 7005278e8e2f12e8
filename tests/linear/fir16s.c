void fir16s(const short *x, const short *h, short *y, int n, int nh) {
  for (int i = 0; i < n; i++) {
    int acc = 0;
    for (int t = 0; t < nh; t++) acc += x[i + t] * h[t];
    y[i] = acc >> 15;
  }
}
