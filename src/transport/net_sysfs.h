/*
 * net_sysfs.h - small files of a sysfs, for the net_*.c files only.
 */
#ifndef TRANSPORT_NET_SYSFS_H
#define TRANSPORT_NET_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line of the file "root/path" into buf, cut, without what is not printable; false: none. */
__attribute__((format(printf, 4, 5))) bool sysfs_text(char *buf, size_t bytes, const char *root,
                                                      const char *fmt, ...);
/* A number, decimal or 0x...; 0: none, or not one. */
__attribute__((format(printf, 2, 3))) uint64_t sysfs_number(const char *root, const char *fmt, ...);
/* "root/path" is there. */
__attribute__((format(printf, 2, 3))) bool sysfs_has(const char *root, const char *fmt, ...);

/* The names in a directory, sorted. n_out 0: none or no such directory. Names that are empty, hidden
 * or longer than a device's name may be are left out, as are those after the `max`th. false: no
 * memory. gives: free. */
struct sysfs_name;
__attribute__((format(printf, 5, 6))) bool sysfs_list(struct sysfs_name **out, size_t *n_out,
                                                      size_t max, const char *root, const char *fmt,
                                                      ...);
struct sysfs_name {
    char text[64];
};

#endif
