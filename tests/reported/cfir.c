/* Complex filter, real and imaginary parts in turn; x starts at the oldest sample. */
void cfir(const short *x, const short *h, short *r, int nh, int nr)
{
    for (int i = 0; i < nr; i++) {
        int re = 0, im = 0;
        for (int j = 0; j < nh; j++) {
            re += h[2 * j] * x[2 * (i + j)] - h[2 * j + 1] * x[2 * (i + j) + 1];
            im += h[2 * j + 1] * x[2 * (i + j)] + h[2 * j] * x[2 * (i + j) + 1];
        }
        r[2 * i] = re >> 15;
        r[2 * i + 1] = im >> 15;
    }
}
