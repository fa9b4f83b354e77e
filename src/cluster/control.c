#include "cluster/control_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>

#include "base/clock.h"

#define LOG_MOD "cluster"
#include "base/log.h"

void ctl_wake(struct ctl *c)
{
    const uint64_t one = 1;

    if (write(c->efd, &one, sizeof(one)) < 0) {
        /* the counter is full: the thread is awake already */
    }
}

void ctl_set_end(struct ctl *c, enum vb_exit code, const char *fmt, ...)
{
    va_list ap;

    pthread_mutex_lock(&c->mu);
    if (!atomic_load_explicit(&c->ended, memory_order_relaxed)) {
        c->end.code = code;
        va_start(ap, fmt);
        vsnprintf(c->end.text, sizeof(c->end.text), fmt, ap);
        va_end(ap);
        /* pairs with the acquire in ctl_ended: end is complete */
        atomic_store_explicit(&c->ended, true, memory_order_release);
        pthread_cond_broadcast(&c->cv);
    }
    pthread_mutex_unlock(&c->mu);
}

bool ctl_ended(struct ctl *c, struct ctl_end *out)
{
    /* pairs with the release in ctl_set_end */
    if (!atomic_load_explicit(&c->ended, memory_order_acquire))
        return false;
    if (out != NULL)
        *out = c->end;
    return true;
}

void ctl_fail(struct ctl *c, enum vb_exit code, const char *text)
{
    ctl_set_end(c, code, "%s", text);
    ctl_wake(c);
}

enum vb_exit ctl_exit_code(struct ctl *c, enum vb_st st)
{
    struct ctl_end end = { 0 };

    if (st == VB_OK)
        return VB_EXIT_OK;
    ctl_fail(c, vb_st_exit(st), vb_st_str(st)); /* only the first end counts */
    (void)ctl_ended(c, &end);
    if (end.code != VB_EXIT_SIGINT && end.code != VB_EXIT_SIGTERM)
        log_error("%s", end.text);
    return end.code;
}

static bool is_ended(struct ctl *c)
{
    return ctl_ended(c, NULL);
}

/* false: the deadline passed. The mutex is held. */
static bool wait_until(struct ctl *c, uint64_t deadline_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / VB_SEC),
                                 .tv_nsec = (long)(deadline_ns % VB_SEC) };

    if (deadline_ns == VB_NEVER)
        return pthread_cond_wait(&c->cv, &c->mu) == 0;
    return pthread_cond_timedwait(&c->cv, &c->mu, &at) != ETIMEDOUT;
}

enum vb_st ctl_wait_start(struct ctl *c)
{
    enum vb_st st;

    pthread_mutex_lock(&c->mu);
    while (!c->started && !is_ended(c))
        wait_until(c, VB_NEVER); /* the thread ends the run when start_ns has passed */
    /* a short run may have ended in order before this thread got to look */
    st = is_ended(c) && c->end.code != VB_EXIT_OK ? VB_STOPPED : VB_OK;
    pthread_mutex_unlock(&c->mu);
    return st;
}

struct tp_link *ctl_link(struct ctl *c, uint32_t rank)
{
    return rank < c->ntasks ? c->peer[rank].link : NULL;
}

enum vb_st ctl_reduce(struct ctl *c, uint32_t tag, const double *v, unsigned n)
{
    enum vb_st st = VB_OK;

    if (!c->is_worker || n == 0 || n > WIRE_REDUCE_MAX)
        return VB_INVAL;
    pthread_mutex_lock(&c->mu);
    if (is_ended(c) || c->finish_asked) {
        st = VB_STOPPED;
    } else if (tag != c->ngiven) {
        st = VB_INVAL;
    } else if (tag - c->nresults >= COORD_OPEN) {
        st = VB_AGAIN;
    } else {
        struct wire_reduce *r = &c->given[tag % COORD_OPEN];

        *r = (struct wire_reduce){ .tag = tag, .n = n };
        memcpy(r->v, v, n * sizeof(*v));
        c->ngiven++;
    }
    pthread_mutex_unlock(&c->mu);
    if (st == VB_OK)
        ctl_wake(c);
    return st;
}

enum vb_st ctl_reduced(struct ctl *c, uint32_t tag, double *v, unsigned n, uint64_t deadline_ns)
{
    enum vb_st st = VB_OK;

    pthread_mutex_lock(&c->mu);
    while (st == VB_OK && c->nresults <= tag)
        st = is_ended(c) ? VB_STOPPED : wait_until(c, deadline_ns) ? VB_OK : VB_TIMEOUT;
    const struct wire_reduce *r = &c->result[tag % CTL_RESULTS];

    if (c->nresults > tag) {
        st = r->tag == tag && r->n == n ? VB_OK : VB_INVAL;
        if (st == VB_OK)
            memcpy(v, r->v, n * sizeof(*v));
    }
    pthread_mutex_unlock(&c->mu);
    return st;
}

void ctl_finish(struct ctl *c)
{
    pthread_mutex_lock(&c->mu);
    c->finish_asked = true;
    pthread_mutex_unlock(&c->mu);
    ctl_wake(c);
}

enum vb_st ctl_wait_finish(struct ctl *c, uint64_t deadline_ns)
{
    enum vb_st st = VB_OK;

    pthread_mutex_lock(&c->mu);
    while (st == VB_OK && !is_ended(c))
        st = wait_until(c, deadline_ns) ? VB_OK : VB_TIMEOUT;
    if (is_ended(c))
        st = c->end.code == VB_EXIT_OK ? VB_OK : VB_STOPPED;
    pthread_mutex_unlock(&c->mu);
    return st;
}

static void plan_peers(struct ctl *c)
{
    for (uint32_t i = 0; i < c->ntasks; i++) {
        struct peer *p = &c->peer[i];
        const uint32_t high = VB_MAX(i, c->p.rank), low = VB_MIN(i, c->p.rank);

        p->conn.fd = p->talk.conn.fd = -1;
        p->planned = hello_planned(c->p.spec, high, low);
        p->linked = p->planned && cl_rank_job(c->p.spec, high) == CL_WORKER;
    }
}

/* The address of every peer goes into hello, so it must be known. */
static enum vb_st check_params(const struct ctl_params *p)
{
    char name[CL_NAME_MAX];

    if (p->rank >= cl_ntasks(p->spec) || p->channels == 0 || p->channels > TP_PORTS_MAX)
        return VB_INVAL;
    for (uint32_t i = 0; i < cl_ntasks(p->spec); i++) {
        const bool needed = i == p->rank || cl_rank_job(p->spec, p->rank) == CL_PS;

        if (needed && p->spec->addr[i].port == 0) {
            log_error("the ClusterSpec has no address for %s", cl_name(p->spec, i, name));
            return VB_INVAL;
        }
    }
    return VB_OK;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcasecmp(host, "localhost") == 0;
}

/* Debian's /etc/hosts gives a host's own name a loopback address: nobody else reaches that. */
static void check_loopback(const struct ctl *c, const char *who)
{
    const struct cl_addr *addr = c->p.spec->addr, *own = &addr[c->p.rank];
    char text[NET_TEXT];
    bool others = false;

    for (uint32_t i = 0; i < c->ntasks; i++)
        others = others || (addr[i].port != 0 && !is_loopback(addr[i].host) &&
                            strcasecmp(addr[i].host, own->host) != 0);
    net_own_text(c->listen_fd, text);
    if (others && is_loopback(text))
        log_warn("%s is %s here, where no other host reaches %s: check /etc/hosts or write the "
                 "address into the ClusterSpec",
                 own->host, text, who);
}

/* The unix socket first: who reaches this task by TCP may then rely on it being there. */
static enum vb_st open_listeners(struct ctl *c)
{
    char name[NET_UNIX_NAME], who[CL_NAME_MAX];

    cl_name(c->p.spec, c->p.rank, who);
    hello_unix_name(&c->self, c->p.rank, name);
    if (ctl_takes_unix(c)) {
        c->unix_fd = net_listen_unix(name, who);
        if (c->unix_fd < 0)
            return VB_IO;
    }
    if (c->p.listen_fd < 0) {
        c->listen_fd = net_listen(&c->p.spec->addr[c->p.rank], who);
        if (c->listen_fd >= 0)
            check_loopback(c, who);
    } else if (fcntl(c->p.listen_fd, F_SETFL, O_NONBLOCK) == 0 &&
               fcntl(c->p.listen_fd, F_SETFD, FD_CLOEXEC) == 0) {
        c->listen_fd = c->p.listen_fd;
    }
    return c->listen_fd >= 0 ? VB_OK : VB_IO;
}

/* Signals are the main thread's. */
static enum vb_st start_thread(struct ctl *c)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int rc = pthread_create(&c->thread, NULL, ctl_main, c);

    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        log_error("cannot start the control thread: %s", strerror(rc));
    return rc == 0 ? VB_OK : VB_NOMEM;
}

static struct ctl *new_ctl(const struct ctl_params *p)
{
    struct ctl *c = calloc(1, sizeof(*c));
    pthread_condattr_t attr;

    if (c == NULL)
        return NULL;
    c->p = *p;
    c->p.start_ns = VB_MIN(p->start_ns != 0 ? p->start_ns : 60 * VB_SEC, UINT64_MAX / 4);
    c->p.silence_ns = VB_MIN(p->silence_ns != 0 ? p->silence_ns : 15 * VB_SEC, UINT64_MAX / 4);
    c->self = (struct hello_self){ .spec = p->spec, .rank = p->rank, .no_auth = p->no_auth };
    if (!p->no_auth)
        memcpy(c->self.secret, p->secret, sizeof(c->self.secret));
    hello_set_config(&c->self, p->config);
    c->efd = c->listen_fd = c->unix_fd = -1;
    c->ntasks = cl_ntasks(p->spec);
    c->is_worker = cl_rank_job(p->spec, p->rank) == CL_WORKER;
    for (int i = 0; i < CTL_PENDING; i++)
        c->pending[i].conn.fd = -1;
    pthread_mutex_init(&c->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->cv, &attr);
    pthread_condattr_destroy(&attr);
    return c;
}

static void delete_ctl(struct ctl *c)
{
    for (uint32_t i = 0; c->peer != NULL && i < c->ntasks; i++) {
        talk_close(&c->peer[i].talk);
        conn_close(&c->peer[i].conn);
    }
    for (int i = 0; i < CTL_PENDING; i++)
        talk_close(&c->pending[i]);
    if (c->listen_fd >= 0)
        close(c->listen_fd);
    if (c->unix_fd >= 0)
        close(c->unix_fd);
    if (c->efd >= 0)
        close(c->efd);
    coord_fini(&c->coord);
    norm_fini(c);
    net_devs_free(&c->own_devs);
    rdma_ports_free(&c->own_ports);
    free(c->peer);
    free(c->counted);
    free(c->pfd);
    pthread_cond_destroy(&c->cv);
    pthread_mutex_destroy(&c->mu);
    sodium_memzero(c, sizeof(*c));
    free(c);
}

enum vb_st ctl_start(const struct ctl_params *p, struct ctl **ctl_out)
{
    enum vb_st st = check_params(p);

    if (st != VB_OK)
        return st;
    struct ctl *c = sodium_init() >= 0 ? new_ctl(p) : NULL;

    if (c == NULL)
        return VB_NOMEM;
    st = VB_NOMEM;
    c->peer = calloc(c->ntasks, sizeof(*c->peer));
    c->counted = calloc(2 * (size_t)p->spec->nworkers, sizeof(*c->counted));
    c->pfd = calloc(3 + CTL_PENDING + c->ntasks, sizeof(*c->pfd));
    c->efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->peer == NULL || c->counted == NULL || c->pfd == NULL || c->efd < 0 ||
        coord_init(&c->coord, p->spec, p->set_size) != VB_OK || norm_init(c) != VB_OK)
        goto fail;
    plan_peers(c);
    st = open_listeners(c);
    if (st != VB_OK)
        goto fail;
    st = start_thread(c);
    if (st != VB_OK)
        goto fail;
    *ctl_out = c;
    return VB_OK;

fail:
    if (c->listen_fd == p->listen_fd)
        c->listen_fd = -1; /* still the caller's */
    delete_ctl(c);
    return st;
}

void ctl_stop(struct ctl *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->mu);
    c->stop_asked = true;
    pthread_mutex_unlock(&c->mu);
    ctl_wake(c);
    pthread_join(c->thread, NULL);
    delete_ctl(c);
}
