#ifndef DSPGEN_STDIO_H
#define DSPGEN_STDIO_H
#include <stddef.h>
typedef struct dspgen_file FILE;
extern FILE *stdin, *stdout, *stderr;
int printf(const char *format, ...);
int fprintf(FILE *file, const char *format, ...);
int sprintf(char *text, const char *format, ...);
int snprintf(char *text, size_t size, const char *format, ...);
int scanf(const char *format, ...);
int puts(const char *text);
int putchar(int character);
#endif
