/* train.h - `verbena perf train`; what it measures is said in train.c. */
#ifndef PERF_TRAIN_H
#define PERF_TRAIN_H

#include "perf/bench.h"

/* false: verbena itself could not be measured (logged). A missing PyTorch is said and is no failure. */
bool perf_train(const struct bench_out *o, unsigned rounds);

#endif
