void copy(int *to, const int *from, int n)
{
  for (int i = 0; i < n; i++)
    to[i] = from[i];
}
