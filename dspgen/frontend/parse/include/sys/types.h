#ifndef DSPGEN_SYS_TYPES_H
#define DSPGEN_SYS_TYPES_H
#include <stddef.h>
#include <stdint.h>
#include <time.h>
typedef long ssize_t;
typedef long off_t;
#endif
