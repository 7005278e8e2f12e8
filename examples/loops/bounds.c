/* Minimum, maximum, absolute value, clamping. */
#ifndef N
#define N 200
#endif

void clamp(const float x[N], float y[N], float low, float high)
{
#pragma scop
    for (int i = 0; i < N; i++) {
        float v = x[i];
        if (v < low)
            v = low;
        if (v > high)
            v = high;
        y[i] = v;
    }
#pragma endscop
}

void larger_of_two(const int x[N], const int y[N], int z[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        z[i] = x[i] >= y[i] ? x[i] : y[i];
#pragma endscop
}

void distance(const int x[N], const int y[N], int z[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        z[i] = x[i] < y[i] ? y[i] - x[i] : x[i] - y[i];
#pragma endscop
}

void saturated(const short x[N], const short y[N], short z[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        int s = x[i] + y[i];
        if (s > 32767)
            s = 32767;
        if (s < -32768)
            s = -32768;
        z[i] = (short)s;
    }
#pragma endscop
}
