/* Each i writes a[1..] before it reads it. */
void private_row(float a[64], float d[64], float x[64][64], float y[64][64])
{
  for (int i = 0; i < 64; i++)
    for (int j = 1; j < 64; j++) {
      a[j] = 1.0f - a[j - 1];
      x[j][i] = a[j] + y[j][i] * d[j];
    }
}
