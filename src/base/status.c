#include "verbena/status.h"

const char *vb_st_str(enum vb_st st)
{
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return text;
    switch (st) {
        VB_ST_LIST(X)
    }
#undef X
    return "unknown status";
}

enum vb_exit vb_st_exit(enum vb_st st)
{
    switch (st) {
    case VB_OK:
        return VB_EXIT_OK;
    case VB_UNREACHABLE:
        return VB_EXIT_LOST;
    case VB_TIMEOUT:
        return VB_EXIT_TIMEOUT;
    case VB_REFUSED:
        return VB_EXIT_REFUSED;
    case VB_NOFABRIC:
        return VB_EXIT_NOFABRIC;
    default:
        return VB_EXIT_FAILED;
    }
}
