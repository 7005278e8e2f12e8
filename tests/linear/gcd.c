int gcd(int a, int b) {
  while (a != b)
    if (a < b) b -= a; else a -= b;
  return a;
}
