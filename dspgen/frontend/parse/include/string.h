#ifndef DSPGEN_STRING_H
#define DSPGEN_STRING_H
#include <stddef.h>
void *memset(void *block, int value, size_t size);
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
int memcmp(const void *left, const void *right, size_t size);
char *strcpy(char *to, const char *from);
char *strncpy(char *to, const char *from, size_t size);
char *strcat(char *to, const char *from);
char *strchr(const char *text, int character);
char *strstr(const char *text, const char *part);
char *strdup(const char *text);
int strncmp(const char *left, const char *right, size_t size);
int strcmp(const char *left, const char *right);
size_t strlen(const char *text);
#endif
