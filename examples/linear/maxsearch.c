/* the place of the first of the largest numbers; -1 where there are none */
int maxsearch(const int *x, int n)
{
  int at = -1, best = 0;
  for (int i = 0; i < n; i++)
    if (i == 0 || x[i] > best) {
      best = x[i];
      at = i;
    }
  return at;
}
