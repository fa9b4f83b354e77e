/*
 * One poll loop over a signalfd (SIGCHLD, SIGINT, SIGTERM) and two pipes per child. The run is over
 * when every child has been reaped; what it had written is read before that counts. After a failure,
 * or once SIGTERM was handed on, the children have until `kill_at`; then comes SIGKILL.
 */
#include "cluster/spawn.h"

#include "base/clock.h"
#include "cluster/spawn_line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct child {
    pid_t pid;  /* 0: not started or reaped */
    int status; /* waitpid's */
    struct spawn_line out, err;
};

struct run {
    const struct spawn_params *p;
    struct child *child;
    struct pollfd *poll; /* 1 + 2 * ntasks */
    sigset_t old_mask;
    bool masked;
    int signal_fd;
    enum vb_exit code;
    int cause; /* how telling the cause of `code` is; see telling() */
    uint64_t kill_at;
    struct vb_err *why;
};

int spawn_listen(uint16_t *port_out)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &len) == 0) {
        *port_out = ntohs(a.sin_port);
        return fd;
    }
    if (fd >= 0) {
        const int saved = errno;

        close(fd);
        errno = saved;
    }
    return -1;
}

/* Two pipes per child easily pass the soft limit of 1024 files. */
static void raise_file_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* else starting says what is missing */
    }
}

/* In the child, between fork and exec. */
static _Noreturn void become(const struct run *r, const struct spawn_task *t, pid_t parent, int out,
                             int err)
{
    const int null = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(VB_EXIT_LOST); /* the parent died before it could be noticed */
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        _exit(VB_EXIT_FAILED);
    close(null);
    if (t->keep_fd >= 0 && fcntl(t->keep_fd, F_SETFD, 0) != 0)
        _exit(VB_EXIT_FAILED);
    sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
    execve(t->path, t->argv, t->envp);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", t->path, strerror(errno));
    _exit(VB_EXIT_FAILED);
}

static bool start(struct run *r, unsigned i)
{
    const struct spawn_task *t = &r->p->task[i];
    struct child *c = &r->child[i];
    const pid_t parent = getpid();
    int out[2] = { -1, -1 }, err[2] = { -1, -1 };

    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        goto fail;
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    if (!spawn_line_init(&c->out) || !spawn_line_init(&c->err))
        goto fail;
    const pid_t pid = fork();
    if (pid == 0)
        become(r, t, parent, out[1], err[1]);
    if (pid < 0)
        goto fail;
    c->pid = pid;
    c->out.fd = out[0];
    c->err.fd = err[0];
    close(out[1]);
    close(err[1]);
    return true;

fail:
    vb_err_set(r->why, "cannot start %s: %s", t->name, strerror(errno));
    for (int k = 0; k < 2; k++) {
        if (out[k] >= 0)
            close(out[k]);
        if (err[k] >= 0)
            close(err[k]);
    }
    return false;
}

static void signal_all(const struct run *r, int sig)
{
    for (unsigned i = 0; i < r->p->ntasks; i++)
        if (r->child[i].pid > 0)
            kill(r->child[i].pid, sig);
}

/* How telling a cause is: a task that lost another before one with a failure of its own before one that
 * was killed before this process being told to end. */
enum { NONE, LOST, FAILED, KILLED, FINAL };

static int telling(int status)
{
    if (!WIFEXITED(status))
        return KILLED;
    return WEXITSTATUS(status) == 0 ? NONE : WEXITSTATUS(status) == VB_EXIT_LOST ? LOST : FAILED;
}

static void end_run(struct run *r, enum vb_exit code, int cause, uint64_t grace_ns)
{
    const uint64_t at = vb_now_ns() + grace_ns;

    r->code = code;
    r->cause = cause;
    if (at < r->kill_at)
        r->kill_at = at;
}

static void on_signal(struct run *r, int sig)
{
    const enum vb_exit code = sig == SIGINT ? VB_EXIT_SIGINT : VB_EXIT_SIGTERM;
    const uint64_t grace_ns = r->p->stop_ns != 0 ? r->p->stop_ns : 3 * VB_SEC;

    if (r->cause == NONE) {
        vb_err_set(r->why, "ended by %s", sig == SIGINT ? "SIGINT" : "SIGTERM");
        end_run(r, code, FINAL, grace_ns);
    } else {
        r->kill_at = 0; /* it is ending already and somebody has no patience left */
    }
    signal_all(r, SIGTERM);
}

/* What a child writes before it dies is in the pipe; what is left open behind it is not waited for. */
static void drain(struct run *r, unsigned i)
{
    struct child *c = &r->child[i];

    spawn_line_read(&c->out, r->p->on_line, r->p->arg, i, false);
    spawn_line_read(&c->err, r->p->on_line, r->p->arg, i, true);
    spawn_line_end(&c->out, r->p->on_line, r->p->arg, i, false);
    spawn_line_end(&c->err, r->p->on_line, r->p->arg, i, true);
}

static void blame(struct run *r, unsigned i)
{
    const char *name = r->p->task[i].name;
    const int status = r->child[i].status;

    if (WIFSIGNALED(status)) {
        const char *sig = sigabbrev_np(WTERMSIG(status));

        vb_err_set(r->why, "%s was killed by SIG%s", name, sig != NULL ? sig : "?");
    } else {
        vb_err_set(r->why, "%s failed with exit code %d", name, WEXITSTATUS(status));
    }
    end_run(r, WIFSIGNALED(status) ? VB_EXIT_LOST : (enum vb_exit)WEXITSTATUS(status),
            telling(status), r->p->fail_ns != 0 ? r->p->fail_ns : 5 * VB_SEC);
}

/* The first failure is the cause, but who lost a peer may well end before that peer is quite dead, and
 * several come in one batch: then the most telling is. */
static void reap(struct run *r)
{
    unsigned worst = 0;
    int most = NONE;

    for (unsigned i = 0; i < r->p->ntasks; i++) {
        struct child *c = &r->child[i];

        if (c->pid <= 0 || waitpid(c->pid, &c->status, WNOHANG) != c->pid)
            continue;
        c->pid = 0;
        drain(r, i);
        if (telling(c->status) > most) {
            worst = i;
            most = telling(c->status);
        }
    }
    if (most > NONE && (r->cause == NONE || (r->cause == LOST && most > LOST)))
        blame(r, worst);
}

static unsigned alive(const struct run *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->p->ntasks; i++)
        n += r->child[i].pid > 0;
    return n;
}

static void read_signals(struct run *r)
{
    struct signalfd_siginfo s[8];
    const ssize_t n = read(r->signal_fd, s, sizeof(s));

    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(s[0]); i++)
        if (s[i].ssi_signo != SIGCHLD)
            on_signal(r, (int)s[i].ssi_signo);
}

static void wait_once(struct run *r)
{
    const unsigned n = r->p->ntasks;

    r->poll[0] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
    for (unsigned i = 0; i < n; i++) {
        r->poll[1 + 2 * i] = (struct pollfd){ .fd = r->child[i].out.fd, .events = POLLIN };
        r->poll[2 + 2 * i] = (struct pollfd){ .fd = r->child[i].err.fd, .events = POLLIN };
    }
    if (poll(r->poll, 1 + 2 * (nfds_t)n, vb_poll_ms(r->kill_at)) < 0)
        return;
    for (unsigned i = 0; i < n; i++) {
        if (r->poll[1 + 2 * i].revents != 0)
            spawn_line_read(&r->child[i].out, r->p->on_line, r->p->arg, i, false);
        if (r->poll[2 + 2 * i].revents != 0)
            spawn_line_read(&r->child[i].err, r->p->on_line, r->p->arg, i, true);
    }
    if (r->poll[0].revents != 0) {
        read_signals(r);
        reap(r);
    }
    if (r->kill_at != VB_NEVER && vb_now_ns() >= r->kill_at) {
        signal_all(r, SIGKILL);
        r->cause = FINAL; /* what dies from now on is our doing */
        r->kill_at = VB_NEVER;
    }
}

static bool prepare(struct run *r)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGCHLD);
    signal(SIGINT, SIG_DFL); /* a shell ignores it for what it starts with &: it would never come */
    if (sigprocmask(SIG_BLOCK, &mask, &r->old_mask) != 0)
        return false;
    r->masked = true;
    r->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    r->child = calloc(r->p->ntasks, sizeof(*r->child));
    r->poll = calloc(1 + 2 * (size_t)r->p->ntasks, sizeof(*r->poll));
    if (r->signal_fd < 0 || r->child == NULL || r->poll == NULL)
        return false;
    for (unsigned i = 0; i < r->p->ntasks; i++)
        r->child[i].out.fd = r->child[i].err.fd = -1;
    return true;
}

static void cleanup(struct run *r)
{
    for (unsigned i = 0; r->child != NULL && i < r->p->ntasks; i++) {
        spawn_line_fini(&r->child[i].out);
        spawn_line_fini(&r->child[i].err);
    }
    free(r->child);
    free(r->poll);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    if (r->masked)
        sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}

enum vb_exit spawn_run(const struct spawn_params *p, struct vb_err *err)
{
    struct run r = { .p = p, .signal_fd = -1, .kill_at = VB_NEVER, .why = err };

    raise_file_limit();
    if (!prepare(&r)) {
        vb_err_set(err, "cannot start tasks: %s", strerror(errno));
        cleanup(&r);
        return VB_EXIT_FAILED;
    }
    for (unsigned i = 0; i < p->ntasks && r.code == VB_EXIT_OK; i++)
        if (!start(&r, i))
            end_run(&r, VB_EXIT_FAILED, FINAL, 0);
    while (alive(&r) > 0)
        wait_once(&r);
    cleanup(&r);
    return r.code;
}
