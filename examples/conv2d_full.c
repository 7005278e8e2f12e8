/* Full 2-D convolution of an H x W image with an F x F filter: every output that any pixel reaches. */
#ifndef H
#define H 16
#endif
#ifndef W
#define W 16
#endif
#ifndef F
#define F 3
#endif

void conv2d_full(const float in[H][W], const float f[F][F], float out[H + F - 1][W + F - 1])
{
  for (int i = 0; i < H + F - 1; i++)
    for (int j = 0; j < W + F - 1; j++) {
      out[i][j] = 0.0f;
      for (int k = 0; k < F; k++)
        for (int l = 0; l < F; l++)
          if (i - k >= 0 && i - k < H && j - l >= 0 && j - l < W)
            out[i][j] += in[i - k][j - l] * f[k][l];
    }
}
