/* Elements that are read, or written, from the last to the first. */
#ifndef N
#define N 200
#endif

void mirror(const float x[N], float y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = x[N - 1 - i] + 1.0f;
#pragma endscop
}

void downwards(const float x[N], float y[N])
{
#pragma scop
    for (int i = N - 1; i >= 0; i--)
        y[i] = x[i] * 3.0f;
#pragma endscop
}

void towards_the_front(float a[N])
{
#pragma scop
    for (int i = 0; i < N - 1; i++)
        a[i] = 0.5f * (a[i] + a[i + 1]);
#pragma endscop
}
