#include "cluster/hello.h"

#include <sodium.h>
#include <string.h>

#include "cluster/addr.h"

static_assert(crypto_auth_hmacsha256_BYTES == 32, "mac is 32 bytes");
static_assert(crypto_auth_hmacsha256_KEYBYTES == 32, "secret is 32 bytes");
static_assert(sizeof(((struct hello *)NULL)->out) >=
                  sizeof(struct wire_hdr) + sizeof(struct wire_hello),
              "HELLO fits");

void hello_set_config(struct hello_self *self, const unsigned char config[32])
{
    crypto_generichash(self->config, sizeof(self->config), config, 32, self->secret,
                       sizeof(self->secret));
}

const char *hello_reason_str(enum hello_reason r)
{
    static const char *const text[HELLO_REASONS] = {
        [HELLO_NONE] = "no reason given",
        [HELLO_VERSION] = "it runs another version of verbena",
        [HELLO_TASK] = "another task listens there, check the addresses of the ClusterSpec",
        [HELLO_AUTH] = "one side runs without a job secret, give all tasks the same one",
        [HELLO_SECRET] = "the job secret or the ClusterSpec differs, give all tasks the same ones",
        [HELLO_CONFIG] = "started with another job file or options",
        [HELLO_WAY] = "transport map is for tasks on one host, use --transport auto",
        [HELLO_DUPLICATE] = "this task is already in the run, check that it is started once",
    };

    return text[r < HELLO_REASONS ? r : HELLO_NONE];
}

bool hello_planned(const struct cl_spec *s, uint32_t from, uint32_t to)
{
    return from < cl_ntasks(s) && to < from && cl_rank_job(s, to) == CL_PS &&
           (to == 0 || cl_rank_job(s, from) == CL_WORKER);
}

/* Text goes in with its final zero, so that neighbours cannot be confused. */
static void add_text(crypto_auth_hmacsha256_state *m, const char *text)
{
    crypto_auth_hmacsha256_update(m, (const unsigned char *)text, strlen(text) + 1);
}

static void add_task(crypto_auth_hmacsha256_state *m, const struct cl_spec *s, uint32_t rank)
{
    char name[CL_NAME_MAX], addr[CL_ADDR_TEXT];

    add_text(m, cl_name(s, rank, name));
    add_text(m, addr_text(&s->addr[rank], addr));
}

static void hash(const struct hello *h, const char *label, unsigned char *out)
{
    const struct hello_self *self = h->self;
    const unsigned char head[2] = { WIRE_VERSION, self->no_auth ? WIRE_NO_AUTH : 0 };
    crypto_auth_hmacsha256_state m;

    crypto_auth_hmacsha256_init(&m, self->secret, sizeof(self->secret));
    add_text(&m, label);
    crypto_auth_hmacsha256_update(&m, head, sizeof(head));
    crypto_auth_hmacsha256_update(&m, h->nonce_a, sizeof(h->nonce_a));
    crypto_auth_hmacsha256_update(&m, h->nonce_b, sizeof(h->nonce_b));
    add_task(&m, self->spec, h->initiator ? self->rank : h->peer);
    add_task(&m, self->spec, h->initiator ? h->peer : self->rank);
    crypto_auth_hmacsha256_update(&m, h->initiator ? self->config : h->peer_config, 32);
    crypto_auth_hmacsha256_update(&m, h->initiator ? h->peer_config : self->config, 32);
    crypto_auth_hmacsha256_final(&m, out);
}

static bool mac_fits(const struct hello *h, const char *label, const unsigned char *mac)
{
    unsigned char want[32];

    hash(h, label, want);
    return sodium_memcmp(want, mac, sizeof(want)) == 0;
}

static void put(struct hello *h, enum wire_kind kind, const void *body)
{
    h->out_bytes = wire_put(h->out, kind, body);
}

static void refuse(struct hello *h, enum hello_reason reason)
{
    put(h, WIRE_REFUSED, &(struct wire_refused){ .reason = reason });
    h->state = HELLO_REFUSED;
    h->reason = reason;
}

void hello_start(struct hello *h, const struct hello_self *self, uint32_t peer)
{
    struct wire_hello m = { .magic = WIRE_MAGIC,
                            .flags = self->no_auth ? WIRE_NO_AUTH : 0,
                            .from = self->rank,
                            .to = peer };

    *h = (struct hello){ .self = self, .initiator = true, .peer = peer, .expect = WIRE_CHALLENGE };
    randombytes_buf(h->nonce_a, sizeof(h->nonce_a));
    memcpy(m.nonce, h->nonce_a, sizeof(m.nonce));
    memcpy(m.config, self->config, sizeof(m.config));
    put(h, WIRE_HELLO, &m);
}

void hello_accept(struct hello *h, const struct hello_self *self)
{
    *h = (struct hello){ .self = self, .expect = WIRE_HELLO };
}

static void on_hello(struct hello *h, const struct wire_hello *m)
{
    const struct hello_self *self = h->self;
    struct wire_challenge c;

    if (memcmp(m->magic, WIRE_MAGIC, sizeof(m->magic)) != 0 || m->reserved != 0) {
        h->state = HELLO_BROKEN;
        return;
    }
    if (m->to != self->rank || !hello_planned(self->spec, m->from, m->to)) {
        refuse(h, HELLO_TASK);
        return;
    }
    if (m->flags != (self->no_auth ? WIRE_NO_AUTH : 0)) {
        refuse(h, HELLO_AUTH);
        return;
    }
    h->peer = m->from;
    memcpy(h->nonce_a, m->nonce, sizeof(h->nonce_a));
    memcpy(h->peer_config, m->config, sizeof(h->peer_config));
    randombytes_buf(h->nonce_b, sizeof(h->nonce_b));
    memcpy(c.nonce, h->nonce_b, sizeof(c.nonce));
    memcpy(c.config, self->config, sizeof(c.config));
    hash(h, "acceptor", c.mac);
    put(h, WIRE_CHALLENGE, &c);
    h->expect = WIRE_PROOF;
}

/* Another config is the acceptor's to tell, once it knows that this side may hear it. */
static void on_challenge(struct hello *h, const struct wire_challenge *m)
{
    struct wire_proof p;

    memcpy(h->nonce_b, m->nonce, sizeof(h->nonce_b));
    memcpy(h->peer_config, m->config, sizeof(h->peer_config));
    if (!mac_fits(h, "acceptor", m->mac)) {
        refuse(h, HELLO_SECRET);
        return;
    }
    hash(h, "initiator", p.mac);
    put(h, WIRE_PROOF, &p);
    h->expect = WIRE_WELCOME;
}

static void on_proof(struct hello *h, const struct wire_proof *m)
{
    if (!mac_fits(h, "initiator", m->mac))
        refuse(h, HELLO_SECRET);
    else if (memcmp(h->peer_config, h->self->config, sizeof(h->peer_config)) != 0)
        refuse(h, HELLO_CONFIG);
    else
        h->state = HELLO_PROVED;
}

static void come_in(struct hello *h)
{
    hash(h, "link", h->key);
    h->state = HELLO_IN;
}

void hello_answer(struct hello *h, enum hello_reason reason)
{
    if (reason != HELLO_NONE) {
        refuse(h, reason);
        return;
    }
    put(h, WIRE_WELCOME, NULL);
    come_in(h);
}

static void on_frame(struct hello *h, uint8_t kind, const void *body)
{
    union {
        struct wire_hello hello;
        struct wire_challenge challenge;
        struct wire_proof proof;
        struct wire_refused refused;
    } m;

    if (kind != h->expect && kind != WIRE_REFUSED) {
        h->state = HELLO_BROKEN;
        return;
    }
    memcpy(&m, body, (size_t)wire_body_bytes(kind)); /* the frame may be unaligned */
    switch (kind) {
    case WIRE_HELLO:
        on_hello(h, &m.hello);
        break;
    case WIRE_CHALLENGE:
        on_challenge(h, &m.challenge);
        break;
    case WIRE_PROOF:
        on_proof(h, &m.proof);
        break;
    case WIRE_WELCOME:
        come_in(h);
        break;
    default:
        h->state = HELLO_REFUSED;
        h->reason =
            m.refused.reason < HELLO_REASONS ? (enum hello_reason)m.refused.reason : HELLO_NONE;
        break;
    }
}

size_t hello_input(struct hello *h, const void *buf, size_t buf_bytes)
{
    struct wire_hdr hdr;
    const enum vb_st st = wire_cut(buf, buf_bytes, &hdr);

    if (st == VB_AGAIN || h->state != HELLO_GOING)
        return 0;
    if (st == VB_REFUSED) {
        refuse(h, HELLO_VERSION);
        return buf_bytes;
    }
    if (st != VB_OK) {
        h->state = HELLO_BROKEN;
        return buf_bytes;
    }
    on_frame(h, hdr.kind, (const unsigned char *)buf + sizeof(hdr));
    return hdr.bytes;
}

void hello_unix_name(const struct hello_self *self, uint32_t rank, char *buf)
{
    crypto_auth_hmacsha256_state m;
    char addr[CL_ADDR_TEXT];
    unsigned char mac[32];

    crypto_auth_hmacsha256_init(&m, self->secret, sizeof(self->secret));
    add_text(&m, "unix");
    add_text(&m, addr_text(&self->spec->addr[rank], addr));
    crypto_auth_hmacsha256_final(&m, mac);
    memcpy(buf, "verbena-", 8);
    vb_hex(buf + 8, mac, 16);
}
