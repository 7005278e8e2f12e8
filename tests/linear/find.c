int find(const int *s, int n, int key) {
  int at = 0;
  do { if (s[at] == key) return at; at++; } while (at < n);
  return -1;
}
