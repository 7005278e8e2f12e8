/* 1.9 is a double. */
void wave(float a[64][64])
{
  for (int j = 1; j < 64; j++)
    for (int i = 1; i < 64; i++)
      a[j][i] = (a[j][i - 1] + a[j - 1][i]) / 1.9;
}
