#include "perf/raw_ucx.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

enum { AM = 9, WAIT_S = 20, KEY_MAX = 512, RNDV_BYTES = 65536 };

struct raw_ucx {
    ucp_context_h ctx;
    ucp_worker_h worker;
    ucp_listener_h listener;
    ucp_ep_h ep;
    ucp_mem_h mem_src, mem_dst;
    void *src, *dst;
    uint64_t bytes, received;
    unsigned under_way;
    uint64_t peer_dst;
    ucp_rkey_h key;
};

static void on_landed(void *req, ucs_status_t s, size_t bytes, void *arg)
{
    ((struct raw_ucx *)arg)->received++;
    ucp_request_free(req);
}

static ucs_status_t on_am(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                          const ucp_am_recv_param_t *param)
{
    struct raw_ucx *r = arg;
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                    UCP_OP_ATTR_FIELD_USER_DATA |
                                                    UCP_OP_ATTR_FIELD_MEMH,
                                    .cb.recv_am = on_landed,
                                    .user_data = r,
                                    .memh = r->mem_dst };

    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(r->dst, data, bytes);
        r->received++;
        return UCS_OK;
    }
    if (!UCS_PTR_IS_PTR(ucp_am_recv_data_nbx(r->worker, data, r->dst, bytes, &p)))
        r->received++;
    return UCS_INPROGRESS;
}

static void on_conn(ucp_conn_request_h request, void *arg)
{
    struct raw_ucx *r = arg;
    const ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST,
                                .conn_request = request };

    if (ucp_ep_create(r->worker, &p, &r->ep) != UCS_OK)
        log_error("raw ucx: no endpoint");
}

static bool listen_on(struct raw_ucx *r, int fd, const struct addrinfo *ai)
{
    const uint64_t deadline_ns = vb_now_ns() + WAIT_S * VB_SEC;
    ucp_listener_params_t p = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                              UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                .sockaddr = { ai->ai_addr, ai->ai_addrlen },
                                .conn_handler = { on_conn, r } };
    ucp_listener_attr_t a = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };

    if (ucp_listener_create(r->worker, &p, &r->listener) != UCS_OK ||
        ucp_listener_query(r->listener, &a) != UCS_OK ||
        send(fd, &a.sockaddr, sizeof(a.sockaddr), MSG_NOSIGNAL) != sizeof(a.sockaddr))
        return false;
    while (r->ep == NULL && vb_now_ns() < deadline_ns)
        ucp_worker_progress(r->worker);
    return r->ep != NULL;
}

static bool connect_to(struct raw_ucx *r, int fd)
{
    struct sockaddr_storage to;

    if (recv(fd, &to, sizeof(to), MSG_WAITALL) != sizeof(to))
        return false;

    const ucp_ep_params_t p = {
        .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = { (const struct sockaddr *)&to, to.ss_family == AF_INET
                                                        ? sizeof(struct sockaddr_in)
                                                        : sizeof(struct sockaddr_in6) }
    };

    return ucp_ep_create(r->worker, &p, &r->ep) == UCS_OK;
}

static bool map(struct raw_ucx *r, void *at, ucp_mem_h *out)
{
    const ucp_mem_map_params_t m = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                   UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                     .address = at,
                                     .length = r->bytes };

    return ucp_mem_map(r->ctx, &m, out) == UCS_OK;
}

static bool context_open(struct raw_ucx *r, enum tp_way way)
{
    const ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                             .features = UCP_FEATURE_AM | UCP_FEATURE_RMA };
    const ucp_worker_params_t w = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                    .thread_mode = UCS_THREAD_MODE_SINGLE };
    const ucp_am_handler_param_t h = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                     UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                     UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                       .id = AM,
                                       .cb = on_am,
                                       .arg = r };
    ucp_config_t *config;
    bool ok;

    if (ucp_config_read(NULL, NULL, &config) != UCS_OK)
        return false;
    ok = ucp_config_modify(config, "TLS", way == TP_RDMA ? "rc" : "tcp") == UCS_OK &&
         ucp_init(&p, config, &r->ctx) == UCS_OK;
    ucp_config_release(config);
    return ok && ucp_worker_create(r->ctx, &w, &r->worker) == UCS_OK &&
           ucp_worker_set_am_recv_handler(r->worker, &h) == UCS_OK && map(r, r->src, &r->mem_src) &&
           map(r, r->dst, &r->mem_dst);
}

/* Both tell the other where a put may go. */
static bool exchange_keys(struct raw_ucx *r, int fd)
{
    struct {
        uint64_t dst;
        size_t bytes;
        unsigned char key[KEY_MAX];
    } mine = { .dst = (uint64_t)(uintptr_t)r->dst }, theirs;
    void *key;

    if (ucp_rkey_pack(r->ctx, r->mem_dst, &key, &mine.bytes) != UCS_OK || mine.bytes > KEY_MAX)
        return false;
    memcpy(mine.key, key, mine.bytes);
    ucp_rkey_buffer_release(key);
    if (send(fd, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
        recv(fd, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
        return false;
    r->peer_dst = theirs.dst;
    return ucp_ep_rkey_unpack(r->ep, theirs.key, &r->key) == UCS_OK;
}

bool raw_ucx_open(int fd, bool active, enum tp_way way, const char *host, void *src, void *dst,
                  uint64_t bytes, struct raw_ucx **out)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    struct raw_ucx *r = calloc(1, sizeof(*r));
    struct addrinfo *ai = NULL;
    bool ok;

    if (r == NULL || getaddrinfo(host, "0", &hints, &ai) != 0) {
        free(r);
        return false;
    }
    r->src = src;
    r->dst = dst;
    r->bytes = bytes;
    ok = context_open(r, way) && (active ? connect_to(r, fd) : listen_on(r, fd, ai));
    /* a first message each way, so that the connection is whole */
    ok = ok && raw_ucx_send(r, 8, 1, 1) && raw_ucx_await(r, 1) && exchange_keys(r, fd);
    freeaddrinfo(ai);
    *out = r;
    if (!ok)
        log_error("raw ucx: no connection over %s", host);
    return ok;
}

void raw_ucx_close(struct raw_ucx *r)
{
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                    .flags = UCP_EP_CLOSE_FLAG_FORCE };

    if (r == NULL)
        return;
    if (r->key != NULL)
        ucp_rkey_destroy(r->key);
    if (r->ep != NULL) {
        void *req = ucp_ep_close_nbx(r->ep, &p);

        while (UCS_PTR_IS_PTR(req) && ucp_request_check_status(req) == UCS_INPROGRESS)
            ucp_worker_progress(r->worker);
        if (UCS_PTR_IS_PTR(req))
            ucp_request_free(req);
    }
    if (r->listener != NULL)
        ucp_listener_destroy(r->listener);
    if (r->mem_src != NULL)
        ucp_mem_unmap(r->ctx, r->mem_src);
    if (r->mem_dst != NULL)
        ucp_mem_unmap(r->ctx, r->mem_dst);
    if (r->worker != NULL)
        ucp_worker_destroy(r->worker);
    if (r->ctx != NULL)
        ucp_cleanup(r->ctx);
    free(r);
}

static void on_sent(void *req, ucs_status_t s, void *arg)
{
    ((struct raw_ucx *)arg)->under_way--;
    ucp_request_free(req);
}

/* false: a deadline passed, or the send failed. */
static bool started(struct raw_ucx *r, ucs_status_ptr_t req, unsigned window)
{
    const uint64_t deadline_ns = vb_now_ns() + WAIT_S * VB_SEC;

    if (UCS_PTR_IS_ERR(req))
        return false;
    r->under_way += UCS_PTR_IS_PTR(req);
    while (r->under_way >= window) {
        for (unsigned i = 0; i < 256 && r->under_way >= window; i++)
            ucp_worker_progress(r->worker);
        if (r->under_way >= window && vb_now_ns() >= deadline_ns)
            return false;
    }
    return true;
}

static ucp_request_param_t send_param(struct raw_ucx *r)
{
    return (ucp_request_param_t){ .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_MEMH,
                                  .cb.send = on_sent,
                                  .user_data = r,
                                  .memh = r->mem_src };
}

bool raw_ucx_send(struct raw_ucx *r, uint64_t bytes, uint64_t n, unsigned window)
{
    static const uint64_t hdr;
    ucp_request_param_t p = send_param(r);
    bool ok = true;

    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS; /* as our own links ask for it */
    p.flags = bytes >= RNDV_BYTES ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    for (uint64_t i = 0; ok && i < n; i++)
        ok = started(r, ucp_am_send_nbx(r->ep, AM, &hdr, sizeof(hdr), r->src, bytes, &p), window);
    return ok && started(r, NULL, 1);
}

bool raw_ucx_put(struct raw_ucx *r, uint64_t bytes, uint64_t n, unsigned window)
{
    ucp_request_param_t p = send_param(r);
    bool ok = true;

    for (uint64_t i = 0; ok && i < n; i++)
        ok = started(r, ucp_put_nbx(r->ep, r->src, bytes, r->peer_dst, r->key, &p), window);
    p.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMH;
    return ok && started(r, NULL, 1) && started(r, ucp_ep_flush_nbx(r->ep, &p), 1);
}

bool raw_ucx_await(struct raw_ucx *r, uint64_t received)
{
    const uint64_t deadline_ns = vb_now_ns() + WAIT_S * VB_SEC;

    while (r->received < received) {
        for (unsigned i = 0; i < 256 && r->received < received; i++)
            ucp_worker_progress(r->worker);
        if (r->received < received && vb_now_ns() >= deadline_ns)
            return false;
    }
    return true;
}

uint64_t raw_ucx_received(const struct raw_ucx *r)
{
    return r->received;
}
