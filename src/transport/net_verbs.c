#include "transport/net_dev.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void ask(struct rdma_port *p, struct ibv_context *ctx)
{
    struct ibv_port_attr attr;
    const int e = ibv_query_port(ctx, (uint8_t)p->port, &attr);

    if (e != 0) {
        snprintf(p->why_not, sizeof(p->why_not), "the device does not say what its port can do: %s",
                 strerror(e));
        return;
    }
    p->mtu = rdma_mtu_bytes(attr.active_mtu);
    p->mtu_max = rdma_mtu_bytes(attr.max_mtu);
    p->max_msg_bytes = attr.max_msg_sz;
}

static void ask_device(struct rdma_port *p, struct ibv_device **list)
{
    struct ibv_device *device = NULL;

    for (unsigned i = 0; list[i] != NULL && device == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), p->device) == 0)
            device = list[i];
    if (device == NULL) {
        snprintf(p->why_not, sizeof(p->why_not),
                 "no driver for it in libibverbs; install ibverbs-providers (rdma-core)");
        return;
    }
    struct ibv_context *ctx = ibv_open_device(device);
    if (ctx == NULL) {
        snprintf(p->why_not, sizeof(p->why_not), "the device cannot be opened: %s",
                 strerror(errno));
        return;
    }
    ask(p, ctx);
    ibv_close_device(ctx);
}

void rdma_ports_ask(struct rdma_ports *p)
{
    struct ibv_device **list = NULL;

    for (size_t i = 0; i < p->n; i++) {
        if (p->port[i].why_not[0] != '\0')
            continue;
        if (list == NULL)
            list = ibv_get_device_list(NULL);
        if (list == NULL) {
            snprintf(p->port[i].why_not, sizeof(p->port[i].why_not),
                     "libibverbs lists no device: %s", strerror(errno));
            continue;
        }
        ask_device(&p->port[i], list);
    }
    if (list != NULL)
        ibv_free_device_list(list);
}
