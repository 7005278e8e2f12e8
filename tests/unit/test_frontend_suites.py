"""Loops as other people write them: what is read from them does what the host's compiler makes them do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import gives_value, read_c
from dspgen.oracle import random_inputs, run_c
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import NUMPY, shape_of
from plant_core.ir.func import Buf


@dataclass(frozen=True, slots=True)
class Kernel:
    """`sizes` are tried in turn; `ranges` says what integers an array has, where it can't have any."""

    sizes: str
    ranges: str
    text: str


KERNELS = {
    "triangle backwards": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float a[N], float bb[N][N]) { for (int i = 1; i < N; i++) for (int j = 0; j <= i - 1; j++)
          a[i] += bb[j][i] * a[i-j-1]; }""",
    ),
    "sometimes two": Kernel(
        "",
        "",
        """
        #define N 34
        void k(float a[N], float b[N], float c[N], float d[N], float e[N]) { int j = -1; for (int i = 0; i <
          N/2; i++) { j++; a[j] = b[i] + d[i]*e[i]; if (c[i] > 0.f) { j++; a[j] = c[i] + d[i]*e[i]; } } }""",
    ),
    "skipping counter": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float flat[N*N], float bb[N][N], float cc[N][N]) { int k = 1; for (int i = 0; i < N; i++) {
          for (int j = 1; j < N; j++) { bb[j][i] = bb[j-1][i] + flat[k-1]*cc[j][i]; ++k; } ++k; } }""",
    ),
    "linked counters": Kernel(
        "",
        "",
        """
        #define N 34
        void k(float a[N], float b[N], float c[N], float d[N]) { int j = -1, k; for (int i = 0; i < N/2;
          i++) { k = j + 1; a[i] = b[k] - d[i]; j = k + 1; b[k] = a[i] + c[k]; } }""",
    ),
    "packed columns": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float flat[N*(N+1)/2], float bb[N][N]) { int k; for (int i = 0; i < N; i++) { k =
          (i+1)*((i+1)-1)/2 + (i+1)-1; for (int j = i; j < N; j++) { flat[k] += bb[j][i]; k += j+1; } } }""",
    ),
    "wrap around": Kernel(
        "",
        "",
        """
        #define N 34
        void k(float a[N], float b[N]) { int im1 = N-1, im2 = N-2; for (int i = 0; i < N; i++) { a[i] =
          (b[i] + b[im1] + b[im2])*.333f; im2 = im1; im1 = i; } }""",
    ),
    "kept value": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float a[N], float b[N], float c[N], float d[N], float e[N], float aa[N][N]) { float s = 0.f;
          for (int i = 0; i < N; ++i) { if (a[i] > 0.f) s = d[i]*d[i]; b[i] = s*c[i] + d[i]; e[i] = (s +
          1.f)*aa[0][i]; } }""",
    ),
    "sums of parts": Kernel(
        "",
        "",
        """
        #define N 32
        static float test(float *A) { float s = 0.f; for (int i = 0; i < 4; i++) s += A[i]; return s; }
        void k(float a[N], float *r) { float sum = 0.f; sum += test(a); sum += test(&a[4]); sum +=
          test(&a[8]); sum += test(a+12); *r = sum; }""",
    ),
    "largest by index": Kernel(
        "",
        "",
        """
        #define N 34
        void k(const float a[N], int *index_out) { int index = 0; for (int i = 1; i < N; ++i) if (a[i] >
          a[index]) index = i; *index_out = index; }""",
    ),
    "largest of a matrix": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float aa[N][N], float r[3]) { float max = aa[0][0]; int x = 0, y = 0; for (int i = 0; i < N;
          i++) for (int j = 0; j < N; j++) if (aa[i][j] > max) { max = aa[i][j]; x = i; y = j; } r[0] = max;
          r[1] = x+1; r[2] = y+1; }""",
    ),
    "largest by stride": Kernel(
        "inc=1;inc=3",
        "",
        """
        #include <math.h>
        #define N 34
        void k(float a[N*4], float r[2], int inc) { int k = 0, index = 0; float max = fabsf(a[0]); k += inc;
          for (int i = 1; i < N; i++) { if (fabsf(a[k]) > max) { index = i; max = fabsf(a[k]); } k += inc; }
          r[0] = max + index + 1; }""",
    ),
    "first above": Kernel(
        "",
        "",
        """
        #define N 34
        void k(float a[N], float r[2]) { int index = -2; float value = -1.f; for (int i = 0; i < N; i++) {
          if (a[i] > 0.5f) { index = i; value = a[i]; break; } } r[0] = value + index; }""",
    ),
    "compaction": Kernel(
        "",
        "",
        """
        #define N 34
        void k(float a[N], float b[N]) { int j = -1; for (int i = 0; i < N; i++) if (b[i] > 0.f) { j++; a[j]
          = b[i]; } }""",
    ),
    "gather and scatter": Kernel(
        "",
        "ip:0:35",
        """
        #define N 35
        void k(float a[N], float b[N], float c[N], int *ip) { for (int i = 0; i < N; i++) a[ip[i]] =
          b[ip[i]] + c[i]; }""",
    ),
    "cases by data": Kernel(
        "",
        "ind:0:6",
        """
        #define N 35
        void k(float a[N], float b[N], float c[N], float d[N], float e[N], const int ind[N]) { for (int i =
          0; i < N; i++) { switch (ind[i]) { case 1: a[i] += b[i]*b[i]; break; case 2: a[i] += c[i]*c[i];
          break; case 3: case 4: a[i] += d[i]; break; default: a[i] += e[i]*e[i]; } } }""",
    ),
    "leaves late": Kernel(
        "",
        "",
        """
        #define N 35
        void k(float a[N], float b[N], float c[N]) { for (int i = 0; i < N; i++) { a[i] += b[i]*c[i]; if
          (c[i] > b[i]) break; } }""",
    ),
    "halving": Kernel(
        "",
        "",
        """
        #define n 32
        void k(double x[2*n], double v[2*n]) { int ii, i, ipnt, ipntp; ii = n; ipntp = 0; do { ipnt = ipntp;
          ipntp += ii; ii /= 2; i = ipntp; for (int k = ipnt+1; k < ipntp; k = k + 2) { i++; x[i] = x[k] -
          v[k]*x[k-1] - v[k+1]*x[k+1]; } } while (ii > 0); }""",
    ),
    "banded elimination": Kernel(
        "",
        "",
        """
        #define n 40
        void k(double x[2*n], double y[2*n]) { int m = (101-7)/2; for (int k = 6; k < 40; k = k + 8) { int
          lw = k - 6; double temp = x[k-1]; for (int j = 4; j < n; j = j+5) { temp -= x[lw]*y[j]; lw++; }
          x[k-1] = y[4]*temp; } }""",
    ),
    "particles": Kernel(
        "",
        "e:0:4,f:0:4",
        """
        #define n 20
        void k(double p[n][4], double b[8][8], double c[8][8], const int e[8], const int f[8], double y[16],
          double z[16], double h[8][8]) { int i1, j1; for (int ip = 0; ip < n; ip++) { i1 = (int)p[ip][0];
          j1 = (int)p[ip][1]; i1 &= 8-1; j1 &= 8-1; p[ip][2] += b[j1][i1]; p[ip][3] += c[j1][i1]; p[ip][0]
          += p[ip][2]; p[ip][1] += p[ip][3]; i1 = i1 + e[i1]; h[i1 & 7][j1] += 1.0; } }""",
    ),
    "dotp": Kernel(
        "n=8;n=1",
        "",
        """
        int dotp(const short *x, const short *y, int n) { int sum = 0; for (int i = 0; i < n; i++) sum +=
          x[i]*y[i]; return sum; }""",
    ),
    "maxidx": Kernel(
        "n=8;n=1",
        "",
        """
        int maxidx(const short *x, int n) { int best = x[0], idx = 0, i; for (i = 1; i < n; i++) { if (x[i]
          > best) { best = x[i]; idx = i; } } return idx; }""",
    ),
    "firsym": Kernel(
        "nh=4,nr=5",
        "",
        """
        #include <stdint.h>
        void k(const int16_t * restrict x, const int16_t * restrict h, int16_t * restrict r, int nh, int nr)
          { int i, j; int64_t y0; for (j = 0; j < nr; j++) { y0 = 0; for (i = 0; i < nh; i++) y0 +=
          (int32_t)x[j+i]*h[i]; r[j] = (int16_t)(y0 >> 15); } }""",
    ),
    "fircplx": Kernel(
        "nh=4,nr=5",
        "",
        """
        void k(const short *x, const short *h, short *r, int nh, int nr) { int i, j, imag, real; for (i = 0;
          i < 2*nr; i += 2) { imag = 0; real = 0; for (j = 0; j < 2*nh; j += 2) { real += h[j]*x[i-j+2*nh-2]
          - h[j+1]*x[i+1-j+2*nh-2]; imag += h[j]*x[i+1-j+2*nh-2] + h[j+1]*x[i-j+2*nh-2]; } r[i] = (real >>
          15); r[i+1] = (imag >> 15); } }""",
    ),
    "iirbiq": Kernel(
        "nx=5,ns=2",
        "",
        """
        void k(const float *x, float *y, const float *coef, float *state, int nx, int ns) { for (int n = 0;
          n < nx; n++) { float in = x[n]; for (int s = 0; s < ns; s++) { const float *c = coef + 5*s; float
          *d = state + 2*s; float w = in - c[3]*d[0] - c[4]*d[1]; float out = c[0]*w + c[1]*d[0] +
          c[2]*d[1]; d[1] = d[0]; d[0] = w; in = out; } y[n] = in; } }""",
    ),
    "lms": Kernel(
        "n=6,taps=4",
        "",
        """
        void k(const float *x, const float *d, float *h, float *e, float mu, int n, int taps) { for (int i =
          0; i < n; i++) { float y = 0.0f; for (int j = 0; j < taps; j++) y += h[j]*x[i+j]; e[i] = d[i] - y;
          for (int j = 0; j < taps; j++) h[j] += mu*e[i]*x[i+j]; } }""",
    ),
    "dspstone fir": Kernel(
        "",
        "",
        """
        #define ORDER 16
        void k(const int x[ORDER], const int h[ORDER], int *out, int x0) { int xs[ORDER]; const int *ph =
          &h[ORDER-1]; int *px, *px2; int y, i; for (i = 0; i < ORDER; i++) xs[i] = x[i]; px = &xs[ORDER-1];
          px2 = &xs[ORDER-2]; y = 0; for (i = 0; i < ORDER-1; i++) { y += *ph-- * *px; *px-- = *px2--; } y
          += *ph * *px; *px = x0; *out = y; }""",
    ),
    "dspstone biquadN": Kernel(
        "",
        "",
        """
        #define N 4
        void k(const int x, int wi[2*N], const int coef[5*N], int *yo) { int *pw1 = wi, *pw2 = wi + 1; const
          int *pc = coef; int y = x, w; for (int i = 0; i < N; i++) { w = y - *pc++ * *pw1; w -= *pc++ *
          *pw2; y = *pc++ * w; y += *pc++ * *pw1; y += *pc++ * *pw2; *pw2++ = *pw1; pw2++; *pw1++ = w;
          pw1++; } *yo = y; }""",
    ),
    "fir2dim": Kernel(
        "",
        "",
        """
        #define D 6
        void k(const int coef[9], const int image[(D+2)*(D+2)], int out[D*D]) { const int *pi, *pi2, *pi3,
          *pc; int *po = &out[0]; int f, i, kk; for (kk = 0; kk < D; kk++) { for (f = 0; f < D; f++) { pc =
          &coef[0]; pi = &image[kk*(D+2) + f]; pi2 = pi + (D+2); pi3 = pi + 2*(D+2); *po = 0; for (i = 0; i
          < 3; i++) *po += *pc++ * *pi++; for (i = 0; i < 3; i++) *po += *pc++ * *pi2++; for (i = 0; i < 3;
          i++) *po += *pc++ * *pi3++; po++; } } }""",
    ),
    "fft2": Kernel(
        "",
        "",
        """
        #define N 16
        void k(float re[N], float im[N], const float wr[N/2], const float wi[N/2]) { for (int len = N/2,
          step = 1; len >= 1; len >>= 1, step <<= 1) for (int s = 0; s < N; s += 2*len) for (int j = 0; j <
          len; j++) { float ar = re[s+j], ai = im[s+j], br = re[s+j+len], bi = im[s+j+len]; re[s+j] = ar +
          br; im[s+j] = ai + bi; float tr = ar - br, ti = ai - bi; re[s+j+len] = tr*wr[j*step] -
          ti*wi[j*step]; im[s+j+len] = tr*wi[j*step] + ti*wr[j*step]; } }""",
    ),
    "fft while": Kernel(
        "",
        "",
        """
        #define N 16
        void k(float x[2*N], const float w[N]) { int n2 = N, ie = 1, kk, i, j, l, ia; for (kk = N; kk > 1;
          kk = (kk >> 1)) { n2 = n2 >> 1; ia = 0; for (j = 0; j < n2; j++) { float c = w[ia], s = w[ia+1];
          ia = ia + 2*ie; for (i = j; i < N; i += 2*n2) { l = i + n2; float xt = x[2*i] - x[2*l], yt =
          x[2*i+1] - x[2*l+1]; x[2*i] += x[2*l]; x[2*i+1] += x[2*l+1]; x[2*l] = c*xt + s*yt; x[2*l+1] = c*yt
          - s*xt; } } ie <<= 1; } }""",
    ),
    "fdct": Kernel(
        "num=2",
        "",
        """
        void k(short *dct_data, unsigned num) { const unsigned short c1 = 0x2C62, c3 = 0x25A0; short
          *dct_io_ptr = dct_data; unsigned i, j; for (i = 0; i < num; i++) { for (j = 0; j < 8; j++) { short
          f0 = dct_io_ptr[0], f1 = dct_io_ptr[8], f7 = dct_io_ptr[56]; short p0 = f0 + f7; short p1 = f0 -
          f7; dct_io_ptr[0] = (p0*c1 + 0x8000) >> 16; dct_io_ptr[8] = (f1*c3) >> 16; dct_io_ptr[56] = p1;
          dct_io_ptr++; } dct_io_ptr += 56; } }""",
    ),
    "acorr shift": Kernel(
        "len=8,order=3,shift=4",
        "",
        """
        #include <stdint.h>
        void k(const int16_t *x, int len, int order, int shift, int32_t *ac) { for (int k = 0; k <= order;
          k++) { int32_t s = 0; for (int n = k; n < len; n++) s += ((int32_t)x[n]*x[n-k]) >> shift; ac[k] =
          s; } }""",
    ),
    "viterbi": Kernel(
        "",
        "",
        """
        #define S 8
        void k(const unsigned short old[S], unsigned short new_[S], unsigned char dec[S], const short bm[S])
          { for (int s = 0; s < S/2; s++) { unsigned short m0 = old[2*s] + bm[s], m1 = old[2*s+1] - bm[s];
          if (m0 < m1) { new_[s] = m0; dec[s] = 0; } else { new_[s] = m1; dec[s] = 1; } m0 = old[2*s] -
          bm[s]; m1 = old[2*s+1] + bm[s]; new_[s+S/2] = m0 < m1 ? m0 : m1; dec[s+S/2] = m0 < m1 ? 0 : 1; } }""",
    ),
    "hist3": Kernel(
        "n=20",
        "",
        """
        void k(const unsigned char *restrict img, unsigned hist[static 256], int n) { const unsigned char
          *end = img + n; while (img < end) hist[*img++]++; }""",
    ),
    "medianmac": Kernel(
        "",
        "",
        """
        #define MIN(a,b) ((a)<(b)?(a):(b))
        #define MAX(a,b) ((a)>(b)?(a):(b))
        #define SORT(a,b) do { int t_ = MIN(a,b); b = MAX(a,b); a = t_; } while (0)
        void k(const short x[30], short y[30]) { for (int i = 1; i < 29; i++) { int a = x[i-1], b = x[i], c
          = x[i+1]; SORT(a,b); SORT(b,c); SORT(a,b); y[i] = b; } }""",
    ),
    "conv3x3": Kernel(
        "cols=6",
        "",
        """
        void k(const unsigned char *restrict in, unsigned char *restrict out, int cols, const signed char
          *restrict mask, int shift) { const unsigned char *i1 = in, *i2 = in + cols, *i3 = i2 + cols; for
          (int j = 0; j < cols - 2; j++) { int sum = 0; for (int i = 0; i < 3; i++) { sum += i1[i]*mask[i];
          sum += i2[i]*mask[i+3]; sum += i3[i]*mask[i+6]; } i1++; i2++; i3++; sum >>= 4; if (sum < 0) sum =
          0; if (sum > 255) sum = 255; out[j] = sum; } }""",
    ),
    "conv border": Kernel(
        "h=5,w=6;h=1,w=1",
        "",
        """
        void k(int h, int w, const float in[h][w], float out[h][w], const float m[3][3]) { for (int y = 0; y
          < h; y++) for (int x = 0; x < w; x++) { float s = 0; for (int dy = -1; dy <= 1; dy++) for (int dx
          = -1; dx <= 1; dx++) { int yy = y + dy, xx = x + dx; if (yy >= 0 && yy < h && xx >= 0 && xx < w) s
          += m[dy+1][dx+1]*in[yy][xx]; } out[y][x] = s; } }""",
    ),
    "conv clamp": Kernel(
        "h=5,w=6",
        "",
        """
        static inline int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
        void k(int h, int w, const float in[h][w], float out[h][w]) { for (int y = 0; y < h; y++) for (int x
          = 0; x < w; x++) { float s = 0; for (int d = -1; d <= 1; d++) s += in[clamp(y+d, 0, h-1)][x];
          out[y][x] = s; } }""",
    ),
    "conv continue": Kernel(
        "n=6",
        "",
        """
        void k(int n, const float in[n], float out[n]) { for (int y = 0; y < n; y++) { float s = 0; for (int
          d = -1; d <= 1; d++) { if (y + d < 0) continue; if (y + d >= n) continue; s += in[y+d]; } out[y] =
          s; } }""",
    ),
    "sat else": Kernel(
        "n=9",
        "",
        """
        static short sat16(long x) { short r; if (x > 0x7fffL) r = 0x7fff; else if (x < -0x8000L) r =
          -0x8000; else r = (short)x; return r; }
        void k(const short *x, const short *y, short *r, int n) { while (n-- > 0) *r++ = sat16((long)*x++ +
          *y++); }""",
    ),
    "etsi": Kernel(
        "n=9",
        "",
        """
        typedef short Word16; typedef int Word32;
        #define MAX_32 (Word32)0x7fffffffL
        #define MIN_32 (Word32)0x80000000L
        static Word32 L_mult(Word16 a, Word16 b) { Word32 r; r = (Word32)a*(Word32)b; if (r !=
          (Word32)0x40000000L) { r *= 2; } else { r = MAX_32; } return r; }
        static Word32 L_add(Word32 a, Word32 b) { Word32 r = a + b; if (((a ^ b) & MIN_32) == 0) { if ((r ^
          a) & MIN_32) { r = (a < 0) ? MIN_32 : MAX_32; } } return r; }
        static Word32 L_mac(Word32 a, Word16 x, Word16 y) { return L_add(a, L_mult(x, y)); }
        static Word16 round_(Word32 a) { return (Word16)(L_add(a, 0x8000L) >> 16); }
        void k(const Word16 *x, const Word16 *y, Word16 *r, int n) { Word32 acc = 0; for (int i = 0; i < n;
          i++) { acc = L_mac(acc, x[i], y[i]); r[i] = round_(acc); } }""",
    ),
    "sobelflat": Kernel(
        "w=7,h=5",
        "",
        """
        #include <stdlib.h>
        void k(const unsigned char *in, unsigned char *out, int w, int h) { for (int i = 0; i < w*(h-2) - 2;
          i++) { int H = -in[i] - 2*in[i+1] - in[i+2] + in[i+2*w] + 2*in[i+2*w+1] + in[i+2*w+2]; int O =
          abs(H); if (O > 255) O = 255; out[i+1] = O; } }""",
    ),
    "levinson": Kernel(
        "",
        "",
        """
        #define P 4
        void k(const float r[P+1], float a[P+1]) { float e = r[0], tmp[P+1]; a[0] = 1; for (int i = 1; i <=
          P; i++) { float acc = r[i]; for (int j = 1; j < i; j++) acc += a[j]*r[i-j]; float kk = -acc/e; for
          (int j = 1; j < i; j++) tmp[j] = a[j] + kk*a[i-j]; for (int j = 1; j < i; j++) a[j] = tmp[j]; a[i]
          = kk; e *= 1 - kk*kk; } }""",
    ),
    "circbuf": Kernel(
        "n=9",
        "",
        """
        #define T 8
        void k(const float *x, float *y, const float h[T], float buf[T], int n) { int pos = 0; for (int i =
          0; i < n; i++) { buf[pos] = x[i]; float s = 0; int idx = pos; for (int j = 0; j < T; j++) { s +=
          h[j]*buf[idx]; idx = idx == 0 ? T - 1 : idx - 1; } y[i] = s; pos = (pos + 1) % T; } }""",
    ),
    "circif": Kernel(
        "n=9",
        "",
        """
        #define T 8
        void k(const float *x, float *y, float buf[T], int n) { int pos = 0; for (int i = 0; i < n; i++) {
          y[i] = buf[pos]; buf[pos] = x[i]; if (++pos == T) pos = 0; } }""",
    ),
    "adpcm": Kernel(
        "n=6",
        "",
        """
        static const int steps[4] = {7, 8, 9, 10};
        void k(const short *x, signed char *o, int n) { int pred = 0, idx = 0; for (int i = 0; i < n; i++) {
          int d = x[i] - pred; int s = d < 0 ? 8 : 0; if (s) d = -d; int step = steps[idx], v = 0; if (d >=
          step) { v |= 4; d -= step; } if (d >= step >> 1) v |= 2; pred += v; o[i] = v | s; idx += v > 2 ? 1
          : -1; if (idx < 0) idx = 0; if (idx > 3) idx = 3; } }""",
    ),
    "crc": Kernel(
        "n=6",
        "",
        """
        void k(const unsigned char *p, int n, unsigned *out) { unsigned c = 0xffffffffu; for (int i = 0; i <
          n; i++) { c ^= p[i]; for (int b = 0; b < 8; b++) c = (c >> 1) ^ (0xEDB88320u & -(c & 1)); } *out =
          ~c; }""",
    ),
    "mat trans": Kernel(
        "rows=4,cols=3",
        "",
        """
        void k(const short *restrict x, short rows, short cols, short *restrict r) { short i, j; for (i = 0;
          i < cols; i++) for (j = 0; j < rows; j++) *(r+i*rows+j) = *(x+i+cols*j); }""",
    ),
    "vecscale": Kernel(
        "n=7",
        "",
        """
        void vecscale(float *dst, const float *src, float g, unsigned int n) { unsigned int blk = n >> 2;
          while (blk > 0u) { *dst++ = *src++ * g; *dst++ = *src++ * g; *dst++ = *src++ * g; *dst++ = *src++
          * g; blk--; } blk = n % 0x4u; while (blk > 0u) { *dst++ = *src++ * g; blk--; } }""",
    ),
    "cmsis q15": Kernel(
        "n=7",
        "",
        """
        #include <stdint.h>
        typedef int16_t q15_t; typedef int32_t q31_t; typedef int64_t q63_t;
        static inline q31_t ssat(q31_t v, uint32_t bits) { const int32_t max = (int32_t)((1U << (bits - 1U))
          - 1U); const int32_t min = -1 - max; if (v > max) return max; else if (v < min) return min; return
          v; }
        void arm_mult_q15(const q15_t *pSrcA, const q15_t *pSrcB, q15_t *pDst, uint32_t n) { uint32_t blkCnt
          = n; while (blkCnt > 0U) { *pDst++ = (q15_t) ssat((((q31_t)(*pSrcA++)*(*pSrcB++)) >> 15), 16);
          blkCnt--; } }""",
    ),
    "q31mul": Kernel(
        "n=7",
        "",
        """
        #include <stdint.h>
        void k(const int32_t *a, const int32_t *b, int32_t *c, int n) { for (int i = 0; i < n; i++) {
          int64_t p = (int64_t)a[i]*b[i]; p >>= 31; if (p > INT32_MAX) p = INT32_MAX; else if (p <
          INT32_MIN) p = INT32_MIN; c[i] = (int32_t)p; } }""",
    ),
    "memcpyuse": Kernel(
        "n=5",
        "",
        """
        #include <string.h>
        void k(const float *x, float *y, float *z, int n) { memset(y, 0, n*sizeof(float)); memcpy(z, x,
          n*sizeof(*x)); for (int i = 0; i < n; i++) y[i] += x[i]; }""",
    ),
    "gemm ld": Kernel(
        "M=3,N=4,K=2,lda=3,ldb=5,ldc=6;M=3,N=4,K=2,lda=2,ldb=4,ldc=4",
        "",
        """
        void k(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float
          beta, float *C, int ldc) { for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) { float s = 0;
          for (int p = 0; p < K; p++) s += A[i*lda+p]*B[p*ldb+j]; C[i*ldc+j] = alpha*s + beta*C[i*ldc+j]; }
          }""",
    ),
    "saxpy early": Kernel(
        "n=5;n=0",
        "",
        """
        void k(int n, float a, const float *x, float *y) { if (n <= 0) return; if (a == 0.0f) return; for
          (int i = 0; i < n; i++) y[i] += a*x[i]; }""",
    ),
    "flatcopy2": Kernel(
        "rows=3,cols=4",
        "",
        """
        void k(const float *x, float *y, int rows, int cols) { int n = rows*cols; for (int i = 0; i < n;
          i++) y[i] = 2*x[i]; }""",
    ),
    "banded": Kernel(
        "n=7,b=2",
        "",
        """
        void k(int n, int b, const float A[n][2*b+1], const float x[n], float y[n]) { for (int i = 0; i < n;
          i++) { y[i] = 0; for (int j = (i - b > 0 ? i - b : 0); j < (i + b + 1 < n ? i + b + 1 : n); j++)
          y[i] += A[i][j - i + b]*x[j]; } }""",
    ),
    "minmax": Kernel(
        "n=7",
        "",
        """
        #define min(a,b) (((a)<(b))?(a):(b))
        #define max(a,b) (((a)>(b))?(a):(b))
        void k(int n, float a[n][n]) { for (int t = 0; t < 2*n-1; t++) for (int i = max(0, t-n+1); i <=
          min(t, n-1); i++) a[i][t-i] += 1; }""",
    ),
    "diamond": Kernel(
        "",
        "",
        """
        #define N 9
        void k(float a[N][N]) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { int d = i - N/2, e
          = j - N/2; if ((d < 0 ? -d : d) + (e < 0 ? -e : e) <= N/2) a[i][j] *= 2; } }""",
    ),
    "tiled": Kernel(
        "n=10",
        "",
        """
        #define T 4
        #define MIN(a,b) ((a)<(b)?(a):(b))
        void k(int n, float a[n][n], float b[n][n]) { for (int ii = 0; ii < n; ii += T) for (int jj = 0; jj
          < n; jj += T) for (int i = ii; i < MIN(ii+T, n); i++) for (int j = jj; j < MIN(jj+T, n); j++)
          b[j][i] = a[i][j]; }""",
    ),
    "boolops": Kernel(
        "n=6",
        "",
        """
        #include <stdbool.h>
        void k(const int *x, int *f, int n) { bool any = false; int c = 0; for (int i = 0; i < n; i++) { any
          |= x[i] > 3; any = any && x[i] != 7; c += any; any ^= 1; if (!any) c += 2; } *f = c; }""",
    ),
    "boolconv": Kernel(
        "",
        "",
        """
        #include <stdbool.h>
        void k(const float x[6], int y[6]) { for (int i = 0; i < 6; i++) { bool b = x[i]; bool c = 2*i; y[i]
          = b + 2*c + (bool)(x[i]*8); } }""",
    ),
    "whilebreak": Kernel(
        "n=5",
        "",
        """
        void k(float *x, const float *y, int n) { int i = 0; while (1) { if (i >= n) break; x[i] = y[i];
          i++; } }""",
    ),
    "forever": Kernel(
        "n=5",
        "",
        """
        void k(float *x, const float *y, int n) { int i = 0; for (;;) { x[i] = y[i]; if (++i >= n) break; }
          }""",
    ),
    "search": Kernel(
        "n=5",
        "",
        """
        void k(const int *x, int key, int n, int *pos) { *pos = -1; for (int i = 0; i < n; i++) if (x[i] ==
          key) { *pos = i; break; } }""",
    ),
    "findfirst": Kernel(
        "n=5",
        "",
        """
        void k(const int *x, int n, int *pos) { int i; for (i = 0; i < n; i++) { if (x[i] > 100) break; }
          *pos = i; }""",
    ),
    "retloop": Kernel(
        "n=5",
        "",
        """
        int k(const int *x, int n) { for (int i = 0; i < n; i++) if (x[i] < 0) return i; return -1; }""",
    ),
    "ret2d": Kernel(
        "n=5",
        "",
        """
        int k(int n, const int x[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) if
          (x[i][j] > 500) return i*n + j; return -1; }""",
    ),
    "retmulti": Kernel(
        "n=5",
        "",
        """
        float k(const float *x, int n) { float s = 0; if (n < 2) return -1.0f; for (int i = 0; i < n; i++) {
          s += x[i]; if (s > 1.5f) { s *= 2; return s; } } return s; }""",
    ),
    "ret void loop": Kernel(
        "n=5",
        "",
        """
        void k(float *x, int n) { for (int i = 0; i < n; i++) { if (x[i] > 0.9f) return; x[i] = -x[i]; } for
          (int i = 0; i < n; i++) x[i] += 1; }""",
    ),
    "helper search": Kernel(
        "n=6",
        "",
        """
        static int find(const int *x, int n, int key) { for (int i = 0; i < n; i++) { if (x[i] == key)
          return i; } return -1; }
        void k(const int *x, int *o, int n) { for (int i = 0; i < n; i++) o[i] = find(x, n, i*i); }""",
    ),
    "break nested": Kernel(
        "n=6",
        "",
        """
        void k(const int *x, int *o, int n) { for (int i = 0; i < n; i++) { int j; for (j = 0; j < i; j++) {
          if (x[j] > 100) { o[i] = j; break; } else if (x[j] < -900) continue; o[i] += 1; } if (j == i) o[i]
          = -1; } }""",
    ),
    "contaff": Kernel(
        "n=9",
        "",
        """
        void k(int n, float a[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { if (i == j)
          continue; a[i][j] *= 2; } }""",
    ),
    "switchmode": Kernel(
        "n=5,mode=1;n=5,mode=3",
        "",
        """
        void k(const float *x, float *y, int n, int mode) { switch (mode) { case 0: for (int i = 0; i < n;
          i++) y[i] = x[i]; break; case 1: for (int i = 0; i < n; i++) y[i] = -x[i]; break; default: for
          (int i = 0; i < n; i++) y[i] = 0; break; } }""",
    ),
    "switchaff": Kernel(
        "",
        "",
        """
        void k(const float x[16], float y[16]) { for (int i = 0; i < 16; i++) switch (i & 3) { case 0: y[i]
          = x[i]; break; case 1: case 2: y[i] = -x[i]; break; case 3: y[i] = 1; } }""",
    ),
    "nested switch": Kernel(
        "n=9",
        "x:0:5,y:0:5",
        """
        void k(const int *x, const int *y, int *o, int n) { for (int i = 0; i < n; i++) { switch (x[i]) {
          case 0: switch (y[i]) { case 1: o[i] = 1; break; default: o[i] = 2; } break; case 1: if (y[i] > 2)
          break; o[i] = 3; case 2: o[i] += 4; break; case 3: continue; } o[i] += 10; } }""",
    ),
    "breakaff": Kernel(
        "n=9;n=2",
        "",
        """
        void k(float *x, int n) { for (int i = 0; i < n; i++) { if (i == 5) break; x[i] = 1; } for (int i =
          0; i < n; i++) { x[i] += 2; if (i * 2 >= n) break; } }""",
    ),
    "several": Kernel(
        "n=5",
        "",
        """
        void first(float *x, int n) { for (int i = 0; i < n; i++) x[i] = 1; }
        void second(float *x, int n) { for (int i = 0; i < n; i++) x[i] = 2; }
        struct unused { int a; double b[3]; };
        union u { int a; float f; };
        static float state;
        int third(struct unused *u) { goto end; end: return u->a; }""",
    ),
    "csr2": Kernel(
        "n=3,nnz=5,m=4",
        "ptr:1:2,idx:0:4",
        """
        void k(int n, int nnz, int m, const int ptr[n+1], const int idx[nnz], const float val[nnz], const
          float x[m], float y[n]) { for (int i = 0; i < n; i++) { float s = 0; for (int j = ptr[i]; j <
          ptr[i+1]; j++) s += val[j]*x[idx[j]]; y[i] = s; } }""",
    ),
    "after2": Kernel(
        "n=5;n=4",
        "",
        """
        void k(float *x, int n) { int i; for (i = 0; i < n; i++) x[i] = 1; x[i] = 2; for (i = 3; i > 0; i -=
          2) x[i] += 1; x[i+2] = 7; }""",
    ),
    "unroll rem": Kernel(
        "n=7;n=8;n=1",
        "",
        """
        void k(float *x, int n) { int i = 0; for (; i + 3 < n; i += 4) { x[i] = 1; x[i+1] = 2; x[i+2] = 3;
          x[i+3] = 4; } for (; i < n; i++) x[i] = 5; }""",
    ),
    "unroll rem2": Kernel(
        "n=7;n=8;n=1",
        "",
        """
        void k(float *x, int n) { int i; for (i = 0; i <= n - 4; i += 4) { x[i] = 1; x[i+1] = 2; x[i+2] = 3;
          x[i+3] = 4; } while (i < n) x[i++] = 5; }""",
    ),
    "unroll rem3": Kernel(
        "n=7;n=8;n=1",
        "",
        """
        void k(float *x, int n) { int n4 = n & ~3; int i; for (i = 0; i < n4; i += 4) { x[i] = 1; x[i+1] =
          2; x[i+2] = 3; x[i+3] = 4; } for (i = n4; i < n; i++) x[i] = 5; }""",
    ),
    "unroll rem6": Kernel(
        "n=7;n=8;n=1",
        "",
        """
        void k(float *x, unsigned n) { float *p = x; for (unsigned b = 0; b < n/4; b++) { p[0] = 1; p[1] =
          2; p[2] = 3; p[3] = 4; p += 4; } for (unsigned b = 0; b < n % 4; b++) *p++ = 5; }""",
    ),
    "pnegative": Kernel(
        "n=5",
        "",
        """
        void k(float *x, int n) { float *end = x + n; while (end > x) *--end = 1; }""",
    ),
    "incr in sub": Kernel(
        "n=6",
        "",
        """
        void k(const float *x, float *y, int n) { int i = 0, j = 0; while (i < n) { y[j++] = x[i++]; y[j++]
          = 0; } }""",
    ),
    "size ret": Kernel(
        "",
        "",
        """
        #include <stddef.h>
        long long sumsq(const short x[16]) { long long s = 0; for (size_t i = 0; i < 16; i++) s += (long
          long)x[i]*x[i]; return s; }""",
    ),
    "noparam": Kernel(
        "",
        "",
        """
        int answer(void) { int s = 0; for (int i = 0; i < 10; i++) s += i; return s; }""",
    ),
    "memarr": Kernel(
        "",
        "",
        """
        #include <string.h>
        void k(const float x[8], float y[8]) { float t[8]; memcpy(t, x, 8*sizeof(float)); memset(y, 0,
          4*sizeof(y[0])); for (int i = 0; i < 8; i++) y[i] += t[7-i]; }""",
    ),
    "attribute": Kernel(
        "n=6",
        "",
        """
        __attribute__((noinline, optimize("O3"))) void k(int n, float *__restrict__ a) { a =
          __builtin_assume_aligned(a, 16); for (int i = 0; i < n; i++) a[i] = 0; }""",
    ),
    "tern lookup": Kernel(
        "n=9",
        "x:-5:12",
        """
        void k(const int *x, const float t[8], float *o, int n) { for (int i = 0; i < n; i++) o[i] = x[i] >=
          0 && x[i] < 8 ? t[x[i]] : 0; }""",
    ),
    "if scatter": Kernel(
        "n=9",
        "x:-5:12",
        """
        void k(const int *x, float t[8], int n) { for (int i = 0; i < n; i++) if (x[i] >= 0 && x[i] < 8)
          t[x[i]] += 1; }""",
    ),
    "compactm1": Kernel(
        "n=9",
        "",
        """
        void k(const float *x, float y[9], int n) { int j = -1; for (int i = 0; i < n; i++) if (x[i] > 0) {
          j++; y[j] = x[i]; } }""",
    ),
    "ring guard": Kernel(
        "n=9",
        "x:-5:12",
        """
        void k(const int *x, float t[8], float *o, int n) { for (int i = 0; i < n; i++) { int v = x[i]; if
          (v < 0 || v >= 8) continue; t[v] *= 2; o[i] = t[v]; } }""",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_meaning_is_that_of_c(tmp_path: Path, name: str) -> None:
    kernel = KERNELS[name]
    path = tmp_path / "kernel.c"
    path.write_text(kernel.text)
    func = read_c(str(path), function="second" if "second(" in kernel.text else None)
    ranges = {part.split(":")[0]: part.split(":")[1:] for part in kernel.ranges.split(",") if part}
    for sizes in kernel.sizes.split(";"):
        given: dict[str, object] = {}
        integers = {part.split("=")[0]: int(part.split("=")[1]) for part in sizes.split(",") if part}
        given |= integers
        for param in func.params:
            if isinstance(param, Buf) and param.name in ranges:
                low, high = map(int, ranges[param.name])
                drawn = np.random.default_rng(5).integers(low, high, shape_of(param, integers))
                given[param.name] = drawn.astype(NUMPY[param.dtype])
        inputs = random_inputs(func, 3, given)  # type: ignore[arg-type]
        wanted, found = run_c(str(path), func, inputs), evaluate(func, inputs)
        for array in wanted:
            np.testing.assert_array_equal(found[array], wanted[array], err_msg=f"{array} {sizes}")


def write(folder: Path, text: str) -> str:
    path = folder / "kernel.c"
    path.write_text(text)
    return str(path)


def test_a_value_is_the_last_parameter(tmp_path: Path) -> None:
    path = write(tmp_path, "short k(int n, const short x[n]) { return n > 1 ? x[1] : x[0]; }\n")
    func = read_c(path)
    last = func.params[-1]
    assert isinstance(last, Buf) and (last.name, last.dtype, last.shape) == ("k_result", "i16", (1,))
    assert gives_value(func)
    plain = read_c(write(tmp_path, "void k(short k_result[1]) { k_result[0] = 1; }\n"))
    assert not gives_value(plain)


@pytest.mark.parametrize(
    ("text", "defines", "message", "remedy"),
    [
        ("void k(float x[n], int n) { x[0] = 1; }", [], "'n' undeclared", "declare it before"),
        ("void k(float x[4]) { x[0] = N; }", [("N", "abc")], "'abc' undeclared", "after -D"),
        ("void k(int n, float x[n]) { x[0] = 1; }", [("n", "5000000000")], "-D n=5000000000 doesn't fit", ""),
        (
            "void k(float x[4], int s) { for (int i = 0; i < 4; i += s) { x[i]--; if (x[i] > 0) break; } }",
            [],
            "constant",
            "-D s=1",
        ),
        ("void k(float x[4]) { printf(x); }", [], "'printf'", "move the call out"),
        ("int f(int n) { return n ? f(n - 1) : 0; } void k(int x[4]) { x[0] = f(3); }", [], "calls itself", "loop"),
        ("#include <stdbool.h>\nvoid k(bool x[4]) { x[0] = 1; }", [], "bool", "unsigned char"),
    ],
)
def test_refused(tmp_path: Path, text: str, defines: list[tuple[str, str]], message: str, remedy: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_c(write(tmp_path, text + "\n"), function="k", defines=defines)
    assert message in caught.value.problems[0].message and remedy in caught.value.problems[0].remedy


def test_local_arrays_larger_than_a_stack(tmp_path: Path) -> None:
    text = "void k(const float x[N], float y[N]) { float t[N]; for (int i = 0; i < N; i++) t[i] = x[i];\n"
    text += "for (int i = 0; i < N; i++) y[i] = t[N - 1 - i]; }\n"
    path, defines = write(tmp_path, text), [("N", "3000000")]
    func = read_c(path, defines=defines)
    inputs = random_inputs(func, 1)
    found = run_c(path, func, inputs, defines)["y"]
    np.testing.assert_array_equal(found, np.asarray(inputs["x"])[::-1])


def test_what_cannot_fit_in_memory(tmp_path: Path) -> None:
    func = read_c(write(tmp_path, "void k(int n, float x[n][n]) { x[0][0] = 1; }\n"))
    with pytest.raises(MemoryError):
        random_inputs(func, 1, {"n": 2_000_000_000})


def test_a_device_is_no_source() -> None:
    with pytest.raises(SourceError, match="regular file"):
        read_c("/dev/zero")
