/*
 * addr.h - "host:port" and "[ipv6]:port" as text. Pure functions.
 */
#ifndef CLUSTER_ADDR_H
#define CLUSTER_ADDR_H

#include "cluster/spec.h"

enum { CL_ADDR_TEXT = CL_HOST_MAX + 10 };

/* NULL, or what is wrong with the text and what to write instead. */
const char *addr_read(const char *text, struct cl_addr *out);

/* The text of an address into buf[CL_ADDR_TEXT]; returns buf. */
char *addr_text(const struct cl_addr *a, char *buf);

/* All digits, no sign, no space, no leading zero, at most limit. */
VB_MUST_CHECK bool addr_number(const char *text, uint32_t limit, uint32_t *out);

#endif
