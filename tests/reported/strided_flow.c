/* Two nests in loops of step 3, with guarded statements that write the same arrays. */
void strided(const int a[16], const float b[10][10], float c[16], int d[24])
{
  for (int i = 0; i < 5; i += 3)
    for (int j = 0; j <= 8; j++) {
      if (j >= i - 1)
        c[i + j + 1] = c[i + j] * 0.3f + c[i + 3];
      else
        d[4] = d[i + 2] - (d[4] > a[j + 4] ? 30 : d[j + 2]);
    }
  for (int i = 0; i <= 3; i += 3)
    for (int j = 1; j < 10; j++) {
      if (b[j][i + 1] > -0.3f)
        c[j - 1] = b[i][j - 1];
      else
        d[i + 2] = d[i + 2] > a[i + 2] ? a[3 - i] : d[2 * j + 2] - d[i];
    }
}
