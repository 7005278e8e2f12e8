#ifndef DSPGEN_UNISTD_H
#define DSPGEN_UNISTD_H
#include <stddef.h>
int usleep(unsigned microseconds);
unsigned sleep(unsigned seconds);
int getpid(void);
int getopt(int count, char *const arguments[], const char *options);
extern char *optarg;
extern int optind;
#endif
