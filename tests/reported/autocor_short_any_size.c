/* Correlation of 16-bit samples, of any size. */
void a2(short *restrict r, const short *restrict x, int nx, int nr)
{
  for (int i = 0; i < nr; i++) {
    int s = 0;
    for (int k = nr; k < nx + nr; k++)
      s += x[k] * x[k - i];
    r[i] = s >> 15;
  }
}
