/* b is a first-order recurrence once a is put in. */
void coupled(float a[640], float b[640], float c[640], float d[640], float e[640])
{
  for (int i = 1; i < 640; i++) {
    a[i] = b[i - 1] + c[i] * d[i];
    b[i] = a[i] + c[i] * e[i];
  }
}
