#include "transport/backend.h"

#include "base/util.h"
#include "transport/tp_mem.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define LOG_MOD "transport"
#include "base/log.h"

static enum vb_st ports_open(struct tp_node *n)
{
    void *words;
    const enum vb_st st = tp_mem_new(TP_MEM_WORDS, TP_WORDS_BYTES, &words, &n->words_fd);

    if (st != VB_OK)
        return st;
    n->words = words;
    for (unsigned i = 0; i < n->nports; i++) {
        struct tp_port *p = &n->port[i];

        p->wake.word = &n->words[i];
        p->wake.efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (p->wake.efd < 0) {
            log_error("no eventfd for port %u: %m", i);
            return VB_NOMEM;
        }
    }
    return VB_OK;
}

enum vb_st tp_node_open(const struct tp_node_params *p, struct tp_node **node_out)
{
    if (p->nports < 1 || p->nports > TP_PORTS_MAX || p->name == NULL ||
        p->credit_bytes > TP_CREDIT_MAX)
        return VB_INVAL;

    struct tp_node *n = calloc(1, sizeof(*n));

    if (n == NULL)
        return VB_NOMEM;
    snprintf(n->name, sizeof(n->name), "%s", p->name);
    n->nports = p->nports;
    n->spin_ns = p->spin_ns;
    n->credit_given = p->credit_bytes != 0;
    n->credit_bytes = p->credit_bytes != 0 ? p->credit_bytes : TP_CREDIT_BYTES;
    n->loop_seed = p->loop_seed;
    n->words_fd = -1;
    for (unsigned i = 0; i < n->nports; i++)
        n->port[i] = (struct tp_port){ .node = n, .index = i, .wake.efd = -1 };

    const enum vb_st st = ports_open(n);

    if (st != VB_OK) {
        tp_node_close(n);
        return st;
    }
    *node_out = n;
    return VB_OK;
}

bool tp_node_close(struct tp_node *n)
{
    bool rests = true;

    if (n == NULL)
        return true;
    for (unsigned i = 0; i < atomic_load_explicit(&n->nlinks, memory_order_acquire); i++)
        n->link[i]->be->link_close(n->link[i]);
    for (unsigned w = 0; w < TP_NWAYS; w++)
        if (n->be_node[w] != NULL)
            rests &= tp_backends[w]->node_close(n->be_node[w]);
    if (!rests)
        return false; /* a thread of a library still uses the regions: they stay */
    for (unsigned i = 0; i < n->nregions; i++) {
        munmap(n->region[i].base, n->region[i].bytes);
        close(n->region[i].fd);
    }
    for (unsigned i = 0; i < n->nports; i++)
        if (n->port[i].wake.efd >= 0)
            close(n->port[i].wake.efd);
    if (n->words != NULL)
        munmap(n->words, TP_WORDS_BYTES);
    if (n->words_fd >= 0)
        close(n->words_fd);
    free(n);
    return true;
}

enum vb_st tp_region_new(struct tp_node *n, uint64_t bytes, bool huge, uint32_t *id_out)
{
    struct tp_region r;

    if (n->nregions == TP_REGIONS_MAX ||
        atomic_load_explicit(&n->nlinks, memory_order_acquire) != 0)
        return VB_INVAL;

    const enum vb_st st = tp_mem_new(huge ? TP_MEM_HUGE : TP_MEM_REGION, bytes, &r.base, &r.fd);

    if (st != VB_OK)
        return st;
    r.bytes = bytes;
    n->region[n->nregions] = r;
    *id_out = n->nregions++;
    return VB_OK;
}

void *tp_region_base(const struct tp_node *n, uint32_t id)
{
    return id < n->nregions ? n->region[id].base : NULL;
}

uint64_t tp_region_bytes(const struct tp_node *n, uint32_t id)
{
    return id < n->nregions ? n->region[id].bytes : 0;
}
