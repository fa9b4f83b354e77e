#include "perf/perf.h"

#include "verbena/status.h"

#include <stdio.h>

int perf_main(int argc, char **argv)
{
    fputs("perf: there is nothing to measure yet\n", stderr);
    return VB_EXIT_FAILED;
}
