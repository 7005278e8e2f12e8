/* Transposed convolution with modulo guards: a loop runs once at y = 0 and y = 15, else twice. */
void transposed(const float a[8][8], const float w[4][4], float o[16][16])
{
  for (int y = 0; y < 16; y++)
    for (int x = 0; x < 16; x++) {
      o[y][x] = 0.0f;
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++)
          if ((y + 1 - r) % 2 == 0 && (x + 1 - s) % 2 == 0 && y + 1 - r >= 0 && y + 1 - r < 16 && x + 1 - s >= 0 &&
              x + 1 - s < 16)
            o[y][x] += a[(y + 1 - r) / 2][(x + 1 - s) / 2] * w[r][s];
    }
}
