#include "perf/netns.h"

#define LOG_MOD "perf"
#include "base/log.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* A namespace of its own, kept by the descriptor that is returned; -1: not allowed. */
static int make_one(void)
{
    int fd = -1;
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (home >= 0 && unshare(CLONE_NEWNET) == 0) {
        fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        if (setns(home, CLONE_NEWNET) != 0)
            log_error("cannot return from a network namespace: %m");
    }
    if (home >= 0)
        close(home);
    return fd;
}

/* Runs `ip` commands in a namespace; other: the second one, as the file that it is. */
static bool run_in(int ns, const char *commands, int other)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        char name[64];

        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getppid(), other);
        if (setns(ns, CLONE_NEWNET) == 0 && setenv("OTHER", name, 1) == 0)
            execl("/bin/sh", "sh", "-ec", commands, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool netns_run(int fd, const char *commands)
{
    return run_in(fd, commands, fd);
}

bool netns_make(struct netns *n)
{
    static const char *const here =
        "ip link set lo up; ip link add v0 type veth peer name v1 "
        "netns $OTHER; ip addr add " NETNS_ACTIVE "/24 dev v0; ip link set v0 up";
    static const char *const there =
        "ip link set lo up; ip addr add " NETNS_PASSIVE
        "/24 dev v1; ip link set v1 up; for i in 1 2 3 4 5 6 7 8 9; do "
        "ip -o link show v1 | grep -q LOWER_UP && exit 0; sleep 0.1; done";

    n->fd[0] = make_one();
    n->fd[1] = make_one();
    if (n->fd[0] >= 0 && n->fd[1] >= 0 && run_in(n->fd[0], here, n->fd[1]) &&
        run_in(n->fd[1], there, n->fd[0]))
        return true;
    log_error("two network namespaces cannot be made: root and the package iproute2 are needed");
    netns_drop(n);
    return false;
}

bool netns_enter(int fd)
{
    if (setns(fd, CLONE_NEWNET) == 0 && unshare(CLONE_NEWNS) == 0 &&
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("sysfs", "/sys", "sysfs", 0, NULL) == 0)
        return true;
    log_error("cannot enter a network namespace: %m");
    return false;
}

void netns_drop(struct netns *n)
{
    for (int i = 0; i < 2; i++)
        if (n->fd[i] > 0)
            close(n->fd[i]);
    *n = (struct netns){ 0 };
}
