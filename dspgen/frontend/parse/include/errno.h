#ifndef DSPGEN_ERRNO_H
#define DSPGEN_ERRNO_H
int *__errno_location(void);
#define errno (*__errno_location())
#endif
