#include "alloc.h"
#include "transport/net_dev.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define PORT "class/infiniband/rxe0/ports/1/"

/* The files of one device; the input, cut at zeros, is their text. */
static const char *const files[] = {
    "class/net/eth0/flags",
    "class/net/eth0/operstate",
    "class/net/eth0/mtu",
    "class/net/eth0/speed",
    "class/infiniband/rxe0/node_desc",
    "class/infiniband/rxe0/parent",
    PORT "state",
    PORT "rate",
    PORT "link_layer",
    PORT "gids/0",
    PORT "gid_attrs/types/0",
    PORT "gid_attrs/ndevs/0",
    "class/infiniband_verbs/uverbs0/ibdev",
};

static void put(const char *root, const char *path, const uint8_t *text, size_t bytes)
{
    char full[256];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (f == NULL || fwrite(text, 1, bytes, f) != bytes || fclose(f) != 0)
        abort();
}

static char root[64];

static void root_drop(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -r %s", root);
    if (system(command) != 0)
        abort();
}

static void root_make(void)
{
    if (root[0] != '\0')
        return;
    snprintf(root, sizeof(root), "/dev/shm/vb-netdev-XXXXXX");
    if (mkdtemp(root) == NULL || atexit(root_drop) != 0)
        abort();
}

static void tree_read(const uint8_t *data, size_t bytes)
{
    struct rdma_ports ports;
    struct net_devs devs;

    root_make();
    for (size_t i = 0, at = 0; i < VB_ARRAY_LEN(files); i++) {
        const uint8_t *end = at < bytes ? memchr(data + at, '\0', bytes - at) : NULL;
        const size_t n = end != NULL ? (size_t)(end - (data + at)) : bytes - at;

        put(root, files[i], data + at, n);
        at = VB_MIN(bytes, at + n + 1);
    }
    alloc_fails_by(data, bytes);

    const enum vb_st st = net_devs_read(root, NULL, 0, &devs);
    const enum vb_st ports_st = rdma_ports_read(root, root, &ports);

    if (alloc_has_failed() ? st == VB_OK && ports_st == VB_OK
                           : st != VB_OK || devs.n != 1 || ports_st != VB_OK || ports.n != 1)
        abort();
    if (st != VB_OK || ports_st != VB_OK) {
        if (st == VB_OK)
            net_devs_free(&devs);
        if (ports_st == VB_OK)
            rdma_ports_free(&ports);
        return;
    }
    /* no file in /dev: it cannot be used, whatever the others say */
    if (ports.port[0].why_not[0] == '\0' || ports.port[0].ngids > 1)
        abort();
    for (const char *c = ports.port[0].why_not; *c != '\0'; c++)
        if (*c < ' ' || *c > 126)
            abort();
    net_devs_free(&devs);
    rdma_ports_free(&ports);
}

/* What parses has an item for each comma and may be asked about anything. */
static void list_parse(const char *text)
{
    struct net_if_addr own = { .dev = "eth0", .prefix = 24 };
    struct net_dev dev = { .name = "eth0", .up = true };
    struct rdma_port port = { .device = "mlx5_0", .port = 1, .netdev = "eth0" };
    const struct net_devs devs = { &dev, 1, &own, 1, false };
    const struct rdma_ports ports = { &port, 1 };
    struct net_pick p;
    struct vb_err why = { "" };
    unsigned commas = 0;

    if (!net_addr_parse("10.1.0.5", &own.addr))
        abort();
    if (net_pick_parse(text, &p, &why) != VB_OK) {
        if (why.text[0] == '\0')
            abort();
        return;
    }
    for (const char *c = text; *c != '\0'; c++)
        commas += *c == ',';
    if (p.n != (text[0] == '\0' ? 0 : commas + 1))
        abort();
    const bool passes = net_pick_passes(&p, &devs, "eth0", &port, NULL);
    if (net_pick_check(&p, &devs, &ports, &why) == VB_OK && !passes)
        abort(); /* the only device that is up */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[512];

    if (bytes == 0)
        return 0;
    if (data[0] == '/') {
        tree_read(data + 1, bytes - 1);
        return 0;
    }
    const size_t n = VB_MIN(bytes, sizeof(text) - 1);
    memcpy(text, data, n);
    text[n] = '\0';
    list_parse(text);
    return 0;
}
