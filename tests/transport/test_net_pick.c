/* --net-devices, addresses and routes. */
#include "transport/net_dev.h"

#include <criterion/criterion.h>
#include <string.h>

static struct net_addr addr(const char *text)
{
    struct net_addr a;

    cr_assert(net_addr_parse(text, &a), "%s", text);
    return a;
}

/* eth0 (10.1.0.5, fd00::5, mlx5_0:1), eth1 (192.168.0.5), lo, docker0; mlx5_0:2 without a device */
struct host {
    struct net_dev dev[4];
    struct net_if_addr addr[5];
    struct rdma_port port[2];
    struct net_devs devs;
    struct rdma_ports ports;
};

static void host_make(struct host *h)
{
    *h = (struct host){
        .dev = { { .name = "docker0", .up = true, .bridge = true },
                 { .name = "eth0", .up = true },
                 { .name = "eth1", .up = true },
                 { .name = "lo", .up = true, .loopback = true } },
        .addr = { { "docker0", addr("172.17.0.1"), 16 },
                  { "eth0", addr("10.1.0.5"), 16 },
                  { "eth0", addr("fd00::5"), 64 },
                  { "eth1", addr("192.168.0.5"), 24 },
                  { "lo", addr("127.0.0.1"), 8 } },
        .port = { { .device = "mlx5_0", .port = 1, .netdev = "eth0" },
                  { .device = "mlx5_0", .port = 2 } },
    };
    h->devs = (struct net_devs){ h->dev, 4, h->addr, 5 };
    h->ports = (struct rdma_ports){ h->port, 2 };
}

/* Which of docker0, eth0, eth1, lo and mlx5_0:2 pass, as letters d e f l m. */
static const char *passing(const struct host *h, const char *text, char *buf)
{
    static const char letters[] = "defl";
    struct net_pick p;
    struct vb_err why;
    size_t n = 0;

    cr_assert_eq(net_pick_parse(text, &p, &why), VB_OK, "%s: %s", text, why.text);
    for (size_t i = 0; i < 4; i++)
        if (net_pick_passes(&p, &h->devs, h->dev[i].name, rdma_port_of(&h->ports, h->dev[i].name),
                            NULL))
            buf[n++] = letters[i];
    if (net_pick_passes(&p, &h->devs, NULL, &h->port[1], NULL))
        buf[n++] = 'm';
    buf[n] = '\0';
    return buf;
}

Test(net_pick, list_names_devices_ports_nets_and_exclusions)
{
    static const struct {
        const char *text, *pass;
    } all[] = {
        { "", "deflm" },
        { "eth0", "e" },
        { "eth0,eth1", "ef" },
        { "^docker0,^lo", "efm" },
        { "mlx5_0", "em" },
        { "mlx5_0:1", "e" },
        { "mlx5_0:2", "m" },
        { "^mlx5_0:2", "defl" },
        { "10.1.0.0/16", "e" },
        { "fd00::/64", "e" },
        { "10.0.0.0/8,192.168.0.0/16", "ef" },
        { "0.0.0.0/0,^172.17.0.0/16,^127.0.0.0/8", "ef" },
        { "eth0,^eth0", "" },
        { "eth0,^10.1.0.5/32", "" },
        { "eth0:1", "" },
        { "::/0", "e" },
        { "eth", "" },
    };
    char buf[8];
    struct host h;

    host_make(&h);
    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++)
        cr_expect_str_eq(passing(&h, all[i].text, buf), all[i].pass, "%s: %s", all[i].text, buf);
}

Test(net_pick, one_address_of_a_device_may_be_left_out)
{
    struct net_pick p;
    struct vb_err why;
    struct host h;

    host_make(&h);
    cr_assert_eq(net_pick_parse("^fd00::/64", &p, &why), VB_OK);
    cr_expect(net_pick_passes(&p, &h.devs, "eth0", NULL, &h.addr[1].addr));
    cr_expect(!net_pick_passes(&p, &h.devs, "eth0", NULL, &h.addr[2].addr));
}

Test(net_pick, what_is_no_item_is_refused_with_the_syntax)
{
    static const char *const all[] = {
        ",",           "eth0,",
        ",eth0",       "eth0,,eth1",
        "^",           "^^eth0",
        " eth0",       "eth0 ",
        "eth0;eth1",   "mlx5_0:",
        "mlx5_0:0",    "mlx5_0:256",
        "mlx5_0:01",   "mlx5_0:1:1",
        "10.0.0.0/33", "10.0.0.0/",
        "10.0.0.0/-1", "10.0.0.0/08",
        "10.0.0/8",    "fd00::/129",
        "/8",          "10.0.0.1",
        "fd00::1",     "fe80::1%lo/64",
        "=eth0",       "eth\t0",
        "a/b",         "averyveryveryveryveryveryveryveryveryveryveryveryveryverylongname",
    };
    char many[NET_PICK_MAX * 2 + 2] = "";
    struct net_pick p;
    struct vb_err why;

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        cr_expect_eq(net_pick_parse(all[i], &p, &why), VB_INVAL, "%s", all[i]);
        cr_expect(strstr(why.text, "an item is a device (eth0)") != NULL, "%s", why.text);
    }
    for (unsigned i = 0; i <= NET_PICK_MAX; i++)
        strcat(many, i > 0 ? ",a" : "a");
    cr_expect_eq(net_pick_parse(many, &p, &why), VB_INVAL);
    cr_expect_eq(net_pick_parse(NULL, &p, &why), VB_OK);
    cr_expect_eq(p.n, 0);
}

Test(net_pick, a_name_that_is_not_here_lists_what_is)
{
    static const struct {
        const char *text, *why; /* NULL: fine */
    } all[] = {
        { "eth0,mlx5_0:2", NULL },
        { "^nowhere0", NULL },
        { "eth7", "no device 'eth7' here" },
        { "mlx5_0:3", "no device 'mlx5_0:3' here" },
        { "10.9.0.0/16", "no device in the net '10.9.0.0/16' here" },
        { "^0.0.0.0/0,^lo,^docker0", "leaves no device that is up" },
    };
    struct net_pick p;
    struct vb_err why;
    struct host h;

    host_make(&h);
    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        cr_assert_eq(net_pick_parse(all[i].text, &p, &why), VB_OK);
        const enum vb_st st = net_pick_check(&p, &h.devs, &h.ports, &why);

        cr_expect_eq(st, all[i].why != NULL ? VB_INVAL : VB_OK, "%s", all[i].text);
        if (all[i].why == NULL)
            continue;
        cr_expect(strstr(why.text, all[i].why) != NULL, "%s", why.text);
        cr_expect(strstr(why.text, "mlx5_0:1 (eth0), mlx5_0:2 (no network device), docker0 "
                                   "(172.17.0.1), eth0 (10.1.0.5, fd00::5)") != NULL,
                  "%s", why.text);
    }
}

Test(net_pick, addresses_are_read_and_written)
{
    static const struct {
        const char *text, *again; /* NULL: no address */
    } all[] = {
        { "10.0.0.1", "10.0.0.1" },
        { "FD00:0::1", "fd00::1" },
        { "::ffff:10.0.0.1", "10.0.0.1" },
        { "fe80::1%lo", "fe80::1%lo" },
        { "", NULL },
        { "10.0.0", NULL },
        { "10.0.0.1%lo", NULL },
        { "fd00::1%lo", NULL },
        { "fe80::1%", NULL },
        { "fe80::1%nothere", NULL },
        { "host", NULL },
    };
    char buf[NET_ADDR_TEXT_MAX];
    struct net_addr a;

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        cr_expect_eq(net_addr_parse(all[i].text, &a), all[i].again != NULL, "%s", all[i].text);
        if (all[i].again != NULL)
            cr_expect_str_eq(net_addr_text(&a, buf), all[i].again);
    }
}

Test(net_pick, an_address_is_inside_a_net_by_its_first_bits)
{
    static const struct {
        const char *a, *net;
        unsigned prefix;
        bool inside;
    } all[] = {
        { "10.1.2.3", "10.1.0.0", 16, true },      { "10.2.2.3", "10.1.0.0", 16, false },
        { "10.1.2.3", "10.1.2.2", 31, true },      { "10.1.2.4", "10.1.2.2", 31, false },
        { "1.2.3.4", "255.255.255.255", 0, true }, { "1.2.3.4", "::", 0, false },
        { "fd00::1", "fd00::", 127, true },        { "fd00::2", "fd00::", 127, false },
        { "fd00::1", "fd00::1", 128, true },       { "1.2.3.4", "1.2.3.4", 33, false },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(all); i++) {
        const struct net_addr a = addr(all[i].a), net = addr(all[i].net);

        cr_expect_eq(net_addr_inside(&a, &net, all[i].prefix), all[i].inside, "%s", all[i].a);
    }
}

/* A network namespace of its own has no route at all; what it shares with others is told as self. */
Test(net_pick, own_addresses_are_told_as_self_and_many_are_no_peer)
{
    const struct net_addr own = addr("127.0.0.1"), many = addr("224.0.0.1"), none = { 0 };
    struct net_devs d;
    struct net_route r;
    struct vb_err why;

    cr_assert_eq(net_devs_host(&d), VB_OK);
    for (size_t i = 0; i < d.naddrs; i++) {
        const struct net_dev *dev = net_dev_find(&d, d.addr[i].dev);

        if (dev == NULL || !dev->up)
            continue;
        cr_expect_eq(net_route_to(&d.addr[i].addr, &r, &why), VB_OK, "%s", why.text);
        cr_expect(r.self);
    }
    if (d.naddrs > 0 && net_route_to(&own, &r, &why) == VB_OK)
        cr_expect(r.self && net_addr_loopback(&r.src));
    cr_expect_eq(net_route_to(&many, &r, &why), VB_UNREACHABLE);
    cr_expect_eq(net_route_to(&none, &r, &why), VB_UNREACHABLE);
    net_devs_free(&d);
}
