/* Strides, offsets and sizes that are parameters.
 * @input inc 2
 */
#ifndef N
#define N 192
#endif

void symbolic_stride(float y[N], const float x[4 * N], int inc)
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = y[i] + x[i * inc];
#pragma endscop
}

void symbolic_step(float y[N], const float x[N], int inc)
{
#pragma scop
    for (int i = 0; i < N; i += inc)
        y[i] = y[i] * x[i];
#pragma endscop
}

void symbolic_offset(float y[N], const float x[2 * N], int inc)
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = x[i + inc] - y[i];
#pragma endscop
}
