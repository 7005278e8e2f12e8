/* Fast Fourier transform of N = 2^m points, decimation in time, in place after a bit reversal; complex numbers
 * interleaved.
 * @input w expr np.stack([cos(2*pi*arange(N//2)/N),-sin(2*pi*arange(N//2)/N)],1).ravel()
 * @input rev expr bitrev(N)
 */
#ifndef N
#define N 64
#endif

void kernel(const float x[2*N], const float w[N], const int rev[N], float y[2*N])
{
  int len, i, k;
  float tr, ti;
#pragma scop
  for (i = 0; i < N; i++) {
    y[2*i] = x[2*rev[i]];
    y[2*i+1] = x[2*rev[i]+1];
  }
  for (len = 2; len <= N; len <<= 1)
    for (i = 0; i < N; i += len)
      for (k = 0; k < len / 2; k++) {
        tr = w[2*(k * (N / len))] * y[2*(i + k + len / 2)] - w[2*(k * (N / len))+1] * y[2*(i + k + len / 2)+1];
        ti = w[2*(k * (N / len))] * y[2*(i + k + len / 2)+1] + w[2*(k * (N / len))+1] * y[2*(i + k + len / 2)];
        y[2*(i + k + len / 2)] = y[2*(i + k)] - tr;
        y[2*(i + k + len / 2)+1] = y[2*(i + k)+1] - ti;
        y[2*(i + k)] = y[2*(i + k)] + tr;
        y[2*(i + k)+1] = y[2*(i + k)+1] + ti;
      }
#pragma endscop
}
