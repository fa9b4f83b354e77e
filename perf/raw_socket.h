/* raw_socket.h - a plain TCP connection between two processes, one thread each: what the kernel gives. */
#ifndef PERF_RAW_SOCKET_H
#define PERF_RAW_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/* Both sides; fd is a socket between them, host the passive side's numeric address. */
bool raw_socket_open(int fd, bool active, const char *host, int *tcp_out);
/* So many bytes, sent from or received into the same buffer of `bytes` again and again. */
bool raw_socket_send(int tcp, const void *buf, uint64_t bytes, uint64_t n);
bool raw_socket_recv(int tcp, void *buf, uint64_t bytes, uint64_t n);

#endif
