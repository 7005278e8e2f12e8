/* Lanes that are not neighbours: even and odd elements, columns, every third element. */
#ifndef N
#define N 192
#endif

void complex_scale(const float z[2 * N], float w[2 * N], float re, float im)
{
#pragma scop
    for (int i = 0; i < N; i++) {
        w[2 * i] = re * z[2 * i] - im * z[2 * i + 1];
        w[2 * i + 1] = re * z[2 * i + 1] + im * z[2 * i];
    }
#pragma endscop
}

void every_third(const float x[3 * N], float y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = x[3 * i] + x[3 * i + 1] + x[3 * i + 2];
#pragma endscop
}

void spread(const float x[N], float y[2 * N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[2 * i] = x[i] * x[i];
#pragma endscop
}

void column_sums(const float a[48][N], float s[N])
{
#pragma scop
    for (int j = 0; j < N; j++) {
        s[j] = 0.0f;
        for (int i = 0; i < 48; i++)
            s[j] += a[i][j];
    }
#pragma endscop
}

void transposed(const float a[48][48], float b[48][48])
{
#pragma scop
    for (int i = 0; i < 48; i++)
        for (int j = 0; j < 48; j++)
            b[i][j] = 2.0f * a[j][i];
#pragma endscop
}
