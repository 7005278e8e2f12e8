/* What depends on the iteration before: recurrences run by prefixes across lanes, of the rest a remark says why. */
#ifndef N
#define N 192
#endif

void recurrence(float a[N], const float b[N])
{
#pragma scop
    for (int i = 1; i < N; i++)
        a[i] = a[i - 1] * b[i] + 1.0f;
#pragma endscop
}

void running_sum(const float x[N], float y[N])
{
    float sum = 0.0f;
#pragma scop
    for (int i = 0; i < N; i++) {
        sum += x[i];
        y[i] = sum;
    }
#pragma endscop
}

void first_beyond(const float x[N], float limit, int where[1])
{
    int at = -1;
#pragma scop
    for (int i = 0; i < N; i++)
        if (x[i] > limit) {
            at = i;
            break;
        }
    where[0] = at;
#pragma endscop
}

void packed(const float x[N], float y[N], int count[1])
{
    int k = 0;
#pragma scop
    for (int i = 0; i < N; i++)
        if (x[i] > 0.0f) {
            y[k] = x[i];
            k++;
        }
    count[0] = k;
#pragma endscop
}
