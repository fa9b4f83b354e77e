#include "perf/raw_verbs.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"

#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { MSG_MAX = 4096, RECVS = 16, QUEUE = 64, WAIT_S = 20 };

struct raw_verbs {
    struct rdma_cm_id *id, *listener;
    struct ibv_mr *mr_src, *mr_dst, *mr_msg;
    unsigned char *src, *dst, *msg; /* msg: RECVS places for what comes, one for what goes */
    uint64_t peer_dst, max_msg_bytes;
    uint32_t peer_key;
};

static struct ibv_qp_init_attr queue_attr(void)
{
    return (struct ibv_qp_init_attr){
        .cap = { .max_send_wr = QUEUE, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 },
        .sq_sig_all = 1
    };
}

/* The address, and with it the device. */
static bool make_id(const char *host, const char *port, int flags, struct rdma_cm_id **out)
{
    struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *ai;
    struct ibv_qp_init_attr attr = queue_attr();
    bool ok;

    if (rdma_getaddrinfo(host, port, &hints, &ai) != 0)
        return false;
    ok = rdma_create_ep(out, ai, NULL, &attr) == 0;
    rdma_freeaddrinfo(ai);
    return ok;
}

static bool passive_id(struct raw_verbs *r, int fd, const char *host)
{
    uint16_t port;

    if (!make_id(host, "0", RAI_PASSIVE | RAI_NUMERICHOST, &r->listener) ||
        rdma_listen(r->listener, 1) != 0)
        return false;
    port = ntohs(rdma_get_src_port(r->listener));
    return send(fd, &port, sizeof(port), MSG_NOSIGNAL) == sizeof(port) &&
           rdma_get_request(r->listener, &r->id) == 0;
}

static bool active_id(struct raw_verbs *r, int fd, const char *host)
{
    char text[8];
    uint16_t port;

    if (recv(fd, &port, sizeof(port), MSG_WAITALL) != sizeof(port))
        return false;
    snprintf(text, sizeof(text), "%u", port);
    return make_id(host, text, RAI_NUMERICHOST, &r->id);
}

static bool post_recv(struct raw_verbs *r, uint64_t place)
{
    return rdma_post_recv(r->id, (void *)(uintptr_t)place, r->msg + place * MSG_MAX, MSG_MAX,
                          r->mr_msg) == 0;
}

static bool prepare(struct raw_verbs *r, uint64_t bytes)
{
    struct ibv_port_attr port;
    bool ok = true;

    if (ibv_query_port(r->id->verbs, r->id->port_num, &port) != 0)
        return false;
    r->max_msg_bytes = port.max_msg_sz;
    r->mr_src = rdma_reg_msgs(r->id, r->src, bytes);
    r->mr_dst = rdma_reg_write(r->id, r->dst, bytes);
    r->mr_msg = rdma_reg_msgs(r->id, r->msg, (RECVS + 1) * MSG_MAX);
    ok = r->mr_src != NULL && r->mr_dst != NULL && r->mr_msg != NULL && r->max_msg_bytes > 0;
    for (uint64_t i = 0; ok && i < RECVS; i++)
        ok = post_recv(r, i);
    return ok;
}

static bool exchange_keys(struct raw_verbs *r, int fd)
{
    struct {
        uint64_t dst;
        uint32_t key, zero;
    } mine = { .dst = (uint64_t)(uintptr_t)r->dst, .key = r->mr_dst->rkey }, theirs;

    if (send(fd, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
        recv(fd, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
        return false;
    r->peer_dst = theirs.dst;
    r->peer_key = theirs.key;
    return true;
}

bool raw_verbs_open(int fd, bool active, const char *host, void *src, void *dst, uint64_t bytes,
                    struct raw_verbs **out)
{
    struct raw_verbs *r = calloc(1, sizeof(*r));
    bool ok;

    if (r == NULL)
        return false;
    *out = r;
    r->src = src;
    r->dst = dst;
    r->msg = aligned_alloc(MSG_MAX, (RECVS + 1) * MSG_MAX);
    ok = r->msg != NULL && (active ? active_id(r, fd, host) : passive_id(r, fd, host)) &&
         prepare(r, bytes) &&
         (active ? rdma_connect(r->id, NULL) : rdma_accept(r->id, NULL)) == 0 &&
         exchange_keys(r, fd);
    if (!ok)
        log_error("raw verbs: no connection over %s: %m", host);
    return ok;
}

void raw_verbs_close(struct raw_verbs *r)
{
    if (r == NULL)
        return;
    if (r->id != NULL)
        (void)rdma_disconnect(r->id);
    if (r->mr_src != NULL)
        (void)rdma_dereg_mr(r->mr_src);
    if (r->mr_dst != NULL)
        (void)rdma_dereg_mr(r->mr_dst);
    if (r->mr_msg != NULL)
        (void)rdma_dereg_mr(r->mr_msg);
    if (r->id != NULL)
        rdma_destroy_ep(r->id);
    if (r->listener != NULL)
        rdma_destroy_ep(r->listener);
    free(r->msg);
    free(r);
}

/* One completion; false: an error, or none for too long. */
static bool complete(struct ibv_cq *cq, struct ibv_wc *wc)
{
    const uint64_t deadline_ns = vb_now_ns() + WAIT_S * VB_SEC;
    int n = 0;

    for (unsigned i = 1; n == 0; i++) {
        n = ibv_poll_cq(cq, 1, wc);
        if (n == 0 && i % 1024 == 0 && vb_now_ns() >= deadline_ns)
            return false;
    }
    if (n == 1 && wc->status == IBV_WC_SUCCESS)
        return true;
    log_error("raw verbs: %s", n < 0 ? "the queue failed" : ibv_wc_status_str(wc->status));
    return false;
}

bool raw_verbs_send(struct raw_verbs *r, uint64_t bytes)
{
    struct ibv_wc wc;

    return bytes <= MSG_MAX &&
           rdma_post_send(r->id, NULL, r->msg + RECVS * MSG_MAX, bytes, r->mr_msg, 0) == 0 &&
           complete(r->id->send_cq, &wc);
}

bool raw_verbs_recv(struct raw_verbs *r)
{
    struct ibv_wc wc;

    return complete(r->id->recv_cq, &wc) && post_recv(r, wc.wr_id);
}

bool raw_verbs_write(struct raw_verbs *r, uint64_t bytes, uint64_t n, unsigned window)
{
    struct ibv_wc wc;
    unsigned under_way = 0;

    for (uint64_t i = 0; i < n; i++)
        for (uint64_t at = 0, piece; at < bytes; at += piece) {
            piece = raw_verbs_cut(bytes, r->max_msg_bytes, at);
            if (under_way == window && (!complete(r->id->send_cq, &wc) || under_way-- == 0))
                return false;
            if (rdma_post_write(r->id, NULL, r->src + at, piece, r->mr_src, 0, r->peer_dst + at,
                                r->peer_key) != 0)
                return false;
            under_way++;
        }
    for (; under_way > 0; under_way--)
        if (!complete(r->id->send_cq, &wc))
            return false;
    return true;
}
