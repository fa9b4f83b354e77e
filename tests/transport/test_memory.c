/*
 * What memory can do to a task: limits that are too small are a message and a status, registration is
 * done once, what was mapped again at the same place is sent as it is now. Each test in a process of its
 * own.
 */
#include "ucx_pair.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucp/api/ucp.h>

enum { ROUNDS = 40 };

static unsigned registered;

/* In the place of UCX's own. */
__attribute__((visibility("default"))) ucs_status_t
ucp_mem_map(ucp_context_h ctx, const ucp_mem_map_params_t *params, ucp_mem_h *out)
{
    ucs_status_t (*real)(ucp_context_h ctx, const ucp_mem_map_params_t *params, ucp_mem_h *out);

    *(void **)&real = dlsym(RTLD_NEXT, "ucp_mem_map");
    __atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED);
    return real(ctx, params, out);
}

static int regions_are_registered_once(void)
{
    static struct end e[2];

    pair_open(e, "127.0.0.1");
    CHECK(registered == 4);
    exchange(e);
    for (unsigned k = 0; k < 2; k++)
        e[k].received = 0;
    exchange(e);
    CHECK(registered == 4);
    pair_close(e);
    return 0;
}

/* ---- too little ---- */

static enum vb_st region_of(uint64_t bytes)
{
    struct tp_node *n;
    uint32_t id;

    CHECK(tp_node_open(&(struct tp_node_params){ .name = "a", .nports = 1 }, &n) == VB_OK);

    const enum vb_st st = tp_region_new(n, bytes, false, &id);

    CHECK(st != VB_OK || memset(tp_region_base(n, id), 1, bytes) != NULL);
    tp_node_close(n);
    return st;
}

static int too_little_address_space_is_a_status(void)
{
    if (getenv("VB_SANITIZED") != NULL) {
        fprintf(stderr, "a sanitizer needs its address space\n");
        return SKIP;
    }
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){ 400 * MIB, 400 * MIB }) == 0);
    CHECK(region_of((uint64_t)2048 * MIB) == VB_NOMEM);
    CHECK(region_of(MIB) == VB_OK);
    return 0;
}

/* This control group's folder in the tree of one version, "" if there is none. */
static void group_dir(char *out, size_t bytes, const char **limit)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[400], own[300] = "";

    *out = '\0';
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "%*d:memory:%299[^\n]", own) == 1)
            break;
    if (f != NULL)
        fclose(f);
    *limit = "memory.limit_in_bytes";
    if (own[0] != '\0')
        snprintf(out, bytes, "/sys/fs/cgroup/memory%s/verbena-test-%d", own, (int)getpid());
}

static bool put_text(const char *dir, const char *file, const char *text)
{
    char path[700];

    snprintf(path, sizeof(path), "%s/%s", dir, file);

    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Beyond such a limit the kernel kills. */
static int too_little_in_the_control_group_is_a_status(void)
{
    char dir[400], parent[400], pid[16];
    const char *limit;

    group_dir(dir, sizeof(dir), &limit);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    if (dir[0] == '\0' || mkdir(dir, 0755) != 0) {
        fprintf(stderr, "no control group for memory can be made here\n");
        return SKIP;
    }
    const bool in = put_text(dir, limit, "100663296") && put_text(dir, "cgroup.procs", pid);
    const enum vb_st much = in ? region_of(256 * MIB) : VB_NOMEM;
    const enum vb_st little = in ? region_of(16 * MIB) : VB_OK;

    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    (void)put_text(parent, "cgroup.procs", pid);
    rmdir(dir);
    CHECK(much == VB_NOMEM && little == VB_OK);
    return in ? 0 : SKIP;
}

/* Nobody asked for RDMA: a limit that only it would miss is no error. */
static int little_lockable_memory_is_no_error_over_tcp(void)
{
    static struct end e[2];
    const int log = memfd_create("log", MFD_CLOEXEC), console = dup(2);
    char said[4096] = "";

    CHECK(log >= 0 && console >= 0 && dup2(log, 2) == 2);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ 64 << 10, 64 << 10 }) == 0);
    if (getuid() == 0)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    pair_open(e, "127.0.0.1");
    exchange(e);
    pair_close(e);
    CHECK(dup2(console, 2) == 2 && pread(log, said, sizeof(said) - 1, 0) >= 0);
    CHECK(strstr(said, "lock") == NULL);
    return 0;
}

/* ---- memory that changes its pages ---- */

/* The receiver's place is memory outside its regions that is mapped anew, at the same address, for each
 * message; UCX may remember what it was. */
static void *place_anew(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                        uint64_t payload_bytes)
{
    static void *at;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0);

    if (at != NULL)
        munmap(at, MIB);
    at = mmap(at, MIB, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(at != MAP_FAILED);
    memset(at, 0xff, MIB);
    return at;
}

static int memory_mapped_anew_at_one_place_carries_what_was_sent(void)
{
    static struct end e[2];
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;

    pair_open(e, "127.0.0.1");
    tp_port_set(tp_port(e[1].node, 0),
                &(struct tp_port_params){ .arg = &e[1], .on_msg = on_msg, .place = place_anew });
    for (unsigned i = 0; i < ROUNDS; i++) {
        send_start(&e[0], i, i % 2 == 0 ? MIB : 10000);
        while ((e[1].received <= i || e[0].send[i].done == 0) && vb_now_ns() < deadline)
            progress(e, 2);
        CHECK(e[1].received == i + 1 && e[1].damaged == 0);
    }
    pair_close(e);
    return 0;
}

static int the_same_without_memory_events(void)
{
    setenv("UCX_MEM_EVENTS", "n", 1);
    return memory_mapped_anew_at_one_place_carries_what_was_sent();
}

int main(void)
{
    int failed = 0;

    vb_log_init();
    failed += test_run("regions_are_registered_once", regions_are_registered_once);
    failed +=
        test_run("too_little_address_space_is_a_status", too_little_address_space_is_a_status);
    failed += test_run("too_little_in_the_control_group_is_a_status",
                       too_little_in_the_control_group_is_a_status);
    failed += test_run("little_lockable_memory_is_no_error_over_tcp",
                       little_lockable_memory_is_no_error_over_tcp);
    failed += test_run("memory_mapped_anew_at_one_place_carries_what_was_sent",
                       memory_mapped_anew_at_one_place_carries_what_was_sent);
    failed += test_run("the_same_without_memory_events", the_same_without_memory_events);
    return failed == 0 ? 0 : 1;
}
