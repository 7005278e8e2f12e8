/* One number for many. */
#ifndef N
#define N 200
#endif

void inner_product(const float x[N], const float y[N], float s[1])
{
#pragma scop
    s[0] = 0.0f;
    for (int i = 0; i < N; i++)
        s[0] += x[i] * y[i];
#pragma endscop
}

void largest(const float x[N], float m[1])
{
    float best = x[0];
#pragma scop
    for (int i = 1; i < N; i++)
        if (x[i] > best)
            best = x[i];
    m[0] = best;
#pragma endscop
}

void where_largest(const int x[N], int where[2])
{
    int best = x[0];
    int at = 0;
#pragma scop
    for (int i = 1; i < N; i++)
        if (x[i] > best) {
            best = x[i];
            at = i;
        }
    where[0] = best;
    where[1] = at;
#pragma endscop
}

void sum_of_some(const float x[N], float s[1])
{
    float sum = 0.0f;
#pragma scop
    for (int i = 0; i < N; i++)
        if (x[i] > 0.0f)
            sum += x[i];
    s[0] = sum;
#pragma endscop
}

void two_moments(const float x[N], float s[2])
{
    float first = 0.0f, second = 0.0f;
#pragma scop
    for (int i = 0; i < N; i++) {
        first += x[i];
        second += x[i] * x[i];
    }
    s[0] = first;
    s[1] = second;
#pragma endscop
}

void product(const float x[64], float s[1])
{
    float p = 1.0f;
#pragma scop
    for (int i = 0; i < 64; i++)
        p *= x[i];
    s[0] = p;
#pragma endscop
}

void row_norms(const float a[20][N], float s[20])
{
#pragma scop
    for (int i = 0; i < 20; i++) {
        s[i] = 0.0f;
        for (int j = 0; j < N; j++)
            s[i] += a[i][j] * a[i][j];
    }
#pragma endscop
}
