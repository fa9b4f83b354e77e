/*
 * mem_limit.h - how much more memory the control groups of this process let it use. The kernel kills who
 * goes beyond, without a word; asking first makes a message of it.
 */
#ifndef TRANSPORT_MEM_LIMIT_H
#define TRANSPORT_MEM_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct mem_limit {
    uint64_t left, limit; /* of the group that leaves least */
    char file[256];       /* where its limit stands */
};

/* cgroup: as /proc/self/cgroup; root: as /sys/fs/cgroup. What can be given back (cached files) counts as
 * left. false: there is no limit that can be read. */
bool mem_limit_read(const char *cgroup, const char *root, struct mem_limit *out);

#endif
