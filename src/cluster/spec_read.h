/*
 * spec_read.h - from the JSON object to a ClusterSpec; for spec.c only.
 */
#ifndef CLUSTER_SPEC_READ_H
#define CLUSTER_SPEC_READ_H

#include "cluster/spec.h"

#include <jansson.h>

/* out is zeroed; after a failure it may be half-built: cl_spec_fini. err may have control
 * characters. */
VB_MUST_CHECK enum vb_st spec_read(json_t *root, struct cl_spec *out, struct vb_err *err);

#endif
