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
FILE *fopen(const char *path, const char *mode);
int fclose(FILE *file);
int fflush(FILE *file);
char *fgets(char *text, int size, FILE *file);
int fputs(const char *text, FILE *file);
int fscanf(FILE *file, const char *format, ...);
int sscanf(const char *text, const char *format, ...);
size_t fread(void *block, size_t size, size_t count, FILE *file);
size_t fwrite(const void *block, size_t size, size_t count, FILE *file);
void perror(const char *text);
int puts(const char *text);
int putchar(int character);
int fputc(int character, FILE *file);
int getchar(void);
#endif
