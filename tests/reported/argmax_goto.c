/* A maximum whose place is found under the opposite condition. */
#include <math.h>
void argmax(float a[640], float out[1])
{
  int index = 0;
  float max = fabsf(a[0]);
  for (int i = 1; i < 640; i++) {
    if (fabsf(a[i]) <= max)
      goto next;
    index = i;
    max = fabsf(a[i]);
  next:;
  }
  out[0] = max + (float)index;
}
