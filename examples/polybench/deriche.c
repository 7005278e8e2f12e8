/* Deriche's recursive edge filter, along the rows and then along the columns of an image.
   @input alpha expr 0.25 */
#include <math.h>

#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef EXP_FUN
#define EXP_FUN expf
#endif
#ifndef POW_FUN
#define POW_FUN powf
#endif
#ifndef W
#define W 192
#endif
#ifndef H
#define H 128
#endif

void kernel_deriche(DATA_TYPE alpha, const DATA_TYPE imgIn[W][H], DATA_TYPE imgOut[W][H], DATA_TYPE y1[W][H],
                    DATA_TYPE y2[W][H])
{
  DATA_TYPE xm1, tm1, ym1, ym2;
  DATA_TYPE xp1, xp2, tp1, tp2, yp1, yp2;
  DATA_TYPE k, a1, a2, a3, a4, a5, a6, a7, a8;
  DATA_TYPE b1, b2, c1, c2;
#pragma scop
  k = (1 - EXP_FUN(-alpha)) * (1 - EXP_FUN(-alpha)) / (1 + 2 * alpha * EXP_FUN(-alpha) - EXP_FUN(2 * alpha));
  a1 = a5 = k;
  a2 = a6 = k * EXP_FUN(-alpha) * (alpha - 1);
  a3 = a7 = k * EXP_FUN(-alpha) * (alpha + 1);
  a4 = a8 = -k * EXP_FUN(-2 * alpha);
  b1 = POW_FUN(2, -alpha);
  b2 = -EXP_FUN(-2 * alpha);
  c1 = c2 = 1;
  for (int i = 0; i < W; i++) {
    ym1 = 0;
    ym2 = 0;
    xm1 = 0;
    for (int j = 0; j < H; j++) {
      y1[i][j] = a1 * imgIn[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
      xm1 = imgIn[i][j];
      ym2 = ym1;
      ym1 = y1[i][j];
    }
  }
  for (int i = 0; i < W; i++) {
    yp1 = 0;
    yp2 = 0;
    xp1 = 0;
    xp2 = 0;
    for (int j = H - 1; j >= 0; j--) {
      y2[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
      xp2 = xp1;
      xp1 = imgIn[i][j];
      yp2 = yp1;
      yp1 = y2[i][j];
    }
  }
  for (int i = 0; i < W; i++)
    for (int j = 0; j < H; j++)
      imgOut[i][j] = c1 * (y1[i][j] + y2[i][j]);
  for (int j = 0; j < H; j++) {
    tm1 = 0;
    ym1 = 0;
    ym2 = 0;
    for (int i = 0; i < W; i++) {
      y1[i][j] = a5 * imgOut[i][j] + a6 * tm1 + b1 * ym1 + b2 * ym2;
      tm1 = imgOut[i][j];
      ym2 = ym1;
      ym1 = y1[i][j];
    }
  }
  for (int j = 0; j < H; j++) {
    tp1 = 0;
    tp2 = 0;
    yp1 = 0;
    yp2 = 0;
    for (int i = W - 1; i >= 0; i--) {
      y2[i][j] = a7 * tp1 + a8 * tp2 + b1 * yp1 + b2 * yp2;
      tp2 = tp1;
      tp1 = imgOut[i][j];
      yp2 = yp1;
      yp1 = y2[i][j];
    }
  }
  for (int i = 0; i < W; i++)
    for (int j = 0; j < H; j++)
      imgOut[i][j] = c2 * (y1[i][j] + y2[i][j]);
#pragma endscop
}
