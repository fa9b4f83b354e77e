/* What tp.h promises about set-up and waiting, on every way. */
#include "harness.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/util.h"

#define FOR_WAYS(w) for (const struct conf_way *w = conf_ways; w < conf_ways + conf_nways; w++)

static void refuse(struct pair *p, const struct tp_offer *o, const char *what)
{
    cr_assert_neq(tp_link_connect(p->e[0].link, o), VB_OK, "%s: %s", p->way->name, what);
}

Test(tp_setup, malformed_offers_are_refused)
{
    FOR_WAYS(w)
    {
        struct tp_offer good, bad;
        struct pair p;

        pair_make(&p, w, &(struct pair_params){ 0 });
        cr_assert_eq(tp_link_offer(p.e[1].link, &good), VB_OK);
        for (uint32_t bytes = 0; bytes < good.bytes; bytes += 1 + bytes / 3) {
            bad = good;
            bad.bytes = bytes;
            refuse(&p, &bad, "short blob");
        }
        bad = good;
        bad.bytes = TP_OFFER_BYTES + 1;
        refuse(&p, &bad, "more bytes than there can be");
        bad = good;
        bad.nfds = TP_OFFER_FDS + 1;
        refuse(&p, &bad, "more descriptors than there can be");
        bad = good;
        bad.nfds++;
        refuse(&p, &bad, "a descriptor too many");
        for (uint32_t n = 0; n < good.nfds; n++) {
            bad = good;
            bad.nfds = n;
            refuse(&p, &bad, "missing descriptors");
        }
        for (unsigned r = 0; r < 50; r++) {
            bad = good;
            for (uint32_t i = 0; i < bad.bytes; i++)
                bad.blob[i] = (unsigned char)vb_random_u64(r + 1, 0, i);
            refuse(&p, &bad, "random bytes");
        }
        tp_offer_close(&good);
        pair_close(&p);
    }
}

Test(tp_setup, ends_with_different_channel_counts_do_not_connect)
{
    FOR_WAYS(w)
    {
        struct tp_offer o;
        struct pair p, q;

        pair_make(&p, w, &(struct pair_params){ .channels = 2 });
        pair_make(&q, w, &(struct pair_params){ .channels = 3 });
        cr_assert_eq(tp_link_offer(q.e[1].link, &o), VB_OK);
        refuse(&p, &o, "other channel count");
        tp_offer_close(&o);
        pair_close(&p);
        pair_close(&q);
    }
}

Test(tp_setup, link_knows_its_user_way_and_description)
{
    FOR_WAYS(w)
    {
        struct tp_link_info info;
        char text[200] = "";
        const void *addr;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        cr_assert_eq(tp_link_user(p.e[1].link), &p.e[1]);
        cr_assert_eq(tp_link_way(p.e[1].link), w->way);
        tp_link_describe(p.e[0].link, text, sizeof(text));
        cr_assert_eq(strncmp(text, w->name, 3), 0, "%s: %s", w->name, text);
        tp_link_describe(p.e[0].link, text, 4);
        cr_assert_eq(strlen(text), 3);
        tp_link_set_why(p.e[0].link, "because");
        tp_link_info(p.e[0].link, &info);
        cr_assert(info.way == w->way && info.protocol[0] != '\0');
        cr_assert_str_eq(info.why, "because");
        if (w->way != TP_MAP)
            cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, 256 << 10, NULL, &addr), VB_INVAL);
        pair_close(&p);
    }
}

Test(tp_setup, wake_ends_a_wait_even_when_it_came_before)
{
    FOR_WAYS(w)
    {
        const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        pair_settle(&p);
        tp_wake(tp_port(p.e[0].node, 0));
        cr_assert_eq(tp_wait(tp_port(p.e[0].node, 0), deadline), 0);
        tp_link_fail(p.e[1].link);
        cr_assert_eq(tp_wait(tp_port(p.e[1].node, 0), deadline), 0);
        cr_assert_lt(vb_now_ns(), deadline, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp_setup, wait_returns_nothing_at_its_deadline)
{
    FOR_WAYS(w)
    {
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        pair_settle(&p);
        for (uint64_t ms = 0; ms <= 3; ms += 3) {
            const uint64_t deadline = vb_now_ns() + ms * VB_MS;

            cr_assert_eq(tp_wait(tp_port(p.e[0].node, 0), deadline), 0, "%s", w->name);
            cr_assert_geq(vb_now_ns(), deadline, "%s", w->name);
        }
        pair_close(&p);
    }
}

Test(tp_setup, wait_delivers_a_message)
{
    FOR_WAYS(w)
    {
        const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
        struct send s = { 0 };
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        send_fill(&s, 0, 0, 1000);
        cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_OK);
        while (p.e[1].received == 0 && vb_now_ns() < deadline)
            tp_wait(tp_port(p.e[1].node, 0), deadline);
        cr_assert_eq(p.e[1].received, 1, "%s", w->name);
        while (s.done == 0 && vb_now_ns() < deadline)
            tp_wait(tp_port(p.e[0].node, 0), deadline);
        cr_assert_eq(s.done, 1, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp_setup, mistakes_in_params_are_refused)
{
    struct tp_node *n;
    struct tp_link *l;
    uint32_t id;

    tp_node_close(NULL);
    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "a" }, &n), VB_INVAL);
    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "a", .nports = 17 }, &n), VB_INVAL);
    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .nports = 1 }, &n), VB_INVAL);
    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "a", .nports = 16 }, &n), VB_OK);
    cr_assert_null(tp_port(n, 16));
    cr_assert_eq(tp_region_new(n, 0, false, &id), VB_INVAL);
    cr_assert_eq(tp_region_new(n, UINT64_MAX, false, &id), VB_INVAL);
    for (uint32_t i = 0; i < TP_REGIONS_MAX; i++)
        cr_assert(tp_region_new(n, 5000, false, &id) == VB_OK && id == i);
    cr_assert_eq(tp_region_new(n, 5000, false, &id), VB_INVAL);
    cr_assert_null(tp_region_base(n, TP_REGIONS_MAX));
    cr_assert_eq(tp_region_bytes(n, 3), 5000);
    for (unsigned c = 0; c < 18; c += 17)
        cr_assert_eq(tp_link_new(n, &(struct tp_link_params){ .peer = "b", .channels = c }, &l),
                     VB_INVAL);
    cr_assert_eq(
        tp_link_new(
            n, &(struct tp_link_params){ .way = (enum tp_way)4, .peer = "b", .channels = 1 }, &l),
        VB_INVAL);
    tp_node_close(n);
}

Test(tp_setup, region_is_zeroed_aligned_and_made_before_the_first_link)
{
    static const uint64_t sizes[] = { 1, 4096, 12345, 2 << 20, 4 << 20 };
    struct tp_node *n;
    struct tp_link *l;
    uint32_t id;

    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "a", .nports = 1 }, &n), VB_OK);
    for (unsigned i = 0; i < VB_ARRAY_LEN(sizes); i++) {
        cr_assert_eq(tp_region_new(n, sizes[i], false, &id), VB_OK);

        const unsigned char *b = tp_region_base(n, id);

        cr_assert_eq((uintptr_t)b % 4096, 0);
        for (uint64_t k = 0; k < sizes[i]; k++)
            if (b[k] != 0)
                cr_assert_fail("byte %llu of region %u", (unsigned long long)k, id);
    }
    cr_assert_eq(tp_link_new(n, &(struct tp_link_params){ .peer = "b", .channels = 1 }, &l), VB_OK);
    cr_assert_eq(tp_link_ready(l), VB_AGAIN);
    cr_assert_eq(tp_region_new(n, 4096, false, &id), VB_INVAL);
    tp_node_close(n);
}
