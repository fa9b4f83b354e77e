/*
 * hello.h - who is at the other end of a control connection: a pure state machine, bytes in and
 * bytes out. No I/O, no clock.
 *
 *   initiator (higher rank)                       acceptor
 *   HELLO     ranks, nonce a, config a   ->
 *                                        <-       CHALLENGE  nonce b, config b, mac b
 *   PROOF     mac a                      ->
 *                                        <-       WELCOME, or REFUSED with a reason
 *
 * mac = HMAC-SHA256(secret; direction, version, flags, both nonces, both tasks' names and addresses,
 * both config hashes): what is replayed, reflected or taken from another pair of tasks does not fit.
 * The acceptor looks at the mac first, then at the config, then whether the task is already in.
 */
#ifndef CLUSTER_HELLO_H
#define CLUSTER_HELLO_H

#include "cluster/spec.h"
#include "cluster/wire.h"

enum hello_reason {
    HELLO_NONE,
    HELLO_VERSION,
    HELLO_TASK, /* the ranks are no pair that connects, or the acceptor is another task */
    HELLO_AUTH, /* one side has a secret, the other runs without */
    HELLO_SECRET,
    HELLO_CONFIG,
    HELLO_DUPLICATE,
    HELLO_WAY, /* transport map, and the connection came over TCP */
    HELLO_REASONS
};

/* What to check, as the end of a line "refused by NAME: ". Never NULL. */
const char *hello_reason_str(enum hello_reason r);

enum hello_state {
    HELLO_GOING,
    HELLO_PROVED, /* acceptor: the peer is who it says; hello_answer comes next */
    HELLO_IN,
    HELLO_REFUSED, /* h->reason; send what is in out, then close */
    HELLO_BROKEN   /* not our protocol: close */
};

/* This task; stays while hellos run. */
struct hello_self {
    const struct cl_spec *spec;
    uint32_t rank;
    bool no_auth; /* the secret is all zero */
    unsigned char secret[32], config[32];
};

/* Keyed with the job's secret, so that a stranger who is sent it cannot test a guess of the job. */
void hello_set_config(struct hello_self *self, const unsigned char config[32]);

struct hello {
    const struct hello_self *self;
    bool initiator;
    enum hello_state state;
    enum hello_reason reason;
    uint8_t expect; /* enum wire_kind */
    uint32_t peer;
    unsigned char nonce_a[32], nonce_b[32], peer_config[32];
    unsigned char key[32]; /* HELLO_IN: for the data link, the same at both ends */
    unsigned char out[sizeof(struct wire_hdr) + sizeof(struct wire_challenge)];
    size_t out_bytes; /* the caller sends them and sets 0 */
};

/* Do these two tasks have a control connection? The higher rank initiates. */
bool hello_planned(const struct cl_spec *s, uint32_t from, uint32_t to);

/* out then holds HELLO. The pair must be planned. */
void hello_start(struct hello *h, const struct hello_self *self, uint32_t peer);
void hello_accept(struct hello *h, const struct hello_self *self);

/* Takes at most one frame from the beginning of buf: returns its bytes, 0: not whole yet. */
size_t hello_input(struct hello *h, const void *buf, size_t buf_bytes);

/* Acceptor in HELLO_PROVED: HELLO_NONE lets the peer in. */
void hello_answer(struct hello *h, enum hello_reason reason);

/* "verbena-<32 hex>", the name of the unix socket of a task in this job, into buf[41]. */
void hello_unix_name(const struct hello_self *self, uint32_t rank, char *buf);

#endif
