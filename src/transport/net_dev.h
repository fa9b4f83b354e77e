/*
 * net_dev.h - facts about this host's network and RDMA devices, for all who choose a way between hosts
 * or say why they did not.
 *
 * What reads files takes the root of a sysfs ("/sys" on a host, any tree in a test); what decides is a
 * pure function over what was read. A missing directory is an empty list, never a failure; a file
 * whose text is not understood is a fact unknown (0, ""). Names and text come from the kernel and from
 * users: checked and cut, never trusted. Thread: any, nothing is shared.
 */
#ifndef TRANSPORT_NET_DEV_H
#define TRANSPORT_NET_DEV_H

#include "base/util.h"
#include "verbena/status.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    NET_NAME_MAX = 64,      /* of a network or RDMA device, with the zero */
    NET_ADDR_TEXT_MAX = 64, /* "fe80::1%eth0" */
    NET_DEVS_MAX = 4096,    /* more are not looked at */
    RDMA_GIDS_MAX = 1024,
    RDMA_LOCK_MIN = 40 << 20 /* UCX locks about so much for its receive buffers and queues alone */
};

/* --- addresses (net_addr.c) --- */

struct net_addr {
    sa_family_t family;      /* AF_INET, AF_INET6; 0: none */
    uint32_t scope;          /* link-local v6: index of the device */
    unsigned char bytes[16]; /* v4: the first four */
};

/* "10.0.0.1", "fd00::1", "fe80::1%eth0"; a v4-mapped one becomes v4. false: not an address. */
bool net_addr_parse(const char *text, struct net_addr *out);
bool net_addr_from(const struct sockaddr *sa, struct net_addr *out); /* false: another family */
/* Into buf[NET_ADDR_TEXT_MAX]; returns buf. */
const char *net_addr_text(const struct net_addr *a, char *buf);
bool net_addr_same(const struct net_addr *a, const struct net_addr *b);
/* The first `prefix` bits are the same, and the family. */
bool net_addr_inside(const struct net_addr *a, const struct net_addr *net, unsigned prefix);
bool net_addr_loopback(const struct net_addr *a);   /* 127/8, ::1 */
bool net_addr_link_local(const struct net_addr *a); /* 169.254/16, fe80::/10 */

/* --- network devices (net_dev.c) --- */

struct net_dev {
    char name[NET_NAME_MAX];
    unsigned index;
    bool up; /* set up and with a carrier */
    bool loopback;
    bool bridge;     /* like docker0: other hosts may have one with the same address */
    bool virtual;    /* no device behind it: veth, bridge, bond, tunnel, lo */
    uint32_t mtu;    /* bytes */
    uint64_t bits_s; /* 0: unknown */
};
struct net_if_addr {
    char dev[NET_NAME_MAX];
    struct net_addr addr;
    unsigned prefix;
};
struct net_devs {
    struct net_dev *dev; /* by name */
    size_t n;
    struct net_if_addr *addr;
    size_t naddrs;
    bool foreign; /* /sys shows another network namespace: its devices are left out */
};

/* The devices of a sysfs, with these addresses (copied). A device that only an address names is
 * listed as up. VB_NOMEM. gives: net_devs_free. */
VB_MUST_CHECK enum vb_st net_devs_read(const char *sys, const struct net_if_addr *addr,
                                       size_t naddrs, struct net_devs *out);
/* Those of this host, /sys and getifaddrs. VB_NOMEM. gives: net_devs_free. */
VB_MUST_CHECK enum vb_st net_devs_host(struct net_devs *out);
void net_devs_free(struct net_devs *d);                                         /* takes zeroed */
const struct net_dev *net_dev_find(const struct net_devs *d, const char *name); /* NULL: none */
/* The device that has the address, NULL: none. */
const struct net_dev *net_dev_of(const struct net_devs *d, const struct net_addr *a);

/* --- the route to a peer (net_route.c) --- */

struct net_route {
    bool self;           /* the address is one of this host, so it cannot tell a peer elsewhere */
    struct net_addr src; /* what the peer would see */
    char dev[NET_NAME_MAX];
    uint32_t mtu; /* of the route, 0: the device's */
};

/* What the kernel would use now. VB_UNREACHABLE: no route, or only one over loopback; VB_IO: cannot
 * be asked. why is a line without the peer's name. */
VB_MUST_CHECK enum vb_st net_route_to(const struct net_addr *peer, struct net_route *out,
                                      struct vb_err *why);

/* --- RDMA devices (net_rdma.c reads, net_verbs.c asks the library) --- */

enum rdma_gid_kind { RDMA_GID_IB, RDMA_GID_V1, RDMA_GID_V2 };
struct rdma_gid {
    unsigned index;
    enum rdma_gid_kind kind;
    unsigned char bytes[16];
    char netdev[NET_NAME_MAX]; /* "": none */
};

struct net_memlock {
    uint64_t limit_bytes; /* UINT64_MAX: none */
    bool ipc_lock;        /* CAP_IPC_LOCK: the limit does not count */
};

/* One port of a device. */
struct rdma_port {
    char device[NET_NAME_MAX];
    unsigned port;
    char netdev[NET_NAME_MAX]; /* "": none found */
    char desc[NET_NAME_MAX];   /* node description */
    char state[16];            /* "ACTIVE", "DOWN"; "": unknown */
    bool ib;                   /* link layer InfiniBand, else Ethernet */
    struct rdma_gid *gid;      /* the entries in use */
    size_t ngids;
    uint64_t bits_s;
    /* asked from the device, 0: unknown */
    uint32_t mtu;     /* active, bytes */
    uint32_t mtu_max; /* bytes */
    uint64_t max_msg_bytes;
    /* "": it can be used. Else a line that says why not; what to do follows after "; " or ", fix: " */
    char why_not[256];
};
struct rdma_ports {
    struct rdma_port *port; /* by device and port */
    size_t n;
};

/* The ports of a sysfs; dev ("/dev") is where infiniband/uverbsN are. Everything but what the library
 * knows; why_not is filled. VB_NOMEM. gives: rdma_ports_free. */
VB_MUST_CHECK enum vb_st rdma_ports_read(const char *sys, const char *dev, struct rdma_ports *out);
/* Those of this host, with what libibverbs says about those that can be used, and room in the
 * locked-memory limit for RDMA_LOCK_MIN. VB_NOMEM. */
VB_MUST_CHECK enum vb_st rdma_ports_host(struct rdma_ports *out);
void rdma_ports_free(struct rdma_ports *p); /* takes zeroed */
/* The port that belongs to a network device, NULL: none. A usable one comes first. */
const struct rdma_port *rdma_port_of(const struct rdma_ports *p, const char *netdev);
/* net_verbs.c: fills what the library knows, and why_not when it cannot open the device. Devices that
 * cannot be used are not opened; without devices the library is not touched. */
void rdma_ports_ask(struct rdma_ports *p);
/* net_choice.c: why_not of the ports for which so much memory cannot be locked. */
void rdma_ports_need(struct rdma_ports *p, const struct net_memlock *m, uint64_t bytes);

/* --- decisions (net_choice.c), pure --- */

/* Position in gid[n] of the GID to use for a local address (NULL: any): on Ethernet a RoCE v2 one
 * made of that very address, or with NULL the first routable one; on InfiniBand the first. -1: none,
 * why says what there is instead. */
int rdma_gid_choose(const struct rdma_gid *gid, size_t n, const struct net_addr *want,
                    struct vb_err *why);
/* The address that a RoCE GID is made of. */
struct net_addr rdma_gid_addr(const struct rdma_gid *g);

/* Path MTU: the verbs enum 1..5 is 256..4096 bytes. 0: no such value. */
uint32_t rdma_mtu_bytes(unsigned mtu_enum);
unsigned rdma_mtu_enum(uint32_t bytes);
const char *rdma_mtu_name(unsigned mtu_enum); /* "4096 B" */
/* What both sides can take, as bytes: the lesser; 0: one of them is no path MTU. */
uint32_t rdma_mtu_both(uint32_t ours, uint32_t theirs);

struct net_memlock net_memlock_read(void);
/* Can so much be locked? Else why is "needs 16 MiB locked, limit 64 KiB, fix: ...". */
bool net_memlock_fits(const struct net_memlock *m, uint64_t need_bytes, struct vb_err *why);

/* --- what UCX is here (net_uct.c) --- */

struct net_ucx {
    char version[32];
    char transports[256]; /* of the devices there are: "tcp, sysv, posix, rc_verbs" */
    bool tcp, rc, rdmacm; /* rdmacm: the module that connects by RDMA */
};
/* false: UCX does not say. Loads its modules. */
bool net_ucx_read(struct net_ucx *out);

/* --- which devices may be used: --net-devices (net_pick.c) --- */

/*
 * A list with commas, of items:
 *   NAME        a network device (eth0, ib0) or an RDMA device (mlx5_0), all its ports
 *   NAME:PORT   one port of an RDMA device (mlx5_0:1)
 *   NET/PREFIX  every device with an address in it (10.1.0.0/16, fd00::/64)
 *   ^ITEM       not this one
 * What an exclusion names is out. If there is an item without ^, only what such an item names is in.
 * No spaces, no empty items. An RDMA device also goes by the name and addresses of its network device.
 */
enum { NET_PICK_MAX = 32 };
struct net_pick_item {
    bool exclude;
    char name[NET_NAME_MAX]; /* "": a net */
    unsigned port;           /* 0: any */
    struct net_addr net;
    unsigned prefix;
};
struct net_pick {
    struct net_pick_item item[NET_PICK_MAX];
    unsigned n; /* 0: everything passes */
};

/* VB_INVAL: why says which item and how an item looks. NULL and "" are the empty list. */
VB_MUST_CHECK enum vb_st net_pick_parse(const char *text, struct net_pick *out, struct vb_err *why);
/* What is named, by name or net, is here, and a device that is up is left. An exclusion may name what
 * only other hosts of the job have. VB_INVAL: why lists what there is. */
VB_MUST_CHECK enum vb_st net_pick_check(const struct net_pick *p, const struct net_devs *devs,
                                        const struct rdma_ports *ports, struct vb_err *why);
/* May this be used? dev: a network device, or NULL for rdma's; rdma: the RDMA port that belongs to dev,
 * NULL: none; addr: the one address to look at, NULL: any of dev's in devs. */
bool net_pick_passes(const struct net_pick *p, const struct net_devs *devs, const char *dev,
                     const struct rdma_port *rdma, const struct net_addr *addr);

#endif
