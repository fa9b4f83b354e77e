/* A header from a peer is believed only when every field fits the table and the link. */
#include "ps/wire.h"

#include <criterion/criterion.h>

static struct ps_table table(void)
{
    const struct ps_var var[] = { { .name = "a", .elems = 100000 },
                                  { .name = "b", .elems = 50, .cls = 1 } };
    struct ps_table t;
    struct vb_err err;

    cr_assert_eq(
        ps_table_make(&(struct ps_table_params){ .var = var, .nvars = 2, .nps = 2 }, &t, &err),
        VB_OK);
    return t;
}

static enum vb_st check(const struct ps_table *t, bool to_ps, struct ps_hdr h, uint64_t payload)
{
    const struct ps_from from = { .table = t, .to_ps = to_ps, .ps = 0, .worker = 3 };
    struct ps_hdr out;

    return ps_hdr_check(&from, &h, sizeof(h), payload, &out);
}

Test(wire, honest_headers_pass)
{
    struct ps_table t = table();
    const uint64_t bytes = t.chunk[0].bytes;
    const struct ps_hdr push = {
        .version = 1, .kind = PS_PUSH, .worker = 3, .clock = 9, .samples = 25, .count = 100
    };
    const struct ps_hdr tick = {
        .version = 1, .kind = PS_TICK, .worker = 3, .flags = PS_FINISHED, .count = 7
    };

    cr_assert_eq(check(&t, true, push, bytes), VB_OK);
    cr_assert_eq(check(&t, true, tick, 0), VB_OK);
    cr_assert_eq(check(&t, true, (struct ps_hdr){ .version = 1, .kind = PS_READ, .worker = 3 }, 0),
                 VB_OK);
    cr_assert_eq(
        check(&t, false, (struct ps_hdr){ .version = 1, .kind = PS_PARAM, .worker = 3 }, bytes),
        VB_OK);
    ps_table_fini(&t);
}

Test(wire, each_wrong_field_is_refused)
{
    struct ps_table t = table();
    const uint64_t bytes = t.chunk[0].bytes;
    const struct ps_hdr good = {
        .version = 1, .kind = PS_PUSH, .worker = 3, .samples = 25, .count = 25
    };
    const uint32_t other_ps = t.nchunks - 2;
    struct ps_hdr h;

#define REFUSED(change, payload)                                                                   \
    do {                                                                                           \
        h = good;                                                                                  \
        change;                                                                                    \
        cr_assert_eq(check(&t, true, h, payload), VB_PROTO, #change);                              \
    } while (0)
    REFUSED(h.version = 2, bytes);
    REFUSED(h.kind = 0, bytes);
    REFUSED(h.kind = 6, bytes);
    REFUSED(h.kind = PS_PARAM, bytes); /* the wrong direction */
    REFUSED(h.kind = PS_INIT, bytes);  /* not worker 0 */
    REFUSED(h.cls = 1, bytes);         /* another class's chunk */
    REFUSED(h.cls = 2, bytes);
    REFUSED(h.worker = 2, bytes); /* on somebody else's link */
    REFUSED(h.flags = 1, bytes);
    REFUSED(h.chunk = other_ps, t.chunk[other_ps].bytes);
    REFUSED(h.chunk = t.nchunks, bytes);
    REFUSED(h.chunk = UINT32_MAX, bytes);
    REFUSED(h.count = 24, bytes); /* more than all have */
    REFUSED(h.count = UINT64_C(1) << 32, bytes);
    REFUSED((void)0, bytes - 4);
    REFUSED((void)0, bytes + 4);
    REFUSED((void)0, 0);
    REFUSED((void)0, UINT64_MAX);
    REFUSED((h.kind = PS_TICK, h.samples = 0, h.chunk = 1), 0); /* no such lane */
    REFUSED((h.kind = PS_TICK, h.samples = 0, h.flags = 2), 0);
    REFUSED((h.kind = PS_TICK, h.samples = 0, h.cls = 2), 0);
    REFUSED((h.kind = PS_READ, h.samples = 0, h.count = 0), bytes);
    REFUSED((h.kind = PS_READ, h.samples = 0, h.count = 2), 0);
#undef REFUSED
    cr_assert_eq(check(&t, true, good, bytes), VB_OK);
    ps_table_fini(&t);
}

Test(wire, a_payload_is_what_the_codec_makes)
{
    static const struct kn_codec half = { .kind = KN_CODEC_F16 }, few = { KN_CODEC_TOPK, 0.01, 0 };
    const struct ps_class cls[] = { { .push = &half, .pull = &few }, { .name = "whole" } };
    struct ps_table t = table();
    const struct ps_from ps = { .table = &t, .to_ps = true, .worker = 3, .cls = cls },
                         worker = { .table = &t, .worker = 3, .cls = cls };
    const uint64_t bytes = t.chunk[0].bytes, some = ps_coded_bytes(&few, bytes);
    const struct ps_hdr push = { .version = 1, .kind = PS_PUSH, .worker = 3 },
                        param = { .version = 1, .kind = PS_PARAM, .worker = 3, .clock = 1 },
                        first = { .version = 1, .kind = PS_PARAM, .worker = 3 };
    struct ps_hdr out;

    cr_assert_eq(ps_hdr_check(&ps, &push, sizeof(push), bytes / 2, &out), VB_OK);
    cr_assert_eq(ps_hdr_check(&ps, &push, sizeof(push), bytes, &out), VB_PROTO);
    cr_assert_eq(ps_hdr_check(&ps, &push, sizeof(push), bytes / 2 + 1, &out), VB_PROTO);
    cr_assert_eq(ps_hdr_check(&worker, &param, sizeof(param), some, &out), VB_OK);
    cr_assert_eq(ps_hdr_check(&worker, &param, sizeof(param), bytes, &out), VB_PROTO);
    cr_assert_eq(ps_hdr_check(&worker, &first, sizeof(first), bytes, &out), VB_OK);
    cr_assert_eq(ps_hdr_check(&worker, &first, sizeof(first), some, &out), VB_PROTO);
    ps_table_fini(&t);
}

Test(wire, a_header_of_another_length_is_refused)
{
    struct ps_table t = table();
    const struct ps_from from = { .table = &t, .to_ps = true, .worker = 3 };
    unsigned char bytes[64] = { 1, PS_TICK };
    struct ps_hdr out;

    for (uint32_t n = 0; n <= sizeof(bytes); n++)
        if (n != sizeof(struct ps_hdr))
            cr_assert_eq(ps_hdr_check(&from, bytes, n, 0, &out), VB_PROTO);
    ps_table_fini(&t);
}
