/* Loops with a recurrence in one statement, and none in the others; loops whose order has to change. */
#ifndef N
#define N 192
#endif

void beside_a_recurrence(float a[N], float b[N], const float c[N])
{
#pragma scop
    for (int i = 1; i < N; i++) {
        a[i] = a[i - 1] + c[i];
        b[i] = c[i] * c[i] + 2.0f * b[i];
    }
#pragma endscop
}

void out_of_order(float a[N + 1], float b[N + 1], const float c[N + 1])
{
#pragma scop
    for (int i = 1; i < N; i++) {
        a[i] = b[i - 1] + c[i];
        b[i] = b[i + 1] * c[i];
    }
#pragma endscop
}

void split_node(float a[N + 1], float b[N], const float c[N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        a[i] = b[i] + c[i];
        b[i] = (a[i] + a[i + 1]) * 0.5f;
    }
#pragma endscop
}

void other_loop(float a[48][48], const float b[48][48])
{
#pragma scop
    for (int i = 0; i < 48; i++)
        for (int j = 1; j < 48; j++)
            a[i][j] = a[i][j - 1] + b[i][j];
#pragma endscop
}

void rows_below(float a[48][48], const float b[48][48])
{
#pragma scop
    for (int j = 0; j < 48; j++)
        for (int i = 1; i < 48; i++)
            a[i][j] = a[i - 1][j] + b[i][j];
#pragma endscop
}

void triangle(float a[48][48], const float b[48])
{
#pragma scop
    for (int i = 0; i < 48; i++)
        for (int j = 0; j <= i; j++)
            a[i][j] = a[i][j] * b[i] + b[j];
#pragma endscop
}

void first_is_special(float a[N], const float b[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        a[i] = a[0] + b[i];
#pragma endscop
}
