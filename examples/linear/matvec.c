/* a has its columns one after the other */
void matvec(const float *a, const float *x, float *y, int rows, int columns)
{
  for (int i = 0; i < rows; i++) {
    float s = 0.0f;
    for (int j = 0; j < columns; j++)
      s += a[j * rows + i] * x[j];
    y[i] = s;
  }
}
