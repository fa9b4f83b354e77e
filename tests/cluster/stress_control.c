/*
 * Whole runs inside one process, every task with threads of its own that use its control thread at
 * once. A plain program, so that it runs under TSan and LSan.
 */
#include "cluster/control.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum { NPS = 2, NWORKERS = 2, NTASKS = NPS + NWORKERS, ROUNDS = 10, TAGS = 40 };

#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct task {
    const struct cl_spec *spec;
    uint32_t rank;
    int listen_fd;
    bool fails; /* all tasks fail at once, each for its own reason */
    sem_t room; /* sums that may be under way */
    atomic_bool leaves;
    struct ctl *c;
    struct ctl_end end;
};

static uint64_t soon(void)
{
    return vb_now_ns() + 30 * VB_SEC;
}

static void *watch(void *arg)
{
    struct task *t = arg;

    while (!atomic_load(&t->leaves) && !ctl_ended(t->c, &t->end))
        if (ctl_wait_finish(t->c, vb_now_ns() + VB_MS) == VB_STOPPED)
            MUST(t->fails);
    return NULL;
}

static void *give(void *arg)
{
    struct task *t = arg;

    for (uint32_t tag = 0; tag < TAGS; tag++) {
        const double v[1] = { tag };

        while (sem_wait(&t->room) != 0)
            MUST(errno == EINTR);
        const enum vb_st st = ctl_reduce(t->c, tag, v, 1);

        MUST(st == VB_OK || (t->fails && (st == VB_STOPPED || st == VB_AGAIN)));
        if (st != VB_OK)
            break;
    }
    return NULL;
}

static void work(struct task *t)
{
    pthread_t giver;
    double sum[1];

    sem_init(&t->room, 0, t->fails ? TAGS : 8);
    MUST(pthread_create(&giver, NULL, give, t) == 0);
    if (t->fails)
        ctl_fail(t->c, VB_EXIT_FAILED, "a worker fails");
    for (uint32_t tag = 0; tag < TAGS && !t->fails; tag++) {
        MUST(ctl_reduced(t->c, tag, sum, 1, soon()) == VB_OK);
        MUST(sum[0] == NWORKERS * (double)tag);
        sem_post(&t->room);
    }
    pthread_join(giver, NULL);
    sem_destroy(&t->room);
    ctl_finish(t->c);
}

static void *run_task(void *arg)
{
    struct task *t = arg;
    struct tp_node *node;
    uint32_t region;
    char name[CL_NAME_MAX];
    const struct tp_node_params np = { .name = cl_name(t->spec, t->rank, name), .nports = 2 };
    struct ctl_params p = { .spec = t->spec,
                            .rank = t->rank,
                            .listen_fd = t->listen_fd,
                            .secret = { 5 },
                            .transport = CL_MAP,
                            .channels = 2 };
    pthread_t watcher;

    MUST(tp_node_open(&np, &node) == VB_OK && tp_region_new(node, 65536, false, &region) == VB_OK);
    p.node = node;
    MUST(ctl_start(&p, &t->c) == VB_OK);
    const enum vb_st st = ctl_wait_start(t->c);

    MUST(st == VB_OK || (t->fails && st == VB_STOPPED));
    MUST(pthread_create(&watcher, NULL, watch, t) == 0);
    if (t->rank >= NPS)
        work(t);
    else if (t->fails)
        ctl_fail(t->c, VB_EXIT_FAILED, "a ps fails");
    else
        MUST(ctl_wait_finish(t->c, soon()) == VB_OK);
    atomic_store(&t->leaves, true);
    pthread_join(watcher, NULL);
    ctl_stop(t->c);
    tp_node_close(node);
    return NULL;
}

static int listen_anywhere(struct cl_addr *addr)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0 && listen(fd, 16) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&a, &bytes) == 0);
    snprintf(addr->host, sizeof(addr->host), "127.0.0.1");
    addr->port = ntohs(a.sin_port);
    return fd;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct cl_addr addr[NTASKS];
        const struct cl_spec spec = { .nps = NPS, .nworkers = NWORKERS, .addr = addr };
        struct task task[NTASKS];
        pthread_t thread[NTASKS];

        for (uint32_t i = 0; i < NTASKS; i++)
            task[i] = (struct task){ .spec = &spec,
                                     .rank = i,
                                     .fails = round % 2 == 1,
                                     .listen_fd = listen_anywhere(&addr[i]) };
        for (uint32_t i = 0; i < NTASKS; i++)
            MUST(pthread_create(&thread[i], NULL, run_task, &task[i]) == 0);
        for (uint32_t i = 0; i < NTASKS; i++)
            pthread_join(thread[i], NULL);
    }
    return 0;
}
