"""Five kernels of a few dozen operations each, for machines of which many are to be tried."""

from __future__ import annotations

KERNELS = {
    "dot": """
void dot(const float x[22], const float y[22], float result[1])
{
  float sum = 0.0f;
  for (int i = 0; i < 22; i++)
    sum += x[i] * y[i];
  result[0] = sum;
}
""",
    "saxpy": """
void saxpy(float a, const float x[21], float y[21])
{
  for (int i = 0; i < 21; i++)
    y[i] = a * x[i] + y[i];
}
""",
    "matmul": """
void matmul(const float A[3][4], const float B[4][32], float C[3][32])
{
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 32; j++) {
      C[i][j] = 0.0f;
      for (int k = 0; k < 4; k++)
        C[i][j] += A[i][k] * B[k][j];
    }
}
""",
    "fir": """
void fir(const int x[19], const int h[4], int y[16])
{
  for (int i = 0; i < 16; i++) {
    int sum = 0;
    for (int k = 0; k < 4; k++)
      sum += h[k] * x[i + k];
    y[i] = sum;
  }
}
""",
    "clamp": """
void clamp(const int x[18], int y[18])
{
  for (int i = 0; i < 18; i++) {
    int v = x[i] < -100 ? -100 : x[i];
    y[i] = v > 100 ? 100 : v;
  }
}
""",
}
