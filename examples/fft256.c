/* Complex FFT of 256 points in split form: radix 2, Stockham order, one loop nest for each stage.
 * wr and wi are the cosines and the negated sines of 2 pi j / N.
 * @input wr expr cos(2*pi*arange(N//2)/N)
 * @input wi expr -sin(2*pi*arange(N//2)/N)
 */
#define N 256

void fft256(const float xr[N], const float xi[N], const float wr[N / 2], const float wi[N / 2], float yr[N], float yi[N])
{
  float ar[N], ai[N], br[N], bi[N];
  for (int j = 0; j < 128; j++) {
    ar[2 * j] = xr[j] + xr[j + 128];
    ai[2 * j] = xi[j] + xi[j + 128];
    ar[2 * j + 1] = wr[j] * (xr[j] - xr[j + 128]) - wi[j] * (xi[j] - xi[j + 128]);
    ai[2 * j + 1] = wr[j] * (xi[j] - xi[j + 128]) + wi[j] * (xr[j] - xr[j + 128]);
  }
  for (int j = 0; j < 64; j++)
    for (int k = 0; k < 2; k++) {
      br[4 * j + k] = ar[2 * j + k] + ar[2 * j + k + 128];
      bi[4 * j + k] = ai[2 * j + k] + ai[2 * j + k + 128];
      br[4 * j + k + 2] = wr[2 * j] * (ar[2 * j + k] - ar[2 * j + k + 128]) - wi[2 * j] * (ai[2 * j + k] - ai[2 * j + k + 128]);
      bi[4 * j + k + 2] = wr[2 * j] * (ai[2 * j + k] - ai[2 * j + k + 128]) + wi[2 * j] * (ar[2 * j + k] - ar[2 * j + k + 128]);
    }
  for (int j = 0; j < 32; j++)
    for (int k = 0; k < 4; k++) {
      ar[8 * j + k] = br[4 * j + k] + br[4 * j + k + 128];
      ai[8 * j + k] = bi[4 * j + k] + bi[4 * j + k + 128];
      ar[8 * j + k + 4] = wr[4 * j] * (br[4 * j + k] - br[4 * j + k + 128]) - wi[4 * j] * (bi[4 * j + k] - bi[4 * j + k + 128]);
      ai[8 * j + k + 4] = wr[4 * j] * (bi[4 * j + k] - bi[4 * j + k + 128]) + wi[4 * j] * (br[4 * j + k] - br[4 * j + k + 128]);
    }
  for (int j = 0; j < 16; j++)
    for (int k = 0; k < 8; k++) {
      br[16 * j + k] = ar[8 * j + k] + ar[8 * j + k + 128];
      bi[16 * j + k] = ai[8 * j + k] + ai[8 * j + k + 128];
      br[16 * j + k + 8] = wr[8 * j] * (ar[8 * j + k] - ar[8 * j + k + 128]) - wi[8 * j] * (ai[8 * j + k] - ai[8 * j + k + 128]);
      bi[16 * j + k + 8] = wr[8 * j] * (ai[8 * j + k] - ai[8 * j + k + 128]) + wi[8 * j] * (ar[8 * j + k] - ar[8 * j + k + 128]);
    }
  for (int j = 0; j < 8; j++)
    for (int k = 0; k < 16; k++) {
      ar[32 * j + k] = br[16 * j + k] + br[16 * j + k + 128];
      ai[32 * j + k] = bi[16 * j + k] + bi[16 * j + k + 128];
      ar[32 * j + k + 16] = wr[16 * j] * (br[16 * j + k] - br[16 * j + k + 128]) - wi[16 * j] * (bi[16 * j + k] - bi[16 * j + k + 128]);
      ai[32 * j + k + 16] = wr[16 * j] * (bi[16 * j + k] - bi[16 * j + k + 128]) + wi[16 * j] * (br[16 * j + k] - br[16 * j + k + 128]);
    }
  for (int j = 0; j < 4; j++)
    for (int k = 0; k < 32; k++) {
      br[64 * j + k] = ar[32 * j + k] + ar[32 * j + k + 128];
      bi[64 * j + k] = ai[32 * j + k] + ai[32 * j + k + 128];
      br[64 * j + k + 32] = wr[32 * j] * (ar[32 * j + k] - ar[32 * j + k + 128]) - wi[32 * j] * (ai[32 * j + k] - ai[32 * j + k + 128]);
      bi[64 * j + k + 32] = wr[32 * j] * (ai[32 * j + k] - ai[32 * j + k + 128]) + wi[32 * j] * (ar[32 * j + k] - ar[32 * j + k + 128]);
    }
  for (int j = 0; j < 2; j++)
    for (int k = 0; k < 64; k++) {
      ar[128 * j + k] = br[64 * j + k] + br[64 * j + k + 128];
      ai[128 * j + k] = bi[64 * j + k] + bi[64 * j + k + 128];
      ar[128 * j + k + 64] = wr[64 * j] * (br[64 * j + k] - br[64 * j + k + 128]) - wi[64 * j] * (bi[64 * j + k] - bi[64 * j + k + 128]);
      ai[128 * j + k + 64] = wr[64 * j] * (bi[64 * j + k] - bi[64 * j + k + 128]) + wi[64 * j] * (br[64 * j + k] - br[64 * j + k + 128]);
    }
  for (int k = 0; k < 128; k++) {
    yr[k] = ar[k] + ar[k + 128];
    yi[k] = ai[k] + ai[k + 128];
    yr[k + 128] = wr[0] * (ar[k] - ar[k + 128]) - wi[0] * (ai[k] - ai[k + 128]);
    yi[k + 128] = wr[0] * (ai[k] - ai[k + 128]) + wi[0] * (ar[k] - ar[k + 128]);
  }
}
