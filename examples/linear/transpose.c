void transpose(const int *a, int *b, int rows, int columns)
{
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      b[j * rows + i] = a[i * columns + j];
}
