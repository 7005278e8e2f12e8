/* Nussinov's dynamic program for the folding of an RNA sequence.
   @input seq expr (arange(N)*arange(N) + arange(N)//3) % 4
   @input table expr 0 */
#ifndef DATA_TYPE
#define DATA_TYPE int
#endif
#ifndef N
#define N 180
#endif

#define MATCH(b1, b2) ((b1) + (b2) == 3 ? 1 : 0)
#define MAX_SCORE(s1, s2) ((s1) >= (s2) ? (s1) : (s2))

void kernel_nussinov(const DATA_TYPE seq[N], DATA_TYPE table[N][N])
{
#pragma scop
  for (int i = N - 1; i >= 0; i--)
    for (int j = i + 1; j < N; j++) {
      if (j - 1 >= 0)
        table[i][j] = MAX_SCORE(table[i][j], table[i][j - 1]);
      if (i + 1 < N)
        table[i][j] = MAX_SCORE(table[i][j], table[i + 1][j]);
      if (j - 1 >= 0 && i + 1 < N) {
        /* Two neighbours in the sequence don't pair. */
        if (i < j - 1)
          table[i][j] = MAX_SCORE(table[i][j], table[i + 1][j - 1] + MATCH(seq[i], seq[j]));
        else
          table[i][j] = MAX_SCORE(table[i][j], table[i + 1][j - 1]);
      }
      for (int k = i + 1; k < j; k++)
        table[i][j] = MAX_SCORE(table[i][j], table[i][k] + table[k + 1][j]);
    }
#pragma endscop
}
