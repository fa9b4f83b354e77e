#include "alloc.h"
#include "cluster/conn.h"
#include "cluster/way.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_text(const char *text, size_t room)
{
    const char *end = memchr(text, '\0', room);

    if (end == NULL)
        abort();
    for (; text < end; text++)
        if (*text < ' ' || *text > '~')
            abort();
}

static void check_can(const struct wire_can *can)
{
    check_text(can->device, sizeof(can->device));
    check_text(can->why, sizeof(can->why));
}

static void on_offer(struct conn *c)
{
    static const struct net_devs none = { 0 };
    struct wire_offer m, as_worker;
    struct tp_offer o;

    if (conn_get_offer(c, &m, &o) != VB_OK)
        return;
    if (o.bytes > TP_OFFER_BYTES || o.nfds != 0)
        abort();
    as_worker = m;
    if (way_offer_check(&as_worker, false) == VB_OK)
        check_can(&as_worker.can);
    if (way_offer_check(&m, true) != VB_OK)
        return;
    check_can(&m.can);
    for (uint32_t i = 0; i < m.nhosts; i++) {
        check_text(m.host[i], sizeof(m.host[i]));
        if (way_host_check(m.host[i], "10.0.0.1", &none) == NULL)
            (void)way_scoped(m.host[i], "10.0.0.1");
    }
}

/* What a proved peer says about the link comes out as text that ends, small numbers and addresses, or not at
 * all. The first byte: how many bytes come at once. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct conn c;
    struct wire_hdr h;
    int fd[2];

    if (bytes == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return 0;
    alloc_fails_by(data, bytes);
    if (conn_init(&c, fd[0], true) != VB_OK) {
        close(fd[0]);
    } else if (conn_open(&c) == VB_OK) {
        const size_t piece = 1 + 8 * (size_t)data[0];

        for (size_t at = 1, n = 0; at < bytes; at += n) {
            struct wire_ask ask;
            enum vb_st st;

            n = bytes - at < piece ? bytes - at : piece;
            if (send(fd[1], data + at, n, 0) != (ssize_t)n || conn_fill(&c) != VB_OK)
                break;
            while ((st = conn_frame(&c, &h)) == VB_OK) {
                memcpy(&ask, c.in + sizeof(h), sizeof(ask));
                if (h.kind == WIRE_OFFER)
                    on_offer(&c);
                else if (h.kind == WIRE_ASK && way_ask_check(&ask) == VB_OK) {
                    check_can(&ask.can);
                    check_text(ask.from, sizeof(ask.from));
                }
                conn_drop(&c, h.bytes);
            }
            if (st != VB_AGAIN)
                break;
        }
    }
    (void)alloc_has_failed();
    conn_close(&c);
    close(fd[1]);
    return 0;
}
