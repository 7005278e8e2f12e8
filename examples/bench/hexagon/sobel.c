/* Edges of an image of bytes. */
#ifndef H
#define H 64
#endif
#ifndef W
#define W 128
#endif
void sobel(unsigned char y[restrict H - 2][W - 2], const unsigned char x[H][W]) {
#pragma scop
  for (int i = 0; i < H - 2; i++)
    for (int j = 0; j < W - 2; j++) {
      int a = x[i][j] + 2 * x[i][j + 1] + x[i][j + 2] - x[i + 2][j] - 2 * x[i + 2][j + 1] - x[i + 2][j + 2];
      int b = x[i][j] + 2 * x[i + 1][j] + x[i + 2][j] - x[i][j + 2] - 2 * x[i + 1][j + 2] - x[i + 2][j + 2];
      int c = (a < 0 ? -a : a) + (b < 0 ? -b : b);
      y[i][j] = c > 255 ? 255 : c;
    }
#pragma endscop
}
