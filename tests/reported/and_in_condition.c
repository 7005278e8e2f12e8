/* The inner loop ends at the lesser of i and 33. */
void lesser(int a[40 * 41])
{
  for (int i = 1; i < 40; i++)
    for (int j = 0; (j < i) & (j < 33); j++)
      a[j * 41 + i] += j - i;
}
