/* Variables that step with the loop, or lag behind it. */
#ifndef N
#define N 192
#endif

void second_counter(const float x[2 * N], float y[N])
{
    int k = 0;
#pragma scop
    for (int i = 0; i < N; i++) {
        y[i] = x[k] * x[k + 1];
        k += 2;
    }
#pragma endscop
}

void counts_down(const float x[N], float y[N])
{
    int k = N;
#pragma scop
    for (int i = 0; i < N; i++) {
        k--;
        y[k] = x[i] + 1.0f;
    }
#pragma endscop
}

void wraps_around(const float x[N], float y[N])
{
    int last = N - 1;
#pragma scop
    for (int i = 0; i < N; i++) {
        y[i] = (x[i] + x[last]) * 0.5f;
        last = i;
    }
#pragma endscop
}

void value_of_before(const float x[N], float y[N])
{
    float before = x[N - 1];
#pragma scop
    for (int i = 0; i < N; i++) {
        y[i] = (x[i] + before) * 0.5f;
        before = x[i];
    }
#pragma endscop
}

void temporary(const float x[N], const float y[N], float z[N], float w[N])
{
    float t;
#pragma scop
    for (int i = 0; i < N; i++) {
        t = x[i] - y[i];
        z[i] = t * t;
        w[i] = t + 1.0f;
    }
#pragma endscop
}
