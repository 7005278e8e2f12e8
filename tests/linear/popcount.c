int popcount(int w) {
  int one = 0;
  for (unsigned u = w; u; u &= u - 1) one++;
  return one;
}
