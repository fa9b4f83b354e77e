#include "harness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/util.h"
#include "transport/tp_loop.h"

static const struct conf_way here[] = {
    { "map", TP_MAP, false },
    { "tcp", TP_TCP, true },
    { "loop, viewed", TP_LOOP, false },
    { "loop, placed", TP_LOOP, true },
};
static const struct conf_way rdma[] = { { "rdma", TP_RDMA, true } };
const struct conf_way *conf_ways = here;
unsigned conf_nways = VB_ARRAY_LEN(here);
static const char *host = "127.0.0.1";

/* VB_TEST_RDMA: the address of an RDMA device; only rdma is tested then, over it. */
__attribute__((constructor)) static void choose_ways(void)
{
    if (getenv("VB_TEST_RDMA") == NULL)
        return;
    host = getenv("VB_TEST_RDMA");
    conf_ways = rdma;
    conf_nways = VB_ARRAY_LEN(rdma);
}

static void on_msg(void *arg, const struct tp_rx *rx)
{
    const struct port_arg *a = arg;
    struct end *e = a->end;
    const struct end *from = &e->pair->e[e == &e->pair->e[0]];
    struct msg_hdr h = { 0 };

    memcpy(&h, rx->hdr, rx->hdr_bytes);
    if (rx->payload_bytes > 0 && memcmp(rx->payload, from->src + h.offset, rx->payload_bytes) != 0)
        e->damaged++;
    if (rx->link != e->link || (rx->payload == NULL) != (rx->payload_bytes == 0))
        e->damaged++;
    if (rx->payload_bytes > 0 && rx->view != !e->pair->way->place)
        e->damaged++;
    if (rx->channel % e->pair->nports != a->port)
        e->wrong_port++;
    if (h.number != e->next[rx->channel]++)
        e->disorder++;
    e->last = *rx;
    memcpy(e->last_hdr, rx->hdr, rx->hdr_bytes);
    e->last.hdr = e->last_hdr;
    e->received++;
    if (e->hook != NULL)
        e->hook(e, rx);
}

static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    struct end *e = ((const struct port_arg *)arg)->end;
    struct msg_hdr h = { 0 };

    memcpy(&h, hdr, hdr_bytes);
    e->placed++;
    if (e->answer == PLACE_NULL ||
        !vb_inside(h.offset, payload_bytes, tp_region_bytes(e->node, REGION_DST)))
        return NULL;
    return e->answer == PLACE_LATER ? TP_PLACE_LATER : e->dst + h.offset;
}

static void end_make(struct end *e, const struct conf_way *w, const struct pair_params *params,
                     unsigned i)
{
    const uint64_t bytes = params->region_bytes != 0 ? params->region_bytes : 256 << 10;
    const unsigned nports = VB_MAX(params->nports[i], 1);
    uint32_t id;

    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = i == 0 ? "a" : "b",
                                                        .nports = nports,
                                                        .loop_seed = params->seed },
                              &e->node),
                 VB_OK);
    for (uint32_t r = 0; r < 2; r++)
        cr_assert(tp_region_new(e->node, bytes, params->huge, &id) == VB_OK && id == r);
    e->src = tp_region_base(e->node, REGION_SRC);
    e->dst = tp_region_base(e->node, REGION_DST);
    for (uint64_t b = 0; b < bytes; b++)
        e->src[b] = (unsigned char)(b * 31 + (b >> 8) + i);
    for (unsigned k = 0; k < nports; k++) {
        e->port_arg[k] = (struct port_arg){ e, k };
        tp_port_set(
            tp_port(e->node, k),
            &(struct tp_port_params){ .arg = &e->port_arg[k], .on_msg = on_msg, .place = place });
    }
    cr_assert_eq(tp_link_new(e->node,
                             &(struct tp_link_params){ .way = w->way,
                                                       .peer = i == 0 ? "b" : "a",
                                                       .user = e,
                                                       .channels = VB_MAX(params->channels, 1),
                                                       .initiator = i == 0,
                                                       .rail = { { .host = host } },
                                                       .key = { 1, 2, 3 } },
                             &e->link),
                 VB_OK, "%s: no link", w->name);
    if (w->way == TP_LOOP)
        tp_loop_set(e->link, &(struct tp_loop_knobs){ .place = w->place });
}

void pair_make(struct pair *p, const struct conf_way *w, const struct pair_params *params)
{
    *p = (struct pair){ .way = w,
                        .nports = VB_MAX(params->nports[0], 1),
                        .channels = VB_MAX(params->channels, 1) };
    for (unsigned i = 0; i < 2; i++) {
        p->e[i].pair = p;
        end_make(&p->e[i], w, params, i);
    }
}

void pair_open(struct pair *p, const struct conf_way *w, const struct pair_params *params)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
    struct tp_offer offer[2];

    pair_make(p, w, params);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(tp_link_offer(p->e[i].link, &offer[i]), VB_OK, "%s: no offer", w->name);
    for (unsigned i = 2; i-- > 0;)
        cr_assert_eq(tp_link_connect(p->e[i].link, &offer[1 - i]), VB_OK, "%s: no connection",
                     w->name);
    tp_offer_close(&offer[0]);
    tp_offer_close(&offer[1]);
    for (unsigned i = 0; i < 2; i++)
        while (tp_link_ready(p->e[i].link) == VB_AGAIN && vb_now_ns() < deadline)
            pair_progress(p);
    cr_assert(tp_link_ready(p->e[0].link) == VB_OK && tp_link_ready(p->e[1].link) == VB_OK,
              "%s: not ready", w->name);
}

void pair_close(struct pair *p)
{
    tp_node_close(p->e[0].node);
    tp_node_close(p->e[1].node);
}

void pair_progress(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; tp_port(p->e[i].node, k) != NULL; k++)
            tp_progress(tp_port(p->e[i].node, k));
}

bool pair_until(struct pair *p, const unsigned *counter, unsigned want)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;

    while (*counter < want && vb_now_ns() < deadline)
        pair_progress(p);
    return *counter == want;
}

void pair_settle(struct pair *p)
{
    const uint64_t until = vb_now_ns() + 2 * VB_MS;

    do
        pair_progress(p);
    while (vb_now_ns() < until);
}

static void count_done(struct tp_op *op, enum vb_st st)
{
    struct send *s = container_of(op, struct send, op);

    s->done++;
    s->st = st;
    if (s->total != NULL)
        ++*s->total;
}

void send_fill(struct send *s, uint64_t number, uint64_t offset, uint64_t bytes)
{
    struct msg_hdr h = { .number = number, .offset = offset };

    for (unsigned i = 0; i < sizeof(h.fill); i++)
        h.fill[i] = (unsigned char)(number + i);
    s->op.done = count_done;
    s->op.region = REGION_SRC;
    s->op.offset = offset;
    s->op.bytes = bytes;
    s->op.hdr_bytes = sizeof(h);
    memcpy(s->op.hdr, &h, sizeof(h));
}

struct tp_port *port_of(struct end *e, unsigned channel)
{
    unsigned nports = 0;

    while (tp_port(e->node, nports) != NULL)
        nports++;
    return tp_port(e->node, channel % nports);
}

bool offer_to_socket(int fd, const struct tp_offer *o)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(o->fds))] = { 0 };
    struct tp_offer copy = *o;
    struct iovec iov = { copy.blob, copy.bytes };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control,
                        .msg_controllen = CMSG_SPACE(sizeof(int) * o->nfds) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * o->nfds);
    memcpy(CMSG_DATA(c), o->fds, sizeof(int) * o->nfds);
    return sendmsg(fd, &m, 0) == (ssize_t)o->bytes;
}

bool offer_from_socket(int fd, struct tp_offer *o)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(o->fds))];
    struct iovec iov = { o->blob, sizeof(o->blob) };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    const ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    if (c == NULL)
        return false;
    o->bytes = (uint32_t)n;
    o->nfds = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(o->fds, CMSG_DATA(c), sizeof(int) * o->nfds);
    return true;
}
