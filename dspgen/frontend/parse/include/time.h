#ifndef DSPGEN_TIME_H
#define DSPGEN_TIME_H
#include <stddef.h>
typedef long time_t;
typedef long clock_t;
typedef int clockid_t;
struct timespec {
  time_t tv_sec;
  long tv_nsec;
};
#define CLOCKS_PER_SEC 1000000L
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
clock_t clock(void);
time_t time(time_t *place);
int clock_gettime(clockid_t clock, struct timespec *time);
double difftime(time_t end, time_t start);
#endif
