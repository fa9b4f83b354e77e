/*
 * net.h - sockets of the control thread: listening, connecting, who is there. All descriptors are
 * close-on-exec and non-blocking.
 */
#ifndef CLUSTER_NET_H
#define CLUSTER_NET_H

#include "cluster/spec.h"

#include <sys/socket.h>

enum { NET_TEXT = 64, NET_UNIX_NAME = 41 };

/* Listens on exactly this address; a name is looked up (may block). -1: logged. */
int net_listen(const struct cl_addr *a, const char *who);
/* Abstract unix socket (a name without a file). -1: logged. */
int net_listen_unix(const char *name, const char *who);

/* Starts a connection; -1: *why says what failed. A name is looked up (may block); if it has several
 * addresses, attempts take turns. */
int net_connect(const struct cl_addr *a, uint32_t attempt, const char **why);
/* -1: errno. */
int net_connect_unix(const char *name);
/* The result of a connection that became writable: 0 or its errno. */
int net_connected(int fd);

/* Unix: is the peer a process of this user? */
bool net_same_user(int fd);

/* Numeric text of the peer's or of our own address, without port, into buf[NET_TEXT]. */
void net_peer_text(int fd, char *buf);
void net_own_text(int fd, char *buf);

#endif
