/*
 * fake.h - a peer that has the secret but not our code: a proved control connection in the hands of a
 * test.
 */
#ifndef TESTS_CLUSTER_FAKE_H
#define TESTS_CLUSTER_FAKE_H

#include "cluster/conn.h"
#include "crew.h"

/* Worker 0 of a crew of one ps and one worker, by TCP. */
void fake_worker(const struct crew *w, struct conn *conn);
/* The ps of such a crew, with the crew's socket: worker 0 comes in, by TCP. */
void fake_ps(struct crew *w, struct conn *conn);

void fake_say(struct conn *conn, enum wire_kind kind, const void *body);
/* The next frame that is neither PING nor MISSING, body into buf; its kind. 0: the peer has closed. */
unsigned fake_hear(struct conn *conn, void *buf, size_t buf_bytes);

#endif
