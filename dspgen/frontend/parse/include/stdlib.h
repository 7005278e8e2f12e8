#ifndef DSPGEN_STDLIB_H
#define DSPGEN_STDLIB_H
#include <stddef.h>
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
int abs(int x);
long labs(long x);
long long llabs(long long x);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **block, size_t alignment, size_t size);
void free(void *block);
int rand(void);
void srand(unsigned seed);
int atoi(const char *text);
long atol(const char *text);
double atof(const char *text);
long strtol(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
double strtod(const char *text, char **end);
char *getenv(const char *name);
void qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
int system(const char *command);
void exit(int status);
void abort(void);
#endif
