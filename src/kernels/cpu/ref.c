/* ref.c - the definition: built without any vectorisation. */
#define KN_TABLE kn_ref
#define KN_NAME "ref"
#include "kernels/cpu/kernels.inc"
