/* Subscripts that are data.
 * @input index expr N - 1 - arange(N)
 */
#ifndef N
#define N 192
#endif

void gather(const float x[N], const int index[N], float y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = 2.0f * x[index[i]] + 1.0f;
#pragma endscop
}

void scatter(const float x[N], const int index[N], float y[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[index[i]] = x[i] * x[i];
#pragma endscop
}

void gathered_sum(const float x[N], const float w[N], const int index[N], float s[1])
{
    float sum = 0.0f;
#pragma scop
    for (int i = 0; i < N; i++)
        sum += w[i] * x[index[i]];
    s[0] = sum;
#pragma endscop
}

void histogram(const int index[N], int bins[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        bins[index[i]] += 1;
#pragma endscop
}
