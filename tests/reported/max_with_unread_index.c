/* A maximum beside an index that nobody reads. */
void m1(const float x[512], float out[1])
{
  int at = 0;
  float max = -3.4e38f;
  for (int i = 0; i < 512; i++)
    if (x[i] > max) {
      max = x[i];
      at = i;
    }
  out[0] = max;
}
