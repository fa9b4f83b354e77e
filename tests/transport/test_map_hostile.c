/* A peer on this host that writes what it likes into shared memory, or offers the wrong files. */
#include "harness.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "transport/map.h"

static const struct conf_way way = { "map", TP_MAP, false };

/* The rings of end e, mapped again as its peer has them. */
static void *rings_of(struct end *e, uint64_t *bytes_out)
{
    struct tp_offer o;

    cr_assert_eq(tp_link_offer(e->link, &o), VB_OK);
    *bytes_out = map_rings_bytes(1);

    void *rings = mmap(NULL, *bytes_out, PROT_READ | PROT_WRITE, MAP_SHARED, o.fds[2], 0);

    cr_assert_neq(rings, MAP_FAILED);
    tp_offer_close(&o);
    return rings;
}

static uint64_t word0(uint64_t number, uint64_t hdr_bytes, uint64_t region)
{
    return number | hdr_bytes << 32 | region << 48;
}

Test(map_hostile, hostile_slot_fails_the_link)
{
    const uint64_t room = 256 << 10;
    const struct {
        uint64_t hdr_bytes, region, offset, bytes;
    } bad[] = {
        { 8, 2, 0, 1 },
        { 8, TP_REGIONS_MAX, 0, 1 },
        { 8, 65535, 0, 1 },
        { 8, 0, room, 1 },
        { 8, 0, 0, room + 1 },
        { 8, 1, 1, room },
        { 8, 0, UINT64_MAX, 1 },
        { 8, 0, 1, UINT64_MAX },
        { 8, 0, UINT64_MAX, UINT64_MAX },
        { 8, 0, UINT64_C(1) << 63, UINT64_C(1) << 63 },
        { TP_HDR_MAX + 1, 0, 0, 0 },
        { 65535, 0, 0, 0 },
    };

    for (unsigned i = 0; i < VB_ARRAY_LEN(bad); i++) {
        struct send s = { 0 };
        uint64_t bytes;
        struct pair p;

        pair_open(&p, &way, &(struct pair_params){ 0 });

        void *rings = rings_of(&p.e[0], &bytes);
        struct map_slot *slot = map_slots_at(rings, 0);

        /* one good message, a bad one, a good one that must not arrive */
        for (unsigned m = 0; m < 3; m++) {
            slot[m].word[1] = m == 1 ? bad[i].offset : 0;
            slot[m].word[2] = m == 1 ? bad[i].bytes : 0;
            slot[m].word[0] =
                m == 1 ? word0(m + 1, bad[i].hdr_bytes, bad[i].region) : word0(m + 1, 8, 0);
        }
        pair_settle(&p);
        cr_assert(tp_link_failed(p.e[0].link), "case %u", i);
        cr_assert_eq(p.e[0].received, 1, "case %u", i);
        send_fill(&s, 0, 0, 0);
        cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_UNREACHABLE);
        munmap(rings, bytes);
        pair_close(&p);
    }
}

Test(map_hostile, numbers_out_of_turn_and_wild_tails_do_no_harm)
{
    struct send s = { 0 };
    unsigned accepted = 0;
    uint64_t bytes;
    struct pair p;

    pair_open(&p, &way, &(struct pair_params){ 0 });

    void *rings = rings_of(&p.e[0], &bytes);

    memset(map_slots_at(rings, 0), 0xa5, TP_CHANNEL_SLOTS * sizeof(struct map_slot));
    pair_settle(&p);
    cr_assert_eq(p.e[0].received, 0);
    send_fill(&s, 0, 0, 0);
    s.op.done = NULL;
    for (unsigned i = 0; i < 100; i++) {
        atomic_store(&map_tail_at(rings, 0)->read, i * 0x12345678u);
        for (unsigned k = 0; k < TP_CHANNEL_SLOTS; k++)
            accepted += tp_send(tp_port(p.e[1].node, 0), p.e[1].link, 0, &s.op) == VB_OK;
    }
    cr_assert_geq(accepted, TP_CHANNEL_SLOTS);
    munmap(rings, bytes);
    pair_close(&p);
}

enum { NBAD = 6 };

/* Descriptors of about the right size that a peer must not get away with. */
static void bad_fds(uint64_t bytes, int fd[NBAD])
{
    const int flags = MFD_ALLOW_SEALING | MFD_CLOEXEC;
    char name[] = "/tmp/verbena-test-XXXXXX";
    int ends[2];

    fd[0] = memfd_create("unsealed", flags);
    cr_assert_eq(ftruncate(fd[0], (off_t)bytes), 0);
    fd[1] = memfd_create("sealed too short", flags);
    cr_assert_eq(ftruncate(fd[1], (off_t)bytes - 1), 0);
    fd[2] = memfd_create("sealed without pages", flags);
    cr_assert_eq(ftruncate(fd[2], (off_t)bytes), 0);
    for (unsigned i = 1; i <= 2; i++)
        cr_assert_eq(fcntl(fd[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
                     0);
    fd[3] = mkstemp(name);
    unlink(name);
    cr_assert_eq(ftruncate(fd[3], (off_t)bytes), 0);
    cr_assert_eq(pipe(ends), 0);
    fd[4] = ends[1];
    close(ends[0]);
    fd[5] = -1;
}

Test(map_hostile, offers_with_foreign_descriptors_are_refused_and_good_ones_still_work)
{
    const uint64_t bytes[] = { TP_WORDS_BYTES, 8, map_rings_bytes(1), 256 << 10, 256 << 10 };
    struct tp_offer good, back, bad;
    struct send s = { 0 };
    int fd[NBAD];
    struct pair p;

    pair_make(&p, &way, &(struct pair_params){ 0 });
    cr_assert_eq(tp_link_offer(p.e[1].link, &good), VB_OK);
    cr_assert_eq(tp_link_offer(p.e[0].link, &back), VB_OK);
    cr_assert_eq(good.nfds, VB_ARRAY_LEN(bytes));
    for (unsigned i = 0; i < good.nfds; i++) {
        bad_fds(bytes[i], fd);
        for (unsigned k = 0; k < NBAD; k++) {
            bad = good;
            bad.fds[i] = fd[k];
            cr_assert_neq(tp_link_connect(p.e[0].link, &bad), VB_OK, "fd %u: kind %u", i, k);
            if (fd[k] >= 0)
                close(fd[k]);
        }
    }
    bad = good;
    bad.fds[3] = good.fds[2]; /* rings, which can be written, for a region */
    cr_assert_neq(tp_link_connect(p.e[0].link, &bad), VB_OK);
    cr_assert_eq(tp_link_connect(p.e[0].link, &good), VB_OK);
    cr_assert_eq(tp_link_connect(p.e[0].link, &good), VB_INVAL);
    cr_assert_eq(tp_link_connect(p.e[1].link, &back), VB_OK);
    tp_offer_close(&good);
    tp_offer_close(&back);
    send_fill(&s, 0, 5, 1000);
    cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_OK);
    cr_assert(pair_until(&p, &p.e[1].received, 1));
    cr_assert_eq(p.e[1].damaged, 0);
    pair_close(&p);
}

Test(map_hostile, peers_cannot_write_or_punch_holes_into_regions)
{
    struct tp_offer o;
    struct pair p;

    pair_make(&p, &way, &(struct pair_params){ 0 });
    cr_assert_eq(tp_link_offer(p.e[0].link, &o), VB_OK);
    for (unsigned i = 0; i < o.nfds; i++) {
        if (i == 1 || i == 2) /* eventfd and rings */
            continue;
        cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, o.fds[i], 0), MAP_FAILED);
        cr_assert_neq(fallocate(o.fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
        cr_assert_neq(ftruncate(o.fds[i], 0), 0);
    }
    tp_offer_close(&o);
    pair_close(&p);
}
