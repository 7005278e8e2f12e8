#ifndef DSPGEN_MATH_H
#define DSPGEN_MATH_H
#define M_E 2.7182818284590452354
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
float sqrtf(float x);
double sqrt(double x);
float fabsf(float x);
double fabs(double x);
float fminf(float x, float y);
double fmin(double x, double y);
float fmaxf(float x, float y);
double fmax(double x, double y);
float fmaf(float x, float y, float z);
double fma(double x, double y, double z);
float sinf(float x);
double sin(double x);
float cosf(float x);
double cos(double x);
float tanf(float x);
double tan(double x);
float tanhf(float x);
double tanh(double x);
float atanf(float x);
double atan(double x);
float atan2f(float y, float x);
double atan2(double y, double x);
float expf(float x);
double exp(double x);
float logf(float x);
double log(double x);
float log2f(float x);
double log2(double x);
float powf(float x, float y);
double pow(double x, double y);
float floorf(float x);
double floor(double x);
float ceilf(float x);
double ceil(double x);
float roundf(float x);
double round(double x);
float fmodf(float x, float y);
double fmod(double x, double y);
#endif
