/*
 * harness.h - two nodes in this process, joined over any way; the test makes both progress.
 *
 * A new back end joins the conformance suite by one line in conf_ways.
 */
#ifndef TESTS_TRANSPORT_HARNESS_H
#define TESTS_TRANSPORT_HARNESS_H

#include "transport/tp.h"

#include <stdbool.h>

struct conf_way {
    const char *name;
    enum tp_way way;
    bool place; /* payloads go where place says; else they are viewed */
};
extern const struct conf_way *conf_ways;
extern unsigned conf_nways;

enum { PAIR_DEADLINE_S = 20, REGION_SRC = 0, REGION_DST = 1 };

/* The header of a test message; shorter ones are cut off. */
struct msg_hdr {
    uint64_t number, offset; /* the payload's place in the sender's source region */
    unsigned char fill[TP_HDR_MAX - 16];
};

enum place_answer { PLACE_AT_OFFSET, PLACE_NULL, PLACE_LATER };

struct pair;
struct end {
    struct pair *pair;
    struct tp_node *node;
    struct tp_link *link;
    unsigned char *src, *dst; /* the two regions */
    enum place_answer answer; /* what place says */
    unsigned placed;          /* how often it was asked */
    /* what arrived */
    unsigned received, damaged;
    uint64_t next[TP_PORTS_MAX]; /* number expected on each channel; others count as disorder */
    unsigned disorder, wrong_port;
    struct tp_rx last; /* hdr points to last_hdr */
    unsigned char last_hdr[TP_HDR_MAX];
    void (*hook)(struct end *e, const struct tp_rx *rx); /* NULL: none */
    struct port_arg {
        struct end *end;
        unsigned port;
    } port_arg[TP_PORTS_MAX];
};

struct pair {
    const struct conf_way *way;
    unsigned nports, channels;
    struct end e[2];
};

struct pair_params {
    unsigned nports[2], channels; /* 0: 1 */
    uint64_t region_bytes;        /* 0: 256 KiB */
    bool huge;                    /* regions of large pages where there are any */
    uint64_t seed;                /* loop */
};

/* Both ends made, regions filled with a pattern, not connected. Asserts. */
void pair_make(struct pair *p, const struct conf_way *w, const struct pair_params *params);
/* pair_make, offers exchanged, both ready. Asserts. */
void pair_open(struct pair *p, const struct conf_way *w, const struct pair_params *params);
void pair_close(struct pair *p);

/* Progress of every port of both ends, once. */
void pair_progress(struct pair *p);
/* Progress until *counter reaches want; false at the deadline. */
bool pair_until(struct pair *p, const unsigned *counter, unsigned want);
/* Progress for a while with nothing to wait for, to see that nothing happens. */
void pair_settle(struct pair *p);

/* An op that counts. */
struct send {
    struct tp_op op;
    unsigned done;
    enum vb_st st;
    unsigned *total; /* counts all of a test; may be NULL */
};
/* Fills the op: full header, payload [offset, offset + bytes) of the source region. */
void send_fill(struct send *s, uint64_t number, uint64_t offset, uint64_t bytes);
struct tp_port *port_of(struct end *e, unsigned channel);

/* An offer through a unix socket, descriptors and all. */
bool offer_to_socket(int fd, const struct tp_offer *o);
bool offer_from_socket(int fd, struct tp_offer *o);

#endif
