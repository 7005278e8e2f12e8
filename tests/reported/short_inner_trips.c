/* Lattice filter; the number of stages is known at run time only. */
void l1(const float *x, int nx, const float *restrict k, int nk, float *restrict b, float *restrict y)
{
  for (int j = 0; j < nx; j++) {
    float t = x[j];
    for (int i = nk - 1; i >= 0; i--) {
      t = t - b[i] * k[i];
      b[i + 1] = b[i] + t * k[i];
    }
    b[0] = t;
    y[j] = t;
  }
}
