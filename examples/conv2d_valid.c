/* 2-D correlation of an H x W image with an F x F filter, where the filter fits inside the image. */
#ifndef H
#define H 64
#endif
#ifndef W
#define W 64
#endif
#ifndef F
#define F 4
#endif

void conv2d_valid(const float in[H][W], const float f[F][F], float out[H - F + 1][W - F + 1])
{
  for (int i = 0; i < H - F + 1; i++)
    for (int j = 0; j < W - F + 1; j++) {
      out[i][j] = 0.0f;
      for (int k = 0; k < F; k++)
        for (int l = 0; l < F; l++)
          out[i][j] += in[i + k][j + l] * f[k][l];
    }
}
