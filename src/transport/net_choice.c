#include "transport/net_dev.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct net_addr rdma_gid_addr(const struct rdma_gid *g)
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct net_addr a = { .family = AF_INET6 };

    if (memcmp(g->bytes, mapped, sizeof(mapped)) == 0) {
        a.family = AF_INET;
        memcpy(a.bytes, g->bytes + sizeof(mapped), 4);
    } else {
        memcpy(a.bytes, g->bytes, sizeof(a.bytes));
    }
    return a;
}

static bool gid_fits(const struct rdma_gid *g, const struct net_addr *want)
{
    const struct net_addr a = rdma_gid_addr(g);

    if (g->kind == RDMA_GID_IB)
        return true;
    if (g->kind != RDMA_GID_V2)
        return false;
    return want != NULL ? net_addr_same(&a, want) : !net_addr_link_local(&a);
}

int rdma_gid_choose(const struct rdma_gid *gid, size_t n, const struct net_addr *want,
                    struct vb_err *why)
{
    char text[NET_ADDR_TEXT_MAX];
    size_t nv2 = 0;

    for (size_t i = 0; i < n; i++) {
        if (gid_fits(&gid[i], want))
            return (int)i;
        nv2 += gid[i].kind == RDMA_GID_V2;
    }
    if (want != NULL)
        vb_err_set(why, "no RoCE v2 GID for %s (%zu of %zu GIDs are v2)", net_addr_text(want, text),
                   nv2, n);
    else if (nv2 > 0)
        vb_err_set(why, "no routable RoCE v2 GID: all %zu are link-local", nv2);
    else
        vb_err_set(why, "no RoCE v2 GID (%zu others)", n);
    return -1;
}

static const struct {
    uint32_t bytes;
    const char *name;
} mtus[] = { { 0, "unknown" },   { 256, "256 B" },   { 512, "512 B" },
             { 1024, "1024 B" }, { 2048, "2048 B" }, { 4096, "4096 B" } };

uint32_t rdma_mtu_bytes(unsigned mtu_enum)
{
    return mtu_enum < VB_ARRAY_LEN(mtus) ? mtus[mtu_enum].bytes : 0;
}

unsigned rdma_mtu_enum(uint32_t bytes)
{
    for (unsigned i = 1; i < VB_ARRAY_LEN(mtus); i++)
        if (mtus[i].bytes == bytes)
            return i;
    return 0;
}

const char *rdma_mtu_name(unsigned mtu_enum)
{
    return mtus[mtu_enum < VB_ARRAY_LEN(mtus) ? mtu_enum : 0].name;
}

uint32_t rdma_mtu_both(uint32_t ours, uint32_t theirs)
{
    if (rdma_mtu_enum(ours) == 0 || rdma_mtu_enum(theirs) == 0)
        return 0;
    return VB_MIN(ours, theirs);
}

static bool has_ipc_lock(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    return syscall(SYS_capget, &head, data) == 0 && (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

struct net_memlock net_memlock_read(void)
{
    struct net_memlock m = { .limit_bytes = UINT64_MAX, .ipc_lock = has_ipc_lock() };
    struct rlimit r;

    if (getrlimit(RLIMIT_MEMLOCK, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        m.limit_bytes = r.rlim_cur;
    return m;
}

bool net_memlock_fits(const struct net_memlock *m, uint64_t need_bytes, struct vb_err *why)
{
    const uint64_t mib = need_bytes >> 20;

    if (m->ipc_lock || need_bytes <= m->limit_bytes)
        return true;
    vb_err_set(why,
               "needs %llu MiB locked, limit %llu KiB, fix: ulimit -l unlimited (systemd, slurmd: "
               "LimitMEMLOCK=infinity; docker: --ulimit memlock=-1)",
               (unsigned long long)(mib + ((need_bytes & ((1 << 20) - 1)) != 0)),
               (unsigned long long)(m->limit_bytes >> 10));
    return false;
}

void rdma_ports_need(struct rdma_ports *p, const struct net_memlock *m, uint64_t bytes)
{
    struct vb_err why;

    if (net_memlock_fits(m, bytes, &why))
        return;
    for (size_t i = 0; i < p->n; i++)
        if (p->port[i].why_not[0] == '\0')
            snprintf(p->port[i].why_not, sizeof(p->port[i].why_not), "locked memory: %.230s",
                     why.text);
}
