/* Each element by itself. */
#ifndef N
#define N 200
#endif

void scale_and_add(const float x[N], const float y[N], float z[N], float a)
{
#pragma scop
    for (int i = 0; i < N; i++)
        z[i] = a * x[i] + y[i];
#pragma endscop
}

void polynomial(const float x[N], float y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = ((0.25f * x[i] - 1.5f) * x[i] + 2.0f) * x[i] + 0.5f;
#pragma endscop
}

void two_statements(float a[N], float b[N], const float c[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        a[i] = a[i] + c[i];
        b[i] = a[i] * c[i] - b[i];
    }
#pragma endscop
}

void integers(const int x[N], const int y[N], int z[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        z[i] = ((x[i] + y[i]) >> 1) ^ (x[i] & 255);
#pragma endscop
}

void inverse_length(const float x[N], const float y[N], float r[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        r[i] = 1.0f / (1.0f + x[i] * x[i] + y[i] * y[i]);
#pragma endscop
}
