/*
 * spec_arg.h - the ClusterSpec that a command was given.
 */
#ifndef CMD_SPEC_ARG_H
#define CMD_SPEC_ARG_H

#include "cluster/spec.h"

/* given: the value of --cluster or VB_CLUSTER, a file or the JSON itself; NULL: TF_CONFIG is taken.
 * *none_out: there is neither, VB_OK and out is empty. VB_INVAL, VB_NOMEM: err is a whole line. gives:
 * cl_spec_fini. */
VB_MUST_CHECK enum vb_st spec_arg_read(const char *given, bool from_env, struct cl_spec *out,
                                       bool *none_out, struct vb_err *err);

#endif
