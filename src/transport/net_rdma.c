#include "transport/net_dev.h"

#include "transport/net_sysfs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PORT_DIR "class/infiniband/%s/ports/%u/"

/* "fe80:0000:...:0001", always eight groups of four digits; false: not one, or all zero */
static bool gid_parse(const char *text, unsigned char *bytes)
{
    unsigned any = 0;

    for (unsigned group = 0; group < 8; group++, text += 5) {
        unsigned value = 0;

        for (unsigned i = 0; i < 4; i++) {
            const char *digits = "0123456789abcdef", *at = strchr(digits, text[i]);

            if (text[i] == '\0' || at == NULL)
                return false;
            value = value * 16 + (unsigned)(at - digits);
        }
        if (text[4] != (group < 7 ? ':' : '\0'))
            return false;
        bytes[2 * group] = (unsigned char)(value >> 8);
        bytes[2 * group + 1] = (unsigned char)value;
        any |= value;
    }
    return any != 0;
}

/* false: the entry is not in use */
static bool gid_read(const char *sys, const struct rdma_port *p, unsigned index, struct rdma_gid *g)
{
    char text[64];

    *g = (struct rdma_gid){ .index = index };
    if (!sysfs_text(text, sizeof(text), sys, PORT_DIR "gids/%u", p->device, p->port, index) ||
        !gid_parse(text, g->bytes))
        return false;
    sysfs_text(text, sizeof(text), sys, PORT_DIR "gid_attrs/types/%u", p->device, p->port, index);
    g->kind = p->ib ? RDMA_GID_IB : strcmp(text, "RoCE v2") == 0 ? RDMA_GID_V2 : RDMA_GID_V1;
    sysfs_text(g->netdev, sizeof(g->netdev), sys, PORT_DIR "gid_attrs/ndevs/%u", p->device, p->port,
               index);
    return true;
}

static bool gids_read(const char *sys, struct rdma_port *p)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    size_t n;

    if (!sysfs_list(&name, &n, RDMA_GIDS_MAX, sys, PORT_DIR "gids", p->device, p->port))
        return false;
    p->gid = calloc(n + 1, sizeof(*p->gid));
    if (p->gid == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const unsigned index = (unsigned)strtoul(name[i].text, NULL, 10);

        if (gid_read(sys, p, index, &p->gid[p->ngids]))
            p->ngids++;
    }
    return true;
}

/* By its GIDs; a software device says its parent; a card's devices are beside it. */
static bool netdev_find(const char *sys, struct rdma_port *p)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    size_t n;

    for (size_t i = 0; i < p->ngids && p->netdev[0] == '\0'; i++)
        memcpy(p->netdev, p->gid[i].netdev, sizeof(p->netdev));
    if (p->netdev[0] != '\0' ||
        sysfs_text(p->netdev, sizeof(p->netdev), sys, "class/infiniband/%s/parent", p->device))
        return true;
    if (!sysfs_list(&name, &n, NET_DEVS_MAX, sys, "class/infiniband/%s/device/net", p->device))
        return false;
    for (size_t i = 0; i < n && p->netdev[0] == '\0'; i++)
        if (sysfs_number(sys, "class/net/%s/dev_port", name[i].text) + 1 == p->port)
            snprintf(p->netdev, sizeof(p->netdev), "%s", name[i].text);
    return true;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t rate_parse(const char *text)
{
    unsigned whole = 0, tenth = 0;

    if (sscanf(text, "%5u.%1u Gb/sec", &whole, &tenth) < 1)
        return 0;
    return (uint64_t)whole * 1000000000 + tenth * UINT64_C(100000000);
}

/* The name of the device's file in /dev/infiniband; false: none. */
static bool uverbs_find(const char *sys, const char *device, char *out, size_t bytes, bool *none)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    char text[NET_NAME_MAX];
    size_t n;

    *none = true;
    if (!sysfs_list(&name, &n, NET_DEVS_MAX, sys, "class/infiniband_verbs"))
        return false;
    for (size_t i = 0; i < n && *none; i++) {
        sysfs_text(text, sizeof(text), sys, "class/infiniband_verbs/%s/ibdev", name[i].text);
        if (strcmp(text, device) == 0) {
            snprintf(out, bytes, "%s", name[i].text);
            *none = false;
        }
    }
    return true;
}

#define WHY(...) (void)snprintf(p->why_not, sizeof(p->why_not), __VA_ARGS__)

static bool can_open(struct rdma_port *p, const char *dev, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/infiniband/%s", dev, name);
    if (access(path, R_OK | W_OK) == 0)
        return true;
    if (errno == ENOENT)
        WHY("%.100s is missing; in a container give it the devices (--device /dev/infiniband), "
            "else "
            "modprobe ib_uverbs rdma_ucm",
            path);
    else if (errno == EACCES || errno == EPERM)
        WHY("%.100s: permission denied; let this user read and write it (its group, or mode 0666)",
            path);
    else
        WHY("%.100s: %s", path, strerror(errno));
    return false;
}

static void state_explain(struct rdma_port *p)
{
    if (p->ib && strcmp(p->state, "INIT") == 0)
        WHY("port is INIT, no subnet manager has set it up; start opensm or look at the switch");
    else if (p->netdev[0] != '\0')
        WHY("port is %s; ip link set %s up, then look at the cable and the switch",
            strcmp(p->state, "DOWN") == 0 ? "down" : p->state, p->netdev);
    else
        WHY("port is %s; look at the cable and the switch",
            strcmp(p->state, "DOWN") == 0 ? "down" : p->state);
}

/* false: no memory */
static bool explain(const char *sys, const char *dev, struct rdma_port *p)
{
    char uverbs[NET_NAME_MAX];
    struct vb_err err;
    bool none;

    if (!uverbs_find(sys, p->device, uverbs, sizeof(uverbs), &none))
        return false;
    if (strcmp(p->state, "ACTIVE") != 0) {
        state_explain(p);
    } else if (none) {
        WHY("the kernel offers it to no program; modprobe ib_uverbs");
    } else if (can_open(p, dev, uverbs) && can_open(p, dev, "rdma_cm")) {
        if (p->netdev[0] != '\0' && !sysfs_has(sys, "class/net/%s", p->netdev))
            WHY("its network device %s is in another network namespace; give it to this one",
                p->netdev);
        else if (rdma_gid_choose(p->gid, p->ngids, NULL, &err) < 0)
            WHY("%.160s%s%s", err.text, p->netdev[0] != '\0' ? "; give an IP address to " : "",
                p->netdev);
    }
    return true;
}

/* false: no memory */
static bool port_read(const char *sys, const char *dev, struct rdma_port *p)
{
    char text[64];

    sysfs_text(p->desc, sizeof(p->desc), sys, "class/infiniband/%s/node_desc", p->device);
    sysfs_text(text, sizeof(text), sys, PORT_DIR "link_layer", p->device, p->port);
    p->ib = strcmp(text, "InfiniBand") == 0;
    sysfs_text(text, sizeof(text), sys, PORT_DIR "rate", p->device, p->port);
    p->bits_s = rate_parse(text);
    sysfs_text(text, sizeof(text), sys, PORT_DIR "state", p->device, p->port); /* "4: ACTIVE" */
    const char *word = strchr(text, ' ');
    snprintf(p->state, sizeof(p->state), "%s", word != NULL ? word + 1 : "unknown");
    return gids_read(sys, p) && netdev_find(sys, p) && explain(sys, dev, p);
}

/* Adds the ports of a device. false: no memory */
static bool device_read(const char *sys, const char *dev, const char *device,
                        struct rdma_ports *out)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    size_t n;

    if (!sysfs_list(&name, &n, 255, sys, "class/infiniband/%s/ports", device))
        return false;
    if (n == 0)
        return true;
    struct rdma_port *more = realloc(out->port, (out->n + n) * sizeof(*more));
    if (more == NULL)
        return false;
    out->port = more;
    for (size_t i = 0; i < n; i++) {
        struct rdma_port *p = &out->port[out->n];
        const unsigned long port = strtoul(name[i].text, NULL, 10);

        if (port == 0 || port > 255)
            continue;
        *p = (struct rdma_port){ .port = (unsigned)port };
        snprintf(p->device, sizeof(p->device), "%s", device);
        out->n++;
        if (!port_read(sys, dev, p))
            return false;
    }
    return true;
}

enum vb_st rdma_ports_read(const char *sys, const char *dev, struct rdma_ports *out)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    size_t n;

    *out = (struct rdma_ports){ 0 };
    if (!sysfs_list(&name, &n, NET_DEVS_MAX, sys, "class/infiniband"))
        return VB_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!device_read(sys, dev, name[i].text, out)) {
            rdma_ports_free(out);
            return VB_NOMEM;
        }
    return VB_OK;
}

enum vb_st rdma_ports_host(struct rdma_ports *out)
{
    const struct net_memlock m = net_memlock_read();
    const enum vb_st st = rdma_ports_read("/sys", "/dev", out);

    if (st == VB_OK) {
        rdma_ports_need(out, &m, RDMA_LOCK_MIN);
        rdma_ports_ask(out);
    }
    return st;
}

void rdma_ports_free(struct rdma_ports *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->port[i].gid);
    free(p->port);
    *p = (struct rdma_ports){ 0 };
}

const struct rdma_port *rdma_port_of(const struct rdma_ports *p, const char *netdev)
{
    const struct rdma_port *found = NULL;

    for (size_t i = 0; i < p->n; i++) {
        const struct rdma_port *at = &p->port[i];

        if (strcmp(at->netdev, netdev) == 0 && at->netdev[0] != '\0' &&
            (found == NULL || (found->why_not[0] != '\0' && at->why_not[0] == '\0')))
            found = at;
    }
    return found;
}
