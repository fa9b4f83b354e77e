/* What a sysfs says about devices, and what is decided on it. */
#include "transport/net_dev.h"
#include "tree.h"

#include <criterion/criterion.h>

#define IB "class/infiniband/"
#define ZERO "0000:0000:0000:0000:0000:0000:0000:0000\n"
#define MAPPED "0000:0000:0000:0000:0000:ffff:0a00:0001\n" /* 10.0.0.1 */
#define LOCAL "fe80:0000:0000:0000:0000:00ff:fe00:0001\n"
#define ROUTED "fd00:0000:0000:0000:0000:0000:0000:0001\n"

static struct net_addr addr(const char *text)
{
    struct net_addr a;

    cr_assert(net_addr_parse(text, &a), "%s", text);
    return a;
}

static void dev_put(const struct tree *t, const char *name, const char *flags, const char *state)
{
    const struct {
        const char *file, *text;
    } all[] = { { "flags", flags },
                { "operstate", state },
                { "mtu", "9000\n" },
                { "ifindex", "7\n" },
                { "speed", "25000\n" } };
    char path[128];

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        snprintf(path, sizeof(path), "class/net/%s/%s", name, all[i].file);
        tree_put(t, path, all[i].text);
    }
}

Test(net_dev, devices_of_a_tree_are_what_its_files_say)
{
    const struct net_if_addr own[] = { { "eth0", addr("10.0.0.1"), 24 },
                                       { "eth0", addr("fd00::1"), 64 },
                                       { "tun9", addr("10.9.0.1"), 32 } };
    struct net_devs d;
    struct tree t;

    tree_make(&t);
    dev_put(&t, "eth0", "0x1003\n", "up\n");
    tree_put(&t, "class/net/eth0/device/vendor", "0x1\n");
    dev_put(&t, "eth1", "0x1003\n", "down\n");
    dev_put(&t, "eth2", "0x1002\n", "up\n");
    dev_put(&t, "docker0", "0x1003\n", "up\n");
    tree_put(&t, "class/net/docker0/bridge/bridge_id", "x\n");
    dev_put(&t, "lo", "0x9\n", "unknown\n");
    tree_put(&t, "class/net/odd/flags", "what\nis this\n");
    tree_put(&t, "class/net/odd/mtu", "-1\n");
    tree_put(&t, "class/net/odd/speed", "99999999999999999999999\n");
    tree_put(&t, "class/net/bonding_masters", "bond0\n");
    cr_assert_eq(net_devs_read(t.root, own, VB_ARRAY_LEN(own), &d), VB_OK);
    cr_expect_eq(d.n, 7);
    const struct net_dev *eth0 = net_dev_find(&d, "eth0"), *lo = net_dev_find(&d, "lo");
    const struct net_dev *docker = net_dev_find(&d, "docker0"), *odd = net_dev_find(&d, "odd");
    cr_assert(eth0 != NULL && lo != NULL && docker != NULL && odd != NULL);
    cr_expect(eth0->up && !eth0->loopback && !eth0->bridge && !eth0->virtual);
    cr_expect(eth0->mtu == 9000 && eth0->index == 7 && eth0->bits_s == UINT64_C(25000000000));
    cr_expect(lo->up && lo->loopback && lo->virtual);
    cr_expect(docker->up && docker->bridge && docker->virtual);
    cr_expect(!odd->up && odd->mtu == 0 && odd->bits_s == 0);
    cr_expect(!net_dev_find(&d, "eth1")->up && !net_dev_find(&d, "eth2")->up);
    cr_expect(net_dev_find(&d, "tun9")->up);
    cr_expect_eq(net_dev_of(&d, &own[1].addr), eth0);
    const struct net_addr other = addr("10.0.0.2");
    cr_expect_null(net_dev_of(&d, &other));
    net_devs_free(&d);
    tree_drop(&t);
}

static void gid_put(const struct tree *t, unsigned index, const char *gid, const char *type)
{
    char path[128];

    snprintf(path, sizeof(path), IB "mlx5_0/ports/1/gids/%u", index);
    tree_put(t, path, gid);
    snprintf(path, sizeof(path), IB "mlx5_0/ports/1/gid_attrs/types/%u", index);
    tree_put(t, path, type);
    snprintf(path, sizeof(path), IB "mlx5_0/ports/1/gid_attrs/ndevs/%u", index);
    tree_put(t, path, "eth0\n");
}

/* A RoCE port that can be used. */
static void port_put(const struct tree *t)
{
    dev_put(t, "eth0", "0x1003\n", "up\n");
    tree_put(t, IB "mlx5_0/node_desc", "node \t\377 one\n");
    tree_put(t, IB "mlx5_0/ports/1/state", "4: ACTIVE\n");
    tree_put(t, IB "mlx5_0/ports/1/link_layer", "Ethernet\n");
    tree_put(t, IB "mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
    gid_put(t, 0, LOCAL, "IB/RoCE v1\n");
    gid_put(t, 1, LOCAL, "RoCE v2\n");
    gid_put(t, 2, MAPPED, "IB/RoCE v1\n");
    gid_put(t, 3, MAPPED, "RoCE v2\n");
    gid_put(t, 10, ROUTED, "RoCE v2\n");
    gid_put(t, 11, ZERO, "RoCE v2\n");
    gid_put(t, 12, "no gid\n", "RoCE v2\n");
    tree_put(t, "class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    tree_put(t, "dev/infiniband/uverbs0", "");
    tree_put(t, "dev/infiniband/rdma_cm", "");
}

static void port_read(const struct tree *t, struct rdma_ports *out)
{
    char dev[80];

    snprintf(dev, sizeof(dev), "%s/dev", t->root);
    cr_assert_eq(rdma_ports_read(t->root, dev, out), VB_OK);
}

Test(net_dev, rdma_port_of_a_tree_is_what_its_files_say)
{
    struct rdma_ports p;
    struct tree t;

    tree_make(&t);
    port_put(&t);
    port_read(&t, &p);
    cr_assert_eq(p.n, 1);
    cr_expect_str_eq(p.port[0].device, "mlx5_0");
    cr_expect_str_eq(p.port[0].netdev, "eth0");
    cr_expect_str_eq(p.port[0].desc, "node ?? one");
    cr_expect_str_eq(p.port[0].state, "ACTIVE");
    cr_expect(p.port[0].port == 1 && !p.port[0].ib && p.port[0].ngids == 5);
    cr_expect_eq(p.port[0].bits_s, UINT64_C(100000000000));
    cr_expect_eq(p.port[0].gid[4].index, 10); /* in order of their numbers */
    cr_expect_str_eq(p.port[0].why_not, "");
    cr_expect_eq(rdma_port_of(&p, "eth0"), &p.port[0]);
    cr_expect_null(rdma_port_of(&p, "eth1"));
    cr_expect_null(rdma_port_of(&p, ""));
    rdma_ports_free(&p);
    tree_drop(&t);
}

Test(net_dev, port_that_cannot_be_used_says_why_and_what_to_do)
{
    static const struct {
        const char *file, *text; /* NULL: the file is gone */
        const char *why, *fix;
    } all[] = {
        { IB "mlx5_0/ports/1/state", "1: DOWN\n", "port is down", "ip link set eth0 up" },
        { IB "mlx5_0/ports/1/state", "", "port is unknown", "" },
        { "class/infiniband_verbs/uverbs0/ibdev", "mlx5_1\n", "no program", "ib_uverbs" },
        { "dev/infiniband/uverbs0", NULL, "uverbs0 is missing", "--device /dev/infiniband" },
        { "dev/infiniband/rdma_cm", NULL, "rdma_cm is missing", "rdma_ucm" },
        { IB "mlx5_0/ports/1/gid_attrs/ndevs/0", "eth5\n", "eth5 is in another", "" },
        { IB "mlx5_0/ports/1/link_layer", "InfiniBand\n", "", "" },
    };
    struct rdma_ports p;

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        char path[192];
        struct tree t;

        tree_make(&t);
        port_put(&t);
        snprintf(path, sizeof(path), "%s/%s", t.root, all[i].file);
        if (all[i].text != NULL)
            tree_put(&t, all[i].file, all[i].text);
        else
            cr_assert_eq(unlink(path), 0);
        port_read(&t, &p);
        cr_assert_eq(p.n, 1);
        cr_expect_eq(p.port[0].why_not[0] == '\0', all[i].why[0] == '\0', "%s", all[i].file);
        cr_expect(strstr(p.port[0].why_not, all[i].why) != NULL, "%s", p.port[0].why_not);
        cr_expect(strstr(p.port[0].why_not, all[i].fix) != NULL, "%s", p.port[0].why_not);
        rdma_ports_free(&p);
        tree_drop(&t);
    }
}

Test(net_dev, port_without_a_routable_v2_gid_cannot_be_used)
{
    struct rdma_ports p;
    struct tree t;

    tree_make(&t);
    port_put(&t);
    gid_put(&t, 3, ZERO, "RoCE v2\n");
    gid_put(&t, 10, ZERO, "RoCE v2\n");
    port_read(&t, &p);
    cr_expect_str_eq(p.port[0].why_not,
                     "no routable RoCE v2 GID: all 1 are link-local; give an IP address to eth0");
    rdma_ports_free(&p);
    gid_put(&t, 1, ZERO, "RoCE v2\n");
    port_read(&t, &p);
    cr_expect_str_eq(p.port[0].why_not, "no RoCE v2 GID (2 others); give an IP address to eth0");
    rdma_ports_free(&p);
    tree_drop(&t);
}

Test(net_dev, nothing_at_all_is_an_empty_list)
{
    struct rdma_ports p;
    struct net_devs d;

    cr_assert_eq(net_devs_read("/nowhere", NULL, 0, &d), VB_OK);
    cr_assert_eq(rdma_ports_read("/nowhere", "/nowhere", &p), VB_OK);
    cr_expect(d.n == 0 && d.naddrs == 0 && p.n == 0);
    rdma_ports_ask(&p);
    net_devs_free(&d);
    rdma_ports_free(&p);
}

static struct rdma_gid gid(unsigned index, enum rdma_gid_kind kind, const char *text)
{
    struct rdma_gid g = { .index = index, .kind = kind };
    const struct net_addr a = addr(text);

    if (a.family == AF_INET) {
        g.bytes[10] = g.bytes[11] = 0xff;
        memcpy(g.bytes + 12, a.bytes, 4);
    } else {
        memcpy(g.bytes, a.bytes, 16);
    }
    return g;
}

Test(net_dev, gid_is_the_routable_v2_one_of_the_address)
{
    const struct rdma_gid table[] = {
        gid(0, RDMA_GID_V1, "fe80::1"),  gid(1, RDMA_GID_V2, "fe80::1"),
        gid(2, RDMA_GID_V1, "10.0.0.1"), gid(3, RDMA_GID_V2, "10.0.0.1"),
        gid(4, RDMA_GID_V1, "fd00::1"),  gid(5, RDMA_GID_V2, "fd00::1"),
        gid(6, RDMA_GID_V2, "10.1.0.1"),
    };
    static const struct {
        const char *want;
        size_t n;
        int at;
    } all[] = {
        { NULL, 7, 3 },       { "10.0.0.1", 7, 3 },  { "fd00::1", 7, 5 },
        { "10.1.0.1", 7, 6 }, { "10.0.0.2", 7, -1 }, { "fe80::1", 7, 1 },
        { NULL, 3, -1 },      { NULL, 1, -1 },       { NULL, 0, -1 },
    };
    const struct rdma_gid ib = gid(0, RDMA_GID_IB, "fe80::2");
    struct vb_err why;

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        const struct net_addr want = addr(all[i].want != NULL ? all[i].want : "::1");

        why.text[0] = '\0';
        cr_expect_eq(rdma_gid_choose(table, all[i].n, all[i].want != NULL ? &want : NULL, &why),
                     all[i].at);
        cr_expect_eq(why.text[0] != '\0', all[i].at < 0);
    }
    cr_expect_eq(rdma_gid_choose(&ib, 1, NULL, &why), 0);
}

Test(net_dev, mtu_is_the_lesser_of_both_over_all_values)
{
    static const uint32_t bytes[] = { 0, 256, 512, 1024, 2048, 4096 };

    for (unsigned a = 0; a < VB_ARRAY_LEN(bytes); a++) {
        cr_expect_eq(rdma_mtu_bytes(a), bytes[a]);
        cr_expect_eq(rdma_mtu_enum(bytes[a]), a);
        for (unsigned b = 0; b < VB_ARRAY_LEN(bytes); b++)
            cr_expect_eq(rdma_mtu_both(bytes[a], bytes[b]),
                         a == 0 || b == 0 ? 0 : bytes[VB_MIN(a, b)]);
    }
    cr_expect_eq(rdma_mtu_bytes(6), 0);
    cr_expect_eq(rdma_mtu_enum(1500), 0);
    cr_expect_eq(rdma_mtu_both(1500, 4096), 0);
    cr_expect_str_eq(rdma_mtu_name(5), "4096 B");
    cr_expect_str_eq(rdma_mtu_name(UINT32_MAX), "unknown");
}

Test(net_dev, locked_memory_that_does_not_fit_says_need_and_limit)
{
    const struct net_memlock none = { UINT64_MAX, false }, root = { 65536, true };
    const struct net_memlock small = { 65536, false };
    struct rdma_port port[2] = { { .device = "a" }, { .device = "b", .why_not = "broken" } };
    struct rdma_ports p = { port, 2 };
    struct vb_err why;

    cr_expect(net_memlock_fits(&none, UINT64_MAX, &why));
    cr_expect(net_memlock_fits(&root, UINT64_MAX, &why));
    cr_expect(net_memlock_fits(&small, 65536, &why));
    cr_expect(!net_memlock_fits(&small, 65537, &why));
    cr_expect_eq(strncmp(why.text, "needs 1 MiB locked, limit 64 KiB, fix: ", 39), 0);
    cr_expect(!net_memlock_fits(&small, UINT64_MAX, &why));
    rdma_ports_need(&p, &root, 1 << 20);
    cr_expect_str_eq(port[0].why_not, "");
    rdma_ports_need(&p, &small, 16 << 20);
    cr_expect_eq(strncmp(port[0].why_not, "locked memory: needs 16 MiB", 27), 0);
    cr_expect(strstr(port[0].why_not, "memlock=-1") != NULL);
    cr_expect_str_eq(port[1].why_not, "broken");
}
