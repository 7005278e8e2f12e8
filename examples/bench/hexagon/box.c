/* Sums of 3 x 3 bytes of an image, an eighth of each. */
#ifndef H
#define H 64
#endif
#ifndef W
#define W 128
#endif
void box(unsigned char y[restrict H - 2][W - 2], const unsigned char x[H][W]) {
#pragma scop
  for (int i = 0; i < H - 2; i++)
    for (int j = 0; j < W - 2; j++) {
      int s = x[i][j] + x[i][j + 1] + x[i][j + 2] + x[i + 1][j] + x[i + 1][j + 1] + x[i + 1][j + 2] + x[i + 2][j]
              + x[i + 2][j + 1] + x[i + 2][j + 2];
      y[i][j] = s * 7 >> 6;
    }
#pragma endscop
}
