/* avx2.c - the same source, vectorised by the compiler for AVX2. */
#define KN_TABLE kn_avx2
#define KN_NAME "avx2"
#include "kernels/cpu/kernels.inc"
