"""Small kernels of unusual shapes: name -> (C text, values for integer parameters)."""

from __future__ import annotations

KERNELS: dict[str, tuple[str, dict[str, int]]] = {}


def _add(name: str, text: str, **given: int) -> None:
    KERNELS[name] = (text.strip() + "\n", given)


for n in (1, 2, 3, 5, 7, 15, 16, 17, 31, 33):
    _add(
        f"saxpy_{n}",
        f"void f(const float x[{n}], float y[{n}], float a) {{ for (int i = 0; i < {n}; i++) y[i] += a * x[i]; }}",
    )
    _add(
        f"matmul_{n}",
        f"""
void f(const float a[{n}][{n}], const float b[{n}][{n}], float c[{n}][{n}])
{{
  for (int i = 0; i < {n}; i++)
    for (int j = 0; j < {n}; j++) {{
      float s = 0;
      for (int k = 0; k < {n}; k++)
        s += a[i][k] * b[k][j];
      c[i][j] = s;
    }}
}}""",
    )
    _add(
        f"triangle_{n}",
        f"""
void f(const float x[{n}], float y[{n}])
{{
  for (int i = 0; i < {n}; i++) {{
    y[i] = 0;
    for (int j = 0; j <= i; j++)
      y[i] += x[j];
  }}
}}""",
    )
    _add(
        f"extremes_{n}",
        f"""
#include <math.h>
void f(const float x[{n}], float r[2])
{{
  float m = x[0], l = x[0];
  for (int i = 1; i < {n}; i++) {{
    m = fmaxf(m, x[i]);
    l = fminf(l, x[i]);
  }}
  r[0] = m;
  r[1] = l;
}}""",
    )

TYPES = ("float", "double", "int", "unsigned int", "short", "unsigned short", "signed char", "unsigned char")
for t in TYPES:
    for name, text in {
        "axpy": f"void f(const {t} x[37], {t} y[37], {t} a) {{ for (int i = 0; i < 37; i++) y[i] += a * x[i]; }}",
        "sum": f"void f(const {t} x[45], {t} r[1]) {{ {t} s = 0; for (int i = 0; i < 45; i++) s += x[i]; r[0] = s; }}",
        "copy": f"void f(const {t} x[19], {t} y[19]) {{ for (int i = 0; i < 19; i++) y[i] = x[18 - i]; }}",
        "scan": f"void f({t} x[23]) {{ for (int i = 1; i < 23; i++) x[i] += x[i - 1]; }}",
        "largest": f"void f(const {t} x[33], {t} r[1]) {{ {t} m = x[0];"
        f" for (int i = 0; i < 33; i++) m = x[i] > m ? x[i] : m; r[0] = m; }}",
        "third": f"void f(const {t} a[20], {t} c[20]) {{ for (int i = 0; i < 20; i++) c[i] = a[i] / ({t})3; }}",
    }.items():
        _add(f"{name}_{t.replace(' ', '_')}", text)

_add(
    "trapezoid",
    """
void f(const float x[40], float y[20][40]) {
  for (int i=0;i<20;i++) for (int j=i;j<2*i+1;j++) y[i][j] = x[j]*2.0f;
}
""",
)
_add(
    "tri_upper",
    """
void f(const float a[17][17], const float x[17], float y[17]) {
  for (int i=0;i<17;i++) {
    float s=0;
    for (int j=i;j<17;j++) s+=a[i][j]*x[j];
    y[i]=s;
  }
}
""",
)
_add(
    "trsolve",
    """
void f(const float L[15][15], const float b[15], float x[15]) {
  for (int i=0;i<15;i++) {
    x[i]=b[i];
    for (int j=0;j<i;j++) x[i]-=L[i][j]*x[j];
    x[i]=x[i]/(L[i][i]*L[i][i]+3.0f);
  }
}
""",
)
_add(
    "cholesky",
    """
#include <math.h>
void f(float A[9][9]) {
  for (int j=0;j<9;j++) {
    float s=A[j][j]+40.0f;
    for (int k=0;k<j;k++) s-=A[j][k]*A[j][k];
    A[j][j]=sqrtf(fabsf(s)+1.0f);
    for (int i=j+1;i<9;i++) {
      float t=A[i][j];
      for (int k=0;k<j;k++) t-=A[i][k]*A[j][k];
      A[i][j]=t/A[j][j];
    }
  }
}
""",
)
_add(
    "lu",
    """
void f(float A[8][8]) {
  for (int k=0;k<8;k++) A[k][k] += 20.0f;
  for (int k=0;k<8;k++) {
    for (int i=k+1;i<8;i++) {
      A[i][k] = A[i][k]/A[k][k];
      for (int j=k+1;j<8;j++) A[i][j] -= A[i][k]*A[k][j];
    }
  }
}
""",
)
_add(
    "floyd",
    """
void f(float p[12][12]) {
  for (int k=0;k<12;k++) for (int i=0;i<12;i++) for (int j=0;j<12;j++) p[i][j] = p[i][j] <
      p[i][k]+p[k][j] ? p[i][j] : p[i][k]+p[k][j];
}
""",
)
_add(
    "down",
    """
void f(float x[30]) {
  for (int i=28;i>=0;i--) x[i] = x[i+1]*0.5f + x[i];
}
""",
)
_add(
    "down3",
    """
void f(const float x[50], float y[50]) {
  for (int i=49;i>=2;i-=3) y[i] = x[i]-x[i-2];
}
""",
)
_add(
    "stride2",
    """
void f(const float x[66], float y[33]) {
  for (int i=0;i<33;i++) y[i] = x[2*i]+x[2*i+1];
}
""",
)
_add(
    "stride3st",
    """
void f(const float x[20], float y[60]) {
  for (int i=0;i<20;i++) {
    y[3*i]=x[i];
    y[3*i+1]=-x[i];
  }
}
""",
)
_add(
    "colsum",
    """
void f(const float a[33][21], float s[33]) {
  for (int i=0;i<33;i++) {
    s[i]=0;
    for (int j=0;j<21;j++) s[i]+=a[i][j];
  }
}
""",
)
_add(
    "rowsum",
    """
void f(const float a[33][21], float s[21]) {
  for (int j=0;j<21;j++) s[j]=0;
  for (int i=0;i<33;i++) for (int j=0;j<21;j++) s[j]+=a[i][j];
}
""",
)
_add(
    "transp",
    """
void f(const float a[18][21], float b[21][18]) {
  for (int i=0;i<18;i++) for (int j=0;j<21;j++) b[j][i]=a[i][j];
}
""",
)
_add(
    "transp_in",
    """
void f(float a[17][17]) {
  for (int i=0;i<17;i++) for (int j=0;j<i;j++) {
    float t=a[i][j];
    a[i][j]=a[j][i];
    a[j][i]=t;
  }
}
""",
)
_add(
    "imperf",
    """
void f(const float a[10][12], float b[10][12], float r[10]) {
  for (int i=0;i<10;i++) {
    r[i]=1.0f;
    for (int j=0;j<12;j++) {
      b[i][j]=a[i][j]*r[i];
    }
    r[i] = r[i]+b[i][3];
    for (int j=1;j<12;j++) r[i] += b[i][j-1];
  }
}
""",
)
_add(
    "locals",
    """
void f(const float x[40], float y[40]) {
  float t[40];
  float u[40];
  for (int i=0;i<40;i++) t[i]=x[i]*x[i];
  for (int i=0;i<40;i++) u[i]=t[39-i]+1.0f;
  for (int i=1;i<40;i++) y[i]=u[i]*t[i-1];
  for (int i=0;i<40;i++) t[i]=y[i];
  for (int i=0;i<40;i++) y[i]=t[i]+u[i];
}
""",
)
_add(
    "jacobi2",
    """
void f(float a[2][34]) {
  for (int t=0;t<5;t++) {
    for (int i=1;i<33;i++) a[1][i] = (a[0][i-1]+a[0][i]+a[0][i+1])*0.333f;
    for (int i=1;i<33;i++) a[0][i]=a[1][i];
  }
}
""",
)
_add(
    "seidel",
    """
void f(float a[12][13]) {
  for (int t=0;t<3;t++) for (int i=1;i<11;i++) for (int j=1;j<12;j++) a[i][j] =
      (a[i-1][j]+a[i+1][j]+a[i][j-1]+a[i][j+1]+a[i][j])*0.2f;
}
""",
)
_add(
    "submin",
    """
void f(const float x[35], float r[3]) {
  float s=10.0f;
  float m=1e30f;
  float p=1.0f;
  for (int i=0;i<35;i++) {
    s -= x[i];
    m = x[i] < m ? x[i] : m;
    p *= x[i];
  }
  r[0]=s;
  r[1]=m;
  r[2]=p;
}
""",
)
_add(
    "imax",
    """
void f(const int x[35], int r[2]) {
  int m=x[0];
  int n=x[0];
  for (int i=1;i<35;i++) {
    if (x[i]>m) m=x[i];
    n = x[i]<n ? x[i] : n;
  }
  r[0]=m;
  r[1]=n;
}
""",
)
_add(
    "symb",
    """
void f(int n, const float x[100], float y[100]) {
  for (int i=0;i<n && i<100;i++) y[i]=x[i]+1.0f;
}
""",
    n=37,
)
_add(
    "symb2",
    """
void f(int n, const float x[n], float y[n]) {
  for (int i=0;i<n;i++) y[i]=x[i]+1.0f;
}
""",
    n=37,
)
_add(
    "symmm",
    """
void f(int n, int m, const float a[40][40], const float b[40][40], float c[40][40]) {
  for (int i=0;i<n;i++) for (int j=0;j<m;j++) {
    c[i][j]=0;
    for (int k=0;k<n;k++) c[i][j]+=a[i][k]*b[k][j];
  }
}
""",
    n=17,
    m=33,
)
_add(
    "symmm0",
    """
void f(int n, int m, const float a[40][40], const float b[40][40], float c[40][40]) {
  for (int i=0;i<n;i++) for (int j=0;j<m;j++) {
    c[i][j]=0;
    for (int k=0;k<n;k++) c[i][j]+=a[i][k]*b[k][j];
  }
}
""",
    n=0,
    m=33,
)
_add(
    "symmmneg",
    """
void f(int n, const float x[40], float y[40]) {
  y[0]=3.0f;
  for (int i=0;i<n;i++) y[i]=x[i];
}
""",
    n=-3,
)
_add(
    "symtri",
    """
void f(int n, const float x[40], float y[40][40]) {
  for (int i=0;i<n;i++) for (int j=i;j<n;j++) y[i][j]=x[i]*x[j];
}
""",
    n=21,
)
for name, n in (("symdot", 53), ("symdot0", 0), ("symdot1", 1)):
    _add(
        name,
        """
void f(int n, const float x[80], const float z[80], float r[1]) {
  float s=0;
  for (int i=0;i<n;i++) s+=x[i]*z[i];
  r[0]=s;
}
""",
        n=n,
    )
_add(
    "symrange",
    """
void f(int a, int b, const float x[80], float y[80]) {
  for (int i=a;i<b;i++) y[i]=x[i]*2.0f;
}
""",
    a=5,
    b=43,
)
_add(
    "symstep",
    """
void f(int n, const float x[80], float y[80]) {
  for (int i=n-1;i>=0;i-=2) y[i]=x[i]*2.0f;
}
""",
    n=43,
)
_add(
    "zero",
    """
void f(const float x[8], float y[8]) {
  for (int i=5;i<3;i++) y[i]=x[i];
  y[0]=x[1];
}
""",
)
_add(
    "zeroall",
    """
void f(const float x[8], float y[8]) {
  for (int i=5;i<3;i++) y[i]=x[i];
}
""",
)
_add(
    "empty",
    """
void f(const float x[8], float y[8]) {
}
""",
)
_add(
    "unused",
    """
void f(const float x[8], float y[8], float z[3], int q) {
  for (int i=0;i<8;i++) y[i]=x[i];
}
""",
)
_add(
    "reuse",
    """
void f(const float x[20], float y[20]) {
  float t;
  float s=0;
  for (int i=0;i<20;i++) {
    t=x[i];
    s+=t;
    t=t*t;
    y[i]=t+s;
    t=y[i]-1.0f;
    y[i]=t;
  }
  y[0]=s;
  t=3.0f;
  y[1]=t;
}
""",
)
_add(
    "swap2",
    """
void f(float x[24], float y[24]) {
  float a=1.0f,b=2.0f,t;
  for (int i=0;i<24;i++) {
    t=a;
    a=b;
    b=t+x[i];
    y[i]=a-b;
  }
  x[0]=a;
}
""",
)
_add(
    "fib",
    """
void f(int y[20]) {
  int a=0,b=1;
  for (int i=0;i<20;i++) {
    y[i]=a;
    int t=a+b;
    a=b;
    b=t;
  }
}
""",
)
_add(
    "arr8",
    """
void f(const float a0[21], const float a1[21], const float a2[21], const float a3[21], const float
      a4[21], const float a5[21], const float a6[21], float y[21]) {
  for (int i=0;i<21;i++) y[i] = a0[i]+a1[i]+a2[i]+a3[i]+a4[i]+a5[i]+a6[i];
}
""",
)
_add(
    "arr9",
    """
void f(const float a0[21], const float a1[21], const float a2[21], const float a3[21], const float
      a4[21], const float a5[21], const float a6[21], const float a7[21], float y[21]) {
  for (int i=0;i<21;i++) y[i] = a0[i]+a1[i]+a2[i]+a3[i]+a4[i]+a5[i]+a6[i]+a7[i];
}
""",
)
_add(
    "arr10",
    """
void f(const float a0[21], const float a1[21], const float a2[21], const float a3[21], const float
      a4[21], const float a5[21], const float a6[21], const float a7[21], const float a8[21], float y[21]) {
  for (int i=0;i<21;i++) y[i] = a0[i]+a1[i]+a2[i]+a3[i]+a4[i]+a5[i]+a6[i]+a7[i]+a8[i];
}
""",
)
_add(
    "arr12",
    """
void f(const float a0[21], const float a1[21], const float a2[21], const float a3[21], const float
      a4[21], const float a5[21], const float a6[21], const float a7[21], const float a8[21], const
      float a9[21], const float a10[21], float y[21]) {
  for (int i=0;i<21;i++) y[i] = a0[i]+a1[i]+a2[i]+a3[i]+a4[i]+a5[i]+a6[i]+a7[i]+a8[i]+a9[i]+a10[i];
}
""",
)
_add(
    "arr16",
    """
void f(const float a0[21], const float a1[21], const float a2[21], const float a3[21], const float
      a4[21], const float a5[21], const float a6[21], const float a7[21], const float a8[21], const
      float a9[21], const float a10[21], const float a11[21], const float a12[21], const float a13[21],
      const float a14[21],
      float y[21]) {
  for (int i=0;i<21;i++) y[i] =
      a0[i]+a1[i]+a2[i]+a3[i]+a4[i]+a5[i]+a6[i]+a7[i]+a8[i]+a9[i]+a10[i]+a11[i]+a12[i]+a13[i]+a14[i];
}
""",
)
_add(
    "outs6",
    """
void f(const float x[18], float a[18], float b[18], float c[18], float d[18], float e[18], float g[18]) {
  for (int i=0;i<18;i++) {
    a[i]=x[i];
    b[i]=x[i]+1.0f;
    c[i]=x[i]*2.0f;
    d[i]=x[i]-3.0f;
    e[i]=-x[i];
    g[i]=x[i]*x[i];
  }
}
""",
)
_add(
    "guard",
    """
void f(const float x[30], float y[30]) {
  for (int i=0;i<30;i++) {
    if (i<7) y[i]=x[i];
    else if (i>20) y[i]=-x[i];
    else y[i]=x[i]*x[i];
  }
}
""",
)
_add(
    "guardmod",
    """
void f(const float x[30], float y[30]) {
  for (int i=0;i<30;i++) {
    if (i%3==0) y[i]=x[i];
    else y[i]=1.0f;
  }
}
""",
)
_add(
    "guarddata",
    """
void f(const float x[30], float y[30]) {
  for (int i=0;i<30;i++) {
    if (x[i]>0.0f) y[i]=x[i];
  }
}
""",
)
_add(
    "guarddata2",
    """
void f(const float x[30], float y[30], float z[30]) {
  for (int i=0;i<30;i++) {
    if (x[i]>0.0f && y[i]<0.5f) {
      y[i]=x[i];
      z[i]=y[i]*2.0f;
    }
    else z[i]=0.0f;
  }
}
""",
)
_add(
    "tern",
    """
void f(const float x[30], float y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]<0.0f ? -x[i] : (x[i]>0.5f ? 0.5f : x[i]);
}
""",
)
_add(
    "clampi",
    """
void f(const int x[30], short y[30]) {
  for (int i=0;i<30;i++) {
    int v=x[i]>>3;
    y[i] = v>32767 ? 32767 : (v< -32768 ? -32768 : v);
  }
}
""",
)
_add(
    "divf",
    """
void f(const float x[30], const float z[30], float y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]/(z[i]*z[i]+1.0f);
}
""",
)
_add(
    "divd",
    """
void f(const double x[30], const double z[30], double y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]/(z[i]*z[i]+1.0);
}
""",
)
_add(
    "sqrtf",
    """
#include <math.h>
void f(const float x[30], float y[30]) {
  for (int i=0;i<30;i++) y[i] = sqrtf(x[i]*x[i]+1.0f);
}
""",
)
_add(
    "sqrtd",
    """
#include <math.h>
void f(const double x[30], double y[30]) {
  for (int i=0;i<30;i++) y[i] = sqrt(x[i]*x[i]+1.0);
}
""",
)
_add(
    "rsqrt",
    """
#include <math.h>
void f(const float x[16], float y[16]) {
  for (int i=0;i<16;i++) y[i] = 1.0f/sqrtf(x[i]*x[i]+1.0f);
}
""",
)
_add(
    "norm",
    """
#include <math.h>
void f(const float x[33], float r[1]) {
  float s=0;
  for (int i=0;i<33;i++) s+=x[i]*x[i];
  r[0]=sqrtf(s);
}
""",
)
_add(
    "mixd",
    """
void f(const float x[30], double y[30]) {
  for (int i=0;i<30;i++) y[i] = (double)x[i]*x[i];
}
""",
)
_add(
    "accd",
    """
void f(const float x[30], float y[1]) {
  double s=0;
  for (int i=0;i<30;i++) s += x[i];
  y[0]=(float)s;
}
""",
)
_add(
    "accs",
    """
void f(const short x[50], const short w[50], int r[1]) {
  int s=0;
  for (int i=0;i<50;i++) s += x[i]*w[i];
  r[0]=s;
}
""",
)
_add(
    "firs",
    """
void f(const short x[60], const short w[9], short y[52]) {
  for (int i=0;i<52;i++) {
    int s=0;
    for (int k=0;k<9;k++) s += x[i+k]*w[k];
    y[i]=(short)(s>>15);
  }
}
""",
)
_add(
    "i2f",
    """
void f(const int x[30], float y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]*0.001f;
}
""",
)
_add(
    "f2i",
    """
void f(const float x[30], int y[30]) {
  for (int i=0;i<30;i++) y[i] = (int)(x[i]*100.0f);
}
""",
)
_add(
    "s2f",
    """
void f(const short x[30], float y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]*0.5f;
}
""",
)
_add(
    "iter",
    """
void f(float y[30], int z[30]) {
  for (int i=0;i<30;i++) {
    y[i] = i*0.5f;
    z[i]=3*i-7;
  }
}
""",
)
_add(
    "iter2",
    """
void f(float y[10][20]) {
  for (int i=0;i<10;i++) for (int j=0;j<20;j++) y[i][j] = i*j+j;
}
""",
)
_add(
    "mod",
    """
void f(const int x[30], int y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]%7;
}
""",
)
_add(
    "idiv",
    """
void f(const int x[30], const int z[30], int y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]/((z[i]&15)+1);
}
""",
)
_add(
    "udiv",
    """
void f(const unsigned x[30], const unsigned z[30], unsigned y[30]) {
  for (int i=0;i<30;i++) y[i] = x[i]/((z[i]&15u)+1u);
}
""",
)
_add(
    "shift",
    """
void f(const int x[30], const unsigned u[30], int y[30], unsigned v[30]) {
  for (int i=0;i<30;i++) {
    y[i]=x[i]>>(i&7);
    v[i]=u[i]<<(u[i]&7);
  }
}
""",
)
_add(
    "bits",
    """
void f(const unsigned x[30], unsigned y[30]) {
  unsigned c=0xffffffffu;
  for (int i=0;i<30;i++) {
    c ^= x[i];
    for (int k=0;k<8;k++) c = (c>>1) ^ ((c&1u) ? 0xEDB88320u : 0u);
    y[i]=c;
  }
}
""",
)
_add(
    "constsub",
    """
void f(const float x[4][4], float y[4]) {
  for (int i=0;i<4;i++) y[i] = x[0][i]+x[1][3-i]*x[2][2];
}
""",
)
_add(
    "straight",
    """
void f(const float x[4], float y[4]) {
  y[0]=x[0]+x[1];
  y[1]=x[0]-x[1];
  y[2]=x[2]*x[3];
  y[3]=y[0]*y[1];
}
""",
)
_add(
    "threed",
    """
void f(const float a[3][5][7], float b[7][3][5]) {
  for (int i=0;i<3;i++) for (int j=0;j<5;j++) for (int k=0;k<7;k++) b[k][i][j]=a[i][j][k];
}
""",
)
_add(
    "fourd",
    """
void f(const float in[2][6][6], const float w[3][2][3][3], float out[3][4][4]) {
  for (int o=0;o<3;o++) for (int y=0;y<4;y++) for (int x=0;x<4;x++) {
    float s=0;
    for (int c=0;c<2;c++) for (int u=0;u<3;u++) for (int v=0;v<3;v++) s+=in[c][y+u][x+v]*w[o][c][u][v];
    out[o][y][x]=s;
  }
}
""",
)
_add(
    "conv1big",
    """
void f(const float x[128], const float h[33], float y[96]) {
  for (int i=0;i<96;i++) {
    y[i]=0;
    for (int k=0;k<33;k++) y[i]+=x[i+32-k]*h[k];
  }
}
""",
)
_add(
    "poly",
    """
void f(const float x[31], float y[31]) {
  for (int i=0;i<31;i++) {
    float p=0.1f;
    p=p*x[i]+0.2f;
    p=p*x[i]+0.3f;
    p=p*x[i]+0.4f;
    p=p*x[i]+0.5f;
    y[i]=p;
  }
}
""",
)
_add(
    "horner",
    """
void f(const float x[31], const float c[8], float y[31]) {
  for (int i=0;i<31;i++) {
    float p=0;
    for (int k=7;k>=0;k--) p=p*x[i]+c[k];
    y[i]=p;
  }
}
""",
)
_add(
    "iir3",
    """
void f(const float x[40], float y[40]) {
  for (int i=3;i<40;i++) y[i]=x[i]+0.3f*y[i-1]-0.2f*y[i-2]+0.1f*y[i-3];
}
""",
)
_add(
    "dist4",
    """
void f(float y[50]) {
  for (int i=4;i<50;i++) y[i]=y[i-4]*0.5f+1.0f;
}
""",
)
_add(
    "dist17",
    """
void f(float y[80]) {
  for (int i=17;i<80;i++) y[i]=y[i-17]*0.5f+1.0f;
}
""",
)
_add(
    "anti",
    """
void f(float y[80]) {
  for (int i=0;i<79;i++) y[i]=y[i+1]*0.5f+1.0f;
}
""",
)
_add(
    "rev_in",
    """
void f(float y[33]) {
  for (int i=0;i<16;i++) {
    float t=y[i];
    y[i]=y[32-i];
    y[32-i]=t;
  }
}
""",
)
_add(
    "rev_bad",
    """
void f(float y[33]) {
  for (int i=0;i<33;i++) y[i]=y[32-i];
}
""",
)
_add(
    "band",
    """
void f(const float a[20][20], const float x[20], float y[20]) {
  for (int i=0;i<20;i++) {
    y[i]=0;
    for (int j=(i>2?i-2:0); j<(i+3<20?i+3:20); j++) y[i]+=a[i][j]*x[j];
  }
}
""",
)
_add(
    "diag",
    """
void f(float a[19][19]) {
  for (int i=0;i<19;i++) a[i][i]=1.0f;
  for (int i=0;i<18;i++) a[i][i+1]=2.0f;
  for (int i=0;i<19;i++) a[i][18-i]+=0.5f;
}
""",
)
_add(
    "wave",
    """
void f(float a[18][18]) {
  for (int i=1;i<18;i++) for (int j=1;j<18;j++) a[i][j]=a[i-1][j]+a[i][j-1]+a[i-1][j-1];
}
""",
)
_add(
    "lcs",
    """
void f(const int x[14], const int y[15], int t[15][16]) {
  for (int i=0;i<15;i++) t[i][0]=0;
  for (int j=0;j<16;j++) t[0][j]=0;
  for (int i=1;i<15;i++) for (int j=1;j<16;j++) t[i][j] = (x[i-1]&3)==(y[j-1]&3) ? t[i-1][j-1]+1 :
      (t[i-1][j]>t[i][j-1]?t[i-1][j]:t[i][j-1]);
}
""",
)
_add(
    "dp_min",
    """
void f(const int w[12][12], int d[12][12]) {
  for (int i=1;i<12;i++) for (int j=0;j<12-i;j++) {
    d[j][j+i]=w[j][j+i];
    for (int k=0;k<i;k++) {
      int v=d[j][j+k]+d[j+k+1][j+i];
      d[j][j+i] = v<d[j][j+i]?v:d[j][j+i];
    }
  }
}
""",
)
_add(
    "syrk",
    """
void f(const float a[11][13], float c[11][11], float al, float be) {
  for (int i=0;i<11;i++) {
    for (int j=0;j<=i;j++) c[i][j]*=be;
    for (int k=0;k<13;k++) for (int j=0;j<=i;j++) c[i][j]+=al*a[i][k]*a[j][k];
  }
}
""",
)
_add(
    "trmm",
    """
void f(const float a[11][11], float b[11][12], float al) {
  for (int i=0;i<11;i++) for (int j=0;j<12;j++) {
    for (int k=i+1;k<11;k++) b[i][j]+=a[k][i]*b[k][j];
    b[i][j]=al*b[i][j];
  }
}
""",
)
_add(
    "gramschmidt",
    """
#include <math.h>
void f(float A[7][6], float R[6][6], float Q[7][6]) {
  for (int k=0;k<6;k++) {
    float n=0.1f;
    for (int i=0;i<7;i++) n+=A[i][k]*A[i][k];
    R[k][k]=sqrtf(n);
    for (int i=0;i<7;i++) Q[i][k]=A[i][k]/R[k][k];
    for (int j=k+1;j<6;j++) {
      R[k][j]=0;
      for (int i=0;i<7;i++) R[k][j]+=Q[i][k]*A[i][j];
      for (int i=0;i<7;i++) A[i][j]-=Q[i][k]*R[k][j];
    }
  }
}
""",
)
_add(
    "atax",
    """
void f(const float A[13][18], const float x[18], float y[18]) {
  float t[13];
  for (int i=0;i<18;i++) y[i]=0;
  for (int i=0;i<13;i++) {
    t[i]=0;
    for (int j=0;j<18;j++) t[i]+=A[i][j]*x[j];
    for (int j=0;j<18;j++) y[j]+=A[i][j]*t[i];
  }
}
""",
)
_add(
    "covar",
    """
void f(float d[14][11], float m[11], float c[11][11]) {
  for (int j=0;j<11;j++) {
    m[j]=0;
    for (int i=0;i<14;i++) m[j]+=d[i][j];
    m[j]/=14.0f;
  }
  for (int i=0;i<14;i++) for (int j=0;j<11;j++) d[i][j]-=m[j];
  for (int i=0;i<11;i++) for (int j=i;j<11;j++) {
    c[i][j]=0;
    for (int k=0;k<14;k++) c[i][j]+=d[k][i]*d[k][j];
    c[i][j]/=13.0f;
    c[j][i]=c[i][j];
  }
}
""",
)
_add(
    "durbin",
    """
void f(const float r[10], float y[10]) {
  float z[10];
  float alpha=-r[0], beta=1.0f;
  y[0]=-r[0];
  for (int k=1;k<10;k++) {
    beta=(1.0f-alpha*alpha)*beta+2.0f;
    float s=0;
    for (int i=0;i<k;i++) s+=r[k-i-1]*y[i];
    alpha=-(r[k]+s)/beta;
    for (int i=0;i<k;i++) z[i]=y[i]+alpha*y[k-i-1];
    for (int i=0;i<k;i++) y[i]=z[i];
    y[k]=alpha;
  }
}
""",
)
_add(
    "every_other",
    """
void f(const float x[20], float y[20]) {
  for (int i=0;i<20;i++)
    for (int j=0;j<12;j++)
      if (i-2*j+1 == 0) y[j]=x[i]+(float)j;
}
""",
)
_add(
    "adi_like",
    """
void f(float u[12][12], float v[12][12]) {
  for (int t=0;t<2;t++) {
    for (int i=1;i<11;i++) {
      v[0][i]=1.0f;
      for (int j=1;j<11;j++) v[j][i]=u[i][j]-0.3f*v[j-1][i];
    }
    for (int i=1;i<11;i++) for (int j=10;j>=1;j--) u[i][j]=v[i][j]+0.2f*u[i][j+1];
  }
}
""",
)
_add(
    "boolred",
    """
void f(const int x[30], int r[1]) {
  int c=0;
  for (int i=0;i<30;i++) c += x[i]>0;
  r[0]=c;
}
""",
)
_add(
    "argcount",
    """
void f(const float x[30], int r[1]) {
  int c=0;
  for (int i=0;i<30;i++) if (x[i]>0.25f) c++;
  r[0]=c;
}
""",
)
_add(
    "argmax",
    """
void f(const float x[30], int r[1]) {
  float m=x[0];
  int k=0;
  for (int i=1;i<30;i++) if (x[i]>m) {
    m=x[i];
    k=i;
  }
  r[0]=k;
}
""",
)
_add(
    "absd",
    """
#include <stdlib.h>
void f(const int x[30], const int y[30], int r[1]) {
  int s=0;
  for (int i=0;i<30;i++) s+=abs(x[i]-y[i]);
  r[0]=s;
}
""",
)
_add(
    "sad16",
    """
#include <stdlib.h>
void f(const unsigned short x[8][8], const unsigned short y[8][8], int r[1]) {
  int s=0;
  for (int i=0;i<8;i++) for (int j=0;j<8;j++) s+=abs(x[i][j]-y[i][j]);
  r[0]=s;
}
""",
)
_add(
    "img8",
    """
void f(const unsigned char x[9][20], unsigned char y[9][20]) {
  for (int i=1;i<8;i++) for (int j=1;j<19;j++) y[i][j] = (x[i][j-1]+2*x[i][j]+x[i][j+1])>>2;
}
""",
)
_add(
    "ll",
    """
void f(const int x[20], long long y[20]) {
  for (int i=0;i<20;i++) y[i]=(long long)x[i]*x[i];
}
""",
)
_add(
    "llsum",
    """
void f(const long long x[20], long long y[1]) {
  long long s=0;
  for (int i=0;i<20;i++) s+=x[i];
  y[0]=s;
}
""",
)
_add(
    "cplx",
    """
void f(const float a[40], const float b[40], float c[40]) {
  for (int i=0;i<20;i++) {
    c[2*i]=a[2*i]*b[2*i]-a[2*i+1]*b[2*i+1];
    c[2*i+1]=a[2*i]*b[2*i+1]+a[2*i+1]*b[2*i];
  }
}
""",
)
_add(
    "scalarin",
    """
void f(float a, double b, int c, float y[3]) {
  y[0]=a*2.0f;
  y[1]=(float)b;
  y[2]=c+a;
}
""",
)
_add(
    "gather_div",
    """
void f(const float x[20], float y[40]) {
  for (int i=0;i<40;i++) y[i]=x[i/2];
}
""",
)
_add(
    "gather_mod",
    """
void f(const float x[4], float y[40]) {
  for (int i=0;i<40;i++) y[i]=x[i%4];
}
""",
)
_add(
    "scal_loop",
    """
void f(const float x[33], float y[33], int n) {
  float a=(float)n;
  for (int i=0;i<33;i++) y[i]=x[i]*a;
}
""",
    n=5,
)
_add(
    "bcast_col",
    """
void f(const float x[17], float y[17][9]) {
  for (int i=0;i<17;i++) for (int j=0;j<9;j++) y[i][j]=x[i];
}
""",
)
_add(
    "outer",
    """
void f(const float x[17], const float z[33], float y[17][33]) {
  for (int i=0;i<17;i++) for (int j=0;j<33;j++) y[i][j]+=x[i]*z[j];
}
""",
)
_add(
    "dbl_rec",
    """
void f(const double x[25], double y[25]) {
  for (int i=1;i<25;i++) y[i]=0.5*y[i-1]+x[i];
}
""",
)
_add(
    "dbl_mm",
    """
void f(const double a[9][11], const double b[11][35], double c[9][35]) {
  for (int i=0;i<9;i++) for (int j=0;j<35;j++) {
    double s=0;
    for (int k=0;k<11;k++) s+=a[i][k]*b[k][j];
    c[i][j]=s;
  }
}
""",
)
_add(
    "prefix2",
    """
void f(const float a[15][15], float s[16][16]) {
  for (int i=0;i<16;i++) {
    s[0][i]=0;
    s[i][0]=0;
  }
  for (int i=0;i<15;i++) for (int j=0;j<15;j++) s[i+1][j+1]=a[i][j]+s[i][j+1]+s[i+1][j]-s[i][j];
}
""",
)
_add(
    "quotients",
    """
void f(const unsigned x[30], const unsigned z[30], unsigned y[30], unsigned w[30], unsigned v[30]) {
  for (int i=0;i<30;i++) {
    unsigned a = x[i]*2654435761u, b=(z[i]*2654435761u>>(i&31))|1u;
    y[i] = a/b;
    w[i]=a%b;
    v[i]=a/7u+x[i]%10u;
  }
}
""",
)
_add(
    "unsigned_halves",
    """
void f(const unsigned short x[40], unsigned short y[40], unsigned short z[40], int r[1]) {
  unsigned short t[40];
  int s=0;
  for (int i=0;i<40;i++) {
    t[i]=x[i]*77u;
    y[i]=t[i]>>3;
    s+=t[i];
  }
  for (int i=0;i<40;i++) z[i]=t[39-i]/3+y[i];
  r[0]=s;
}
""",
)
