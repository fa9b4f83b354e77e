/*
 * Two processes over map answer each other and sleep before every answer: no wake-up may get lost
 * between them. Spinning is off, so that each wait is a sleep.
 */
#include "far.h"

#include "base/clock.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned received;
static unsigned total;

static void on_msg(void *arg, const struct tp_rx *rx)
{
    unsigned number;

    memcpy(&number, rx->hdr, sizeof(number));
    MUST(number == received++);
}

/* The initiator speaks first. */
static int end_main(int fd, void *arg)
{
    const bool first = *(const bool *)arg;
    const uint64_t deadline_ns = vb_now_ns() + far_rounds(100, 1500) * VB_SEC;
    struct tp_op op = { .hdr_bytes = sizeof(received) };
    struct far f;

    far_open(&f, first ? "a" : "b", 4096, &(struct tp_port_params){ .on_msg = on_msg });
    far_join(&f, fd, TP_MAP, first, NULL);
    for (unsigned sent = 0; sent < total; sent++) {
        while (received < sent + !first && vb_now_ns() < deadline_ns)
            tp_wait(f.port, deadline_ns);
        memcpy(op.hdr, &sent, sizeof(sent));
        MUST(received == sent + !first && tp_send(f.port, f.link, 0, &op) == VB_OK);
    }
    while (received < total && vb_now_ns() < deadline_ns)
        tp_wait(f.port, deadline_ns);
    MUST(received == total);
    tp_node_close(f.node);
    return 0;
}

int main(void)
{
    static bool first[2] = { true, false };
    pid_t pid[2];
    int fd[2], bad = 0;

    total = far_rounds(100000, 10000000) / 2;
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
    for (unsigned i = 0; i < 2; i++)
        pid[i] = far_start(fd[i], end_main, &first[i]);
    for (unsigned i = 0; i < 2; i++)
        bad |= far_wait(pid[i]);
    printf("%u messages each way\n", total);
    return bad != 0;
}
