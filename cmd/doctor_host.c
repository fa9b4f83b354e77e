#include "cmd/doctor.h"

#include "base/clock.h"
#include "cluster/net.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

static void look_sys(struct doctor *d)
{
    if (d->devs.foreign)
        doc_say(d, DOC_WARN, "sys", "mount -t sysfs sysfs /sys inside it",
                "/sys shows the devices of another network namespace, UCX may not find those here");
    else if (access("/sys/class/net", F_OK) == 0)
        doc_say(d, DOC_OK, "sys", "", "/sys is mounted");
    else
        doc_say(d, DOC_FAIL, "sys", "mount -t sysfs sysfs /sys, or give it to the container",
                "/sys is not mounted, so no device is found");
}

static void look_memlock(struct doctor *d)
{
    const struct net_memlock m = net_memlock_read();
    const unsigned long long kib = m.limit_bytes >> 10;

    if (m.limit_bytes == UINT64_MAX)
        doc_say(d, DOC_OK, "memlock", "", "locked memory has no limit");
    else if (m.ipc_lock)
        doc_say(d, DOC_OK, "memlock", "",
                "locked memory: limit %llu KiB does not count (CAP_IPC_LOCK)", kib);
    else if (d->ports.n == 0)
        doc_say(d, DOC_OK, "memlock", "", "locked memory: limit %llu KiB; only RDMA needs more",
                kib);
    else
        doc_say(d, DOC_WARN, "memlock",
                "ulimit -l unlimited (systemd, slurmd: LimitMEMLOCK=infinity; docker: --ulimit "
                "memlock=-1)",
                "locked memory: limit %llu KiB, what is sent by RDMA must fit in", kib);
}

/* The number after a name of /proc/meminfo, in bytes; 0: none. */
static uint64_t meminfo(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    unsigned long long kib = 0;

    if (at == NULL || sscanf(at + strlen(name), ": %llu", &kib) != 1)
        return 0;
    return kib << 10;
}

static void read_file(const char *path, char *buf, size_t bytes)
{
    FILE *f = fopen(path, "re");
    const size_t n = f != NULL ? fread(buf, 1, bytes - 1, f) : 0;

    buf[n] = '\0';
    if (f != NULL)
        fclose(f);
}

/* Of the control group, where it says so; 0: none. */
static uint64_t group_limit(void)
{
    static const char *const path[] = { "/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    char text[64];

    for (size_t i = 0; i < VB_ARRAY_LEN(path); i++) {
        read_file(path[i], text, sizeof(text));
        if (text[0] >= '0' && text[0] <= '9')
            return strtoull(text, NULL, 10);
    }
    return 0;
}

static void look_memory(struct doctor *d)
{
    char text[4096], thp[64];

    read_file("/proc/meminfo", text, sizeof(text));
    const uint64_t all = meminfo(text, "MemTotal"), limit = group_limit();
    const uint64_t pages = strstr(text, "HugePages_Free") != NULL
                               ? meminfo(text, "HugePages_Free") >> 10 /* no KiB, a count */
                               : 0;
    uint64_t left = meminfo(text, "MemAvailable");

    if (all == 0) {
        doc_say(d, DOC_WARN, "memory", "mount -t proc proc /proc", "/proc/meminfo cannot be read");
        return;
    }
    if (limit != 0 && limit < left)
        left = limit;
    doc_say(d, left < UINT64_C(512) << 20 ? DOC_WARN : DOC_OK, "memory",
            left < UINT64_C(512) << 20 ? "end what else runs here, or raise the limit" : "",
            "%llu MiB of %llu MiB can be used%s", (unsigned long long)(left >> 20),
            (unsigned long long)(all >> 20), limit != 0 && limit < all ? " (control group)" : "");
    read_file("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp));
    const bool always = strstr(thp, "[always]") != NULL, advised = strstr(thp, "[madvise]") != NULL;
    if (pages > 0)
        doc_say(d, DOC_OK, "pages", "", "%llu large pages of %llu KiB are free",
                (unsigned long long)pages,
                (unsigned long long)(meminfo(text, "Hugepagesize") >> 10));
    else
        doc_say(d, DOC_OK, "pages", "", "no large pages are reserved (vm.nr_hugepages)%s",
                always || advised ? ", the kernel makes some itself" : "");
}

/* "0-2,5" */
static void cpus_text(const cpu_set_t *set, char *buf, size_t bytes)
{
    size_t used = 0;

    buf[0] = '\0';
    for (int i = 0; i < CPU_SETSIZE && used < bytes; i++) {
        int last = i;

        if (!CPU_ISSET(i, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        used += (size_t)snprintf(buf + used, bytes - used, last > i ? "%s%d-%d" : "%s%d",
                                 used > 0 ? "," : "", i, last);
        i = last;
    }
}

static void look_cpus(struct doctor *d)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned long long quota, period;
    char text[128];
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        doc_say(d, DOC_WARN, "cpus", "", "the allowed CPUs are not known: %s", strerror(errno));
        return;
    }
    cpus_text(&set, text, sizeof(text));
    const int n = CPU_COUNT(&set);
    if (n < online)
        doc_say(d, DOC_WARN, "cpus",
                "when more is meant: srun --cpus-per-task, docker --cpuset-cpus, taskset",
                "%d of %ld CPUs may be used here: %s", n, online, text);
    else
        doc_say(d, DOC_OK, "cpus", "", "all %d CPUs may be used: %s", n, text);
    read_file("/sys/fs/cgroup/cpu.max", text, sizeof(text));
    if (sscanf(text, "%llu %llu", &quota, &period) == 2 && period > 0 &&
        quota < (unsigned long long)n * period)
        doc_say(d, DOC_WARN, "cpus", "raise cpu.max (docker --cpus), or run fewer tasks here",
                "the control group allows %llu %% of a CPU", 100 * quota / period);
}

static void look_clock(struct doctor *d)
{
    static const time_t sane = 1577836800; /* 2020-01-01: before that nobody has set it */
    const uint64_t before = vb_now_ns();
    struct timex t = { .modes = 0 };
    uint64_t after = before;

    for (unsigned i = 0; i < 10000000 && after == before; i++)
        after = vb_now_ns();
    if (after <= before)
        doc_say(d, DOC_FAIL, "clock", "look at the kernel's clocksource", "the clock does not run");
    else if (time(NULL) < sane)
        doc_say(d, DOC_WARN, "clock", "set it: chronyd or systemd-timesyncd",
                "the time of day is wrong: before 2020");
    else if (adjtimex(&t) < 0)
        doc_say(d, DOC_OK, "clock", "", "runs; whether it is synchronised is not known: %s",
                strerror(errno));
    else if ((t.status & STA_UNSYNC) != 0)
        doc_say(d, DOC_WARN, "clock", "run chronyd or systemd-timesyncd",
                "runs, not synchronised: times of several hosts do not compare");
    else
        doc_say(d, DOC_OK, "clock", "", "runs and is synchronised");
}

void doc_host(struct doctor *d)
{
    look_sys(d);
    look_memlock(d);
    look_memory(d);
    look_cpus(d);
    look_clock(d);
}

/* NULL, or what did not work. */
static const char *unix_try(void)
{
    char name[NET_UNIX_NAME];

    snprintf(name, sizeof(name), "verbena-doctor-%d-%llx", (int)getpid(),
             (unsigned long long)vb_now_ns());
    AUTO_CLOSE const int server = net_listen_unix(name, "verbena doctor");
    if (server < 0)
        return "cannot be made";
    AUTO_CLOSE const int client = net_connect_unix(name);
    if (client < 0)
        return "cannot be reached";
    struct pollfd p = { .fd = server, .events = POLLIN };
    AUTO_CLOSE const int got = poll(&p, 1, 1000) == 1 ? accept(server, NULL, NULL) : -1;
    if (got < 0)
        return "is not answered";
    return net_same_user(got) ? NULL : "does not say who is at its other end";
}

void doc_sockets(struct doctor *d)
{
    const char *why = unix_try();

    if (why == NULL)
        doc_say(d, DOC_OK, "unix", "", "tasks of this host can reach each other by unix sockets");
    else
        doc_say(d, DOC_FAIL, "unix", "look at seccomp and AppArmor rules of the container",
                "a unix socket %s: %s", why, strerror(errno));
}
