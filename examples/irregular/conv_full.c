/* Full 2-D convolution of a small image with a smaller filter; the borders are guards. */
#ifndef H
#define H 3
#endif
#ifndef W
#define W 5
#endif
#ifndef FH
#define FH 3
#endif
#ifndef FW
#define FW 3
#endif

void conv_full(const float image[H][W], const float filter[FH][FW], float out[H + FH - 1][W + FW - 1])
{
  for (int i = 0; i < H + FH - 1; i++)
    for (int j = 0; j < W + FW - 1; j++) {
      float sum = 0.0f;
      for (int k = 0; k < FH; k++)
        for (int l = 0; l < FW; l++)
          if (i - k >= 0 && i - k < H && j - l >= 0 && j - l < W)
            sum += image[i - k][j - l] * filter[k][l];
      out[i][j] = sum;
    }
}
