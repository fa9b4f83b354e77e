/* avx512.c - the same source, vectorised by the compiler for AVX-512. */
#define KN_TABLE kn_avx512
#define KN_NAME "avx512"
#include "kernels/cpu/kernels.inc"
