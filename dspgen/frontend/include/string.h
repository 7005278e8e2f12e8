#ifndef DSPGEN_STRING_H
#define DSPGEN_STRING_H
#include <stddef.h>
void *memset(void *block, int value, size_t size);
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
int memcmp(const void *left, const void *right, size_t size);
int strcmp(const char *left, const char *right);
size_t strlen(const char *text);
#endif
