/* c[6][48] += the columns a[k][6] times the rows b[k][48] */
void gemm(const float *a, const float *b, float *c, int k)
{
  for (int t = 0; t < k; t++)
    for (int i = 0; i < 6; i++)
      for (int j = 0; j < 48; j++)
        c[i * 48 + j] += a[t * 6 + i] * b[t * 48 + j];
}
