#include "cluster/hello.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <string.h>

#include "base/util.h"

static const char spec_text[] =
    "{\"cluster\":{\"ps\":[\"a:1\",\"a:2\"],\"worker\":[\"b:1\",\"b:2\"]}}";
static struct cl_spec spec;

static void set_up(void)
{
    struct vb_err err;

    cr_assert(sodium_init() >= 0);
    cr_assert_eq(cl_spec_parse(spec_text, strlen(spec_text), &spec, &err), VB_OK);
}

static void tear_down(void)
{
    cl_spec_fini(&spec);
}

TestSuite(hello, .init = set_up, .fini = tear_down);

static struct hello_self task(uint32_t rank)
{
    return (
        struct hello_self){ .spec = &spec, .rank = rank, .secret = { 1, 2, 3 }, .config = { 9 } };
}

/* Hands over what one end has to say, as one piece. */
static void carry(struct hello *from, struct hello *to)
{
    hello_input(to, from->out, from->out_bytes);
    from->out_bytes = 0;
}

static void talk(struct hello *a, struct hello *b)
{
    for (int i = 0; i < 4 && (a->out_bytes > 0 || b->out_bytes > 0); i++) {
        if (a->out_bytes > 0)
            carry(a, b);
        if (b->state == HELLO_PROVED)
            hello_answer(b, HELLO_NONE);
        if (b->out_bytes > 0)
            carry(b, a);
    }
}

Test(hello, two_tasks_of_one_job_let_each_other_in_and_share_a_key)
{
    const uint32_t pairs[][2] = { { 2, 0 }, { 3, 1 }, { 1, 0 } };

    for (size_t i = 0; i < VB_ARRAY_LEN(pairs); i++) {
        const struct hello_self from = task(pairs[i][0]), to = task(pairs[i][1]);
        unsigned char first_key[32] = { 0 };

        for (int again = 0; again < 2; again++) {
            struct hello a, b;

            hello_start(&a, &from, to.rank);
            hello_accept(&b, &to);
            talk(&a, &b);
            cr_assert(a.state == HELLO_IN && b.state == HELLO_IN && b.peer == from.rank);
            cr_assert_eq(memcmp(a.key, b.key, 32), 0);
            cr_assert_neq(memcmp(a.key, first_key, 32), 0); /* fresh every time */
            memcpy(first_key, a.key, 32);
        }
    }
}

Test(hello, only_planned_pairs_connect)
{
    const bool want[4][4] = { { 0 }, { 1, 0 }, { 1, 1 }, { 1, 1 } };

    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t to = 0; to < 4; to++)
            cr_assert_eq(hello_planned(&spec, from, to), want[from][to], "%u to %u", from, to);
    cr_assert(!hello_planned(&spec, 4, 0));
    cr_assert(!hello_planned(&spec, UINT32_MAX, 0));
}

static void check_refused(const struct hello_self *from, uint32_t says_to,
                          const struct hello_self *to, enum hello_reason reason)
{
    struct hello a, b;

    hello_start(&a, from, says_to);
    hello_accept(&b, to);
    talk(&a, &b);
    cr_assert_eq(a.state, HELLO_REFUSED);
    cr_assert_eq(b.state, HELLO_REFUSED);
    cr_assert_eq(a.reason, reason, "initiator: %s", hello_reason_str(a.reason));
    cr_assert_eq(b.reason, reason, "acceptor: %s", hello_reason_str(b.reason));
}

Test(hello, whoever_does_not_fit_is_refused_with_the_reason_at_both_ends)
{
    const struct hello_self ps = task(0);
    struct hello_self bad = task(2);

    bad.secret[31] = 1;
    check_refused(&bad, 0, &ps, HELLO_SECRET);
    bad.config[0] = 7; /* the secret is looked at first */
    check_refused(&bad, 0, &ps, HELLO_SECRET);
    bad.secret[31] = 0;
    check_refused(&bad, 0, &ps, HELLO_CONFIG);
    bad = task(2);
    bad.no_auth = true;
    check_refused(&bad, 0, &ps, HELLO_AUTH);
    bad = task(2);
    check_refused(&bad, 1, &ps, HELLO_TASK);
    bad = task(0); /* a task that is no peer of ps 0 */
    check_refused(&bad, 0, &ps, HELLO_TASK);
}

Test(hello, another_cluster_spec_is_refused_like_another_secret)
{
    static const char moved[] =
        "{\"cluster\":{\"ps\":[\"a:1\",\"a:2\"],\"worker\":[\"b:1\",\"b:2222\"]}}";
    struct hello_self other = task(3);
    const struct hello_self ps = task(1);
    struct cl_spec s;
    struct vb_err err;

    cr_assert_eq(cl_spec_parse(moved, strlen(moved), &s, &err), VB_OK);
    other.spec = &s;
    check_refused(&other, 1, &ps, HELLO_SECRET);
    cl_spec_fini(&s);
}

Test(hello, a_second_task_of_the_same_name_hears_that_it_is_one)
{
    const struct hello_self w = task(2), ps = task(0);
    struct hello a, b;

    hello_start(&a, &w, 0);
    hello_accept(&b, &ps);
    carry(&a, &b);
    carry(&b, &a);
    carry(&a, &b);
    cr_assert_eq(b.state, HELLO_PROVED);
    hello_answer(&b, HELLO_DUPLICATE);
    carry(&b, &a);
    cr_assert(a.state == HELLO_REFUSED && a.reason == HELLO_DUPLICATE);
}

Test(hello, another_version_is_refused_as_such)
{
    const struct hello_self w = task(2), ps = task(0);
    struct hello a, b;

    hello_start(&a, &w, 0);
    hello_accept(&b, &ps);
    a.out[4] = WIRE_VERSION + 1;
    carry(&a, &b);
    cr_assert(b.state == HELLO_REFUSED && b.reason == HELLO_VERSION);
    hello_start(&a, &w, 0);
    b.out[4] = WIRE_VERSION + 1; /* the other one says so in its own version */
    carry(&b, &a);
    cr_assert(a.state == HELLO_REFUSED && a.reason == HELLO_VERSION);
}

/* An attacker has no secret: it may only send what it has seen. */
Test(hello, a_challenge_that_is_sent_back_as_proof_does_not_fit)
{
    const struct hello_self ps = task(0);
    struct hello a, b;
    unsigned char frame[256];
    struct wire_challenge c;

    hello_start(&a, &(const struct hello_self){ .spec = &spec, .rank = 2 }, 0);
    hello_accept(&b, &ps);
    carry(&a, &b);
    memcpy(&c, b.out + sizeof(struct wire_hdr), sizeof(c));
    const size_t n = wire_put(frame, WIRE_PROOF, &c.mac);

    hello_input(&b, frame, n);
    cr_assert(b.state == HELLO_REFUSED && b.reason == HELLO_SECRET);
}

Test(hello, what_was_recorded_of_another_hello_does_not_fit)
{
    const struct hello_self w = task(2), ps = task(0);
    unsigned char hello[256], proof[256], challenge[256];
    size_t hello_bytes, proof_bytes, challenge_bytes;
    struct hello a, b;

    hello_start(&a, &w, 0);
    hello_accept(&b, &ps);
    memcpy(hello, a.out, hello_bytes = a.out_bytes);
    carry(&a, &b);
    memcpy(challenge, b.out, challenge_bytes = b.out_bytes);
    carry(&b, &a);
    memcpy(proof, a.out, proof_bytes = a.out_bytes);

    hello_accept(&b, &ps);
    hello_input(&b, hello, hello_bytes);
    hello_input(&b, proof, proof_bytes);
    cr_assert(b.state == HELLO_REFUSED && b.reason == HELLO_SECRET);

    hello_start(&a, &w, 0);
    hello_input(&a, challenge, challenge_bytes);
    cr_assert(a.state == HELLO_REFUSED && a.reason == HELLO_SECRET);
}

Test(hello, an_incomplete_frame_waits_and_a_wrong_length_breaks)
{
    const struct hello_self w = task(2), ps = task(0);
    struct hello a, b;

    hello_start(&a, &w, 0);
    for (size_t n = 0; n < a.out_bytes; n++) {
        unsigned char cut[sizeof(a.out)];
        const uint32_t bytes = (uint32_t)n;

        hello_accept(&b, &ps);
        cr_assert_eq(hello_input(&b, a.out, n), 0);
        cr_assert_eq(b.state, HELLO_GOING);
        memcpy(cut, a.out, a.out_bytes); /* and as a frame that says it is shorter */
        memcpy(cut, &bytes, sizeof(bytes));
        hello_input(&b, cut, a.out_bytes);
        cr_assert_eq(b.state, HELLO_BROKEN, "at %zu", n);
    }
}

Test(hello, garbage_and_oversized_frames_break_at_once)
{
    static const char *const texts[] = { "GET / HTTP/1.1\r\n\r\n", "\x01\x04\x00\x00",
                                         "\xff\xff\xff\xff", "\x07\x00\x00\x00 of a header" };
    static const size_t bytes[] = { 18, 4, 4, 16 };
    const struct hello_self ps = task(0);
    struct hello b;

    for (size_t i = 0; i < VB_ARRAY_LEN(texts); i++) {
        hello_accept(&b, &ps);
        hello_input(&b, texts[i], bytes[i]);
        cr_assert_eq(b.state, HELLO_BROKEN, "case %zu", i);
        cr_assert_eq(b.out_bytes, 0);
    }
}

Test(hello, every_single_changed_byte_is_noticed)
{
    const struct hello_self w = task(2), ps = task(0);
    struct hello a, b;

    hello_start(&a, &w, 0);
    const size_t hello_bytes = a.out_bytes;

    for (int frame = 0; frame < 3; frame++) {
        for (size_t i = 0; i < hello_bytes; i++) {
            hello_start(&a, &w, 0);
            hello_accept(&b, &ps);
            a.out[i] ^= frame == 0;
            carry(&a, &b);
            if (b.state == HELLO_GOING && b.out_bytes > 0) {
                b.out[i % b.out_bytes] ^= frame == 1;
                carry(&b, &a);
            }
            if (a.state == HELLO_GOING && a.out_bytes > 0) {
                a.out[i % a.out_bytes] ^= frame == 2;
                carry(&a, &b);
            }
            cr_assert_neq(b.state, HELLO_PROVED, "frame %d byte %zu", frame, i);
        }
    }
}

Test(hello, unix_names_depend_on_secret_and_address)
{
    struct hello_self a = task(0);
    char name[3][41];

    hello_unix_name(&a, 0, name[0]);
    hello_unix_name(&a, 1, name[1]);
    a.secret[0] ^= 1;
    hello_unix_name(&a, 0, name[2]);
    cr_assert_eq(strlen(name[0]), 40);
    cr_assert_str_neq(name[0], name[1]);
    cr_assert_str_neq(name[0], name[2]);
}
