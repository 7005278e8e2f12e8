#ifndef DSPGEN_ASSERT_H
#define DSPGEN_ASSERT_H
#define assert(condition) ((void)0)
#endif
