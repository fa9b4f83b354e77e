#include "transport/backend.h"

const struct tp_backend *const tp_backends[TP_NWAYS] = {
    [TP_MAP] = &tp_map_backend,
    [TP_RDMA] = &tp_rdma_backend,
    [TP_TCP] = &tp_tcp_backend,
    [TP_LOOP] = &tp_loop_backend,
};
