/* Fast Fourier transform of N = 2^m points, decimation in time, in place after a bit reversal; real and imaginary
 * parts apart.
 * @input wr expr cos(2*pi*arange(N//2)/N)
 * @input wi expr -sin(2*pi*arange(N//2)/N)
 * @input rev expr bitrev(N)
 */
#ifndef N
#define N 64
#endif

void kernel(const float xr[N], const float xi[N], const float wr[N/2], const float wi[N/2], const int rev[N], float yr[N], float yi[N])
{
  int len, i, k;
  float tr, ti;
#pragma scop
  for (i = 0; i < N; i++) {
    yr[i] = xr[rev[i]];
    yi[i] = xi[rev[i]];
  }
  for (len = 2; len <= N; len <<= 1)
    for (i = 0; i < N; i += len)
      for (k = 0; k < len / 2; k++) {
        tr = wr[k * (N / len)] * yr[i + k + len / 2] - wi[k * (N / len)] * yi[i + k + len / 2];
        ti = wr[k * (N / len)] * yi[i + k + len / 2] + wi[k * (N / len)] * yr[i + k + len / 2];
        yr[i + k + len / 2] = yr[i + k] - tr;
        yi[i + k + len / 2] = yi[i + k] - ti;
        yr[i + k] = yr[i + k] + tr;
        yi[i + k] = yi[i + k] + ti;
      }
#pragma endscop
}
