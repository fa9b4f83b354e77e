#include "cluster/way.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(way, texts_of_a_peer_end_and_are_printable)
{
    struct wire_can can = { .device = "mlx5_0:1", .why = "a\nb\x1b[2J\xff" };

    cr_assert_eq(way_can_check(&can), VB_OK);
    cr_assert_str_eq(can.why, "a?b?[2J?");
    memset(can.why, 'x', sizeof(can.why));
    cr_assert_eq(way_can_check(&can), VB_PROTO);
    can.why[0] = '\0';
    memset(can.device, 'x', sizeof(can.device));
    cr_assert_eq(way_can_check(&can), VB_PROTO);
    can = (struct wire_can){ .rdma = 2 };
    cr_assert_eq(way_can_check(&can), VB_PROTO);
    can = (struct wire_can){ .mtu = UINT32_MAX };
    cr_assert_eq(way_can_check(&can), VB_PROTO);
}

Test(way, an_offer_has_a_way_and_the_ps_says_where_it_listens)
{
    static const struct {
        uint32_t way, nhosts;
        bool from_ps;
        enum vb_st st;
    } cases[] = {
        { TP_MAP, 0, true, VB_OK },        { TP_MAP, 1, true, VB_PROTO },
        { TP_MAP, 0, false, VB_OK },       { TP_TCP, 1, true, VB_OK },
        { TP_TCP, 0, true, VB_PROTO },     { TP_RDMA, WIRE_HOSTS_MAX, true, VB_OK },
        { TP_TCP, 0, false, VB_OK },       { TP_RDMA, WIRE_HOSTS_MAX + 1, true, VB_PROTO },
        { TP_TCP, 1, false, VB_PROTO },    { TP_LOOP, 1, true, VB_PROTO },
        { UINT32_MAX, 0, true, VB_PROTO },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct wire_offer m = { .way = cases[i].way, .nhosts = cases[i].nhosts };

        cr_assert_eq(way_offer_check(&m, cases[i].from_ps), cases[i].st, "case %zu", i);
    }
    struct wire_offer endless = { .way = TP_TCP, .nhosts = 1 };

    memset(endless.host[0], '1', sizeof(endless.host[0]));
    cr_assert_eq(way_offer_check(&endless, true), VB_PROTO);
}

Test(way, an_address_of_a_peer_is_one_that_leads_there)
{
    struct net_if_addr own[] = { { .dev = "eth0", .prefix = 24 },
                                 { .dev = "docker0", .prefix = 16 },
                                 { .dev = "eth0", .prefix = 64 } };
    static const struct {
        const char *host, *control, *says; /* NULL: good */
    } cases[] = {
        { "10.0.0.2", "10.0.0.2", NULL },
        { "10.1.0.2", "10.0.0.2", NULL },
        { "fd00::2", "10.0.0.2", NULL },
        { "172.17.0.1", "10.0.0.2", "an address of this host too" },
        { "fd00::1", "fd00::2", "an address of this host too" },
        { "10.0.0.1", "10.0.0.2", "an address of this host too" },
        { "127.0.1.1", "10.0.0.2", "no other host reaches" },
        { "::1", "fd00::2", "no other host reaches" },
        { "::ffff:127.0.0.1", "fd00::2", "no other host reaches" },
        { "127.0.0.1", "127.0.0.1", NULL }, /* both are here */
        { "10.0.0.1", "127.0.0.1", NULL },
        { "10.0.0.1", "10.0.0.1", NULL },
        { "0.0.0.0", "127.0.0.1", "no address of one host" },
        { "255.255.255.255", "10.0.0.2", "no address of one host" },
        { "224.0.0.1", "10.0.0.2", "no address of one host" },
        { "::", "fd00::2", "no address of one host" },
        { "ff02::1", "fd00::2", "no address of one host" },
        { "host", "10.0.0.2", "no numeric address" },
        { "", "10.0.0.2", "no numeric address" },
        { "10.0.0.2:80", "10.0.0.2", "no numeric address" },
    };
    struct net_devs devs = { 0 };

    cr_assert(net_addr_parse("10.0.0.1", &own[0].addr) &&
              net_addr_parse("172.17.0.1", &own[1].addr) &&
              net_addr_parse("fd00::1", &own[2].addr));
    cr_assert_eq(net_devs_read("/nowhere", own, VB_ARRAY_LEN(own), &devs), VB_OK);
    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        const char *why = way_host_check(cases[i].host, cases[i].control, &devs);

        if (cases[i].says == NULL)
            cr_assert_null(why, "%s: %s", cases[i].host, why);
        else
            cr_assert(why != NULL && strstr(why, cases[i].says) != NULL, "%s: %s", cases[i].host,
                      why);
    }
    net_devs_free(&devs);
}

Test(way, a_scope_is_ours)
{
    cr_assert_str_eq(way_scoped("fe80::1%eth7", "fe80::1%eth0"), "fe80::1%eth0");
    cr_assert_str_eq(way_scoped("fe80::1", "fe80::2%eth0"), "fe80::1");
    cr_assert_str_eq(way_scoped("10.0.0.1", "10.0.0.1"), "10.0.0.1");
    cr_assert_str_eq(way_scoped("10.0.0.1", "10.0.0.10"), "10.0.0.1");
}

Test(way, a_reason_that_is_too_long_loses_its_advice_first)
{
    cr_assert_eq(way_fit("port is down; look at the cable", 100), 31);
    cr_assert_eq(way_fit("port is down; look at the cable", 20), 12);
    cr_assert_eq(way_fit("needs 2 MiB, fix: a; b", 20), 11);
    cr_assert_eq(way_fit("needs 2 MiB; or, fix: b", 20), 11);
    cr_assert_eq(way_fit("port is down", 4), 4);
    cr_assert_eq(way_fit("", 4), 0);
}
