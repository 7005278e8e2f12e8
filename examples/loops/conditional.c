/* What is done where a condition holds. */
#ifndef N
#define N 200
#endif

void threshold(const float x[N], float y[N], float limit)
{
#pragma scop
    for (int i = 0; i < N; i++)
        if (x[i] > limit)
            y[i] = x[i] - limit;
#pragma endscop
}

void either_way(const float x[N], const float y[N], float z[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        if (x[i] < y[i])
            z[i] = x[i] * 2.0f;
        else
            z[i] = y[i] + 1.0f;
    }
#pragma endscop
}

void nested(const int x[N], const int y[N], int z[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        if (x[i] > 0) {
            if (y[i] > 0)
                z[i] = x[i] + y[i];
            else
                z[i] = x[i];
        }
    }
#pragma endscop
}

void skipped(float a[N], const float b[N], const float c[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        if (b[i] <= 0.0f)
            goto next;
        a[i] = b[i] * c[i];
    next:
        a[i] = a[i] + 1.0f;
    }
#pragma endscop
}
