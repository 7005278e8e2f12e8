#ifndef DSPGEN_STDLIB_H
#define DSPGEN_STDLIB_H
#include <stddef.h>
int abs(int x);
long labs(long x);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void free(void *block);
int rand(void);
void srand(unsigned seed);
int atoi(const char *text);
double atof(const char *text);
void exit(int status);
void abort(void);
#endif
