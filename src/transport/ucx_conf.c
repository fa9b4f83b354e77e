#include "transport/ucx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucs/debug/log_def.h>

#define LOG_MOD "ucx"
#include "base/log.h"

/* What verbena would have of UCX's TCP. A user's own setting in the environment wins. */
static const struct tcp_setting {
    const char *name, *value;
} tcp_settings[] = {
    /* a peer that is gone without a word is found in seconds when nothing is on its way */
    { "KEEPIDLE", "1s" },
    { "KEEPINTVL", "1s" },
    { "KEEPCNT", "3" },
    /* eager payloads in one piece; a larger RX_SEG_SIZE halves the speed of rendezvous */
    { "TX_SEG_SIZE", "64k" },
};

/* UCX listens for data on one address of a device: of the family that the links use. */
static const struct tcp_setting tcp_ipv6 = { "AF_PRIO", "inet6,inet" };

/* What UCX says about its probing and about lost peers is said by verbena in its own words. */
static ucs_log_func_rc_t quiet(const char *file, unsigned line, const char *function,
                               ucs_log_level_t level, const ucs_log_component_config_t *conf,
                               const char *message, va_list ap)
{
    char text[256];

    if (level == UCS_LOG_LEVEL_FATAL)
        return UCS_LOG_FUNC_RC_CONTINUE;
    if (vb_log_max >= VB_LOG_DEBUG) {
        vsnprintf(text, sizeof(text), message, ap);
        log_debug("%s", text);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

static void hush(void)
{
    if (getenv("UCX_LOG_LEVEL") == NULL)
        ucs_log_push_handler(quiet);
}

static enum vb_st failed(const char *what, ucs_status_t s)
{
    log_error("%s: %s", what, ucs_status_string(s));
    return s == UCS_ERR_NO_MEMORY ? VB_NOMEM : VB_NOFABRIC;
}

static void set(ucp_config_t *config, const char *name, const char *value)
{
    const ucs_status_t s = ucp_config_modify(config, name, value);

    if (s != UCS_OK)
        log_warn("ucx does not take %s %s: %s", name, value, ucs_status_string(s));
}

/* UCX 1.13 knows the setting by its bare name in code, newer ones as in the environment; either ignores
 * the other's. */
static void set_tcp(ucp_config_t *config, const struct tcp_setting *t)
{
    char env[48];

    snprintf(env, sizeof(env), "UCX_TCP_%s", t->name);
    if (getenv(env) != NULL)
        return;
    set(config, t->name, t->value);
    set(config, env + strlen("UCX_"), t->value);
}

static ucs_status_t context_open(struct ucx_node *un, bool ipv6)
{
    const ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                             .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP };
    ucp_config_t *config;
    ucs_status_t s = ucp_config_read(NULL, NULL, &config);

    if (s != UCS_OK)
        return s;
    /* not the user's to change: a link is what it says it is */
    set(config, "TLS", un->way == TP_RDMA ? "rc" : "tcp");
    set(config, "SOCKADDR_TLS_PRIORITY", un->way == TP_RDMA ? "rdmacm" : "tcp");
    /* nor is the device: data goes by the one of the address that the peer was told, while others, such
     * as a bridge that every host has, may lead nowhere */
    set(config, "CM_USE_ALL_DEVICES", "n");
    for (size_t i = 0; un->way == TP_TCP && i < VB_ARRAY_LEN(tcp_settings); i++)
        set_tcp(config, &tcp_settings[i]);
    /* what is in a socket's buffer is overtaken by nothing, so it is a part of the credit */
    if (un->way == TP_TCP && un->node->credit_given) {
        char bytes[24];

        snprintf(bytes, sizeof(bytes), "%" PRIu64, un->node->credit_bytes);
        set_tcp(config, &(struct tcp_setting){ "SNDBUF", bytes });
    }
    /* TCP registers nothing; newer UCX (1.18) has a cache for it all the same, whose watch over the
     * process's memory now and then never comes up. 1.13 does not know the setting. */
    if (un->way == TP_TCP)
        (void)ucp_config_modify(config, "RCACHE_ENABLE", "n");
    if (un->way == TP_TCP && ipv6)
        set_tcp(config, &tcp_ipv6);
    s = ucp_init(&p, config, &un->ctx);
    ucp_config_release(config);
    return s;
}

static ucs_status_t handlers_set(struct ucx_node *un)
{
    static const struct {
        unsigned id;
        ucp_am_recv_callback_t cb;
    } handlers[] = { { UCX_AM_TOKEN, ucx_on_token },
                     { UCX_AM_MSG, ucx_on_msg },
                     { UCX_AM_CREDIT, ucx_on_credit },
                     { UCX_AM_BYE, ucx_on_bye },
                     { UCX_AM_CHOKE, ucx_on_choke } };
    ucs_status_t s = UCS_OK;

    for (size_t i = 0; i < VB_ARRAY_LEN(handlers) && s == UCS_OK; i++) {
        const ucp_am_handler_param_t h = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = handlers[i].id,
            .cb = handlers[i].cb,
            .arg = un,
        };
        s = ucp_worker_set_am_recv_handler(un->worker, &h);
    }
    return s;
}

static ucs_status_t regions_map(struct ucx_node *un)
{
    ucs_status_t s = UCS_OK;

    for (unsigned i = 0; i < un->node->nregions && s == UCS_OK; i++) {
        const ucp_mem_map_params_t m = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = un->node->region[i].base,
                                         .length = un->node->region[i].bytes };
        s = ucp_mem_map(un->ctx, &m, &un->mem[i]);
    }
    return s;
}

enum vb_st ucx_open(struct ucx_node *un, bool ipv6)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const ucp_worker_params_t w = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                    .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    int before[UCX_DOORS_MAX];
    unsigned nbefore;

    pthread_once(&once, hush);
    for (unsigned i = 0; i < UCX_POSTS; i++) {
        un->post[i] = (struct ucx_post){ .un = un, .next = un->posts };
        un->posts = &un->post[i];
    }
    ucs_status_t s = context_open(un, ipv6);
    if (s != UCS_OK)
        return failed("ucx finds no network it can use (is /sys mounted?)", s);
    s = regions_map(un);
    if (s != UCS_OK)
        return failed("ucx cannot register a region", s);
    nbefore = un->way == TP_TCP ? ucx_door_fds(before) : 0;
    s = ucp_worker_create(un->ctx, &w, &un->worker);
    if (s != UCS_OK)
        return failed("no ucx worker", s);
    if (un->way == TP_TCP) {
        ucx_door_add(un, before, nbefore);
        un->ndata = un->ndoors;
        ucx_door_set(un);
    }
    s = ucp_worker_get_efd(un->worker, &un->ucx_fd);
    if (s == UCS_OK)
        s = handlers_set(un);
    if (s != UCS_OK)
        return failed("no ucx worker", s);
    if (epoll_ctl(un->gate_fd, EPOLL_CTL_ADD, un->ucx_fd, &(struct epoll_event){ 0 }) != 0) {
        log_error("cannot watch the ucx worker: %m");
        return VB_NOMEM;
    }
    return VB_OK;
}

void ucx_close(struct ucx_node *un)
{
    ucx_listeners_close(un);
    if (un->worker != NULL)
        ucp_worker_destroy(un->worker);
    for (unsigned i = 0; i < TP_REGIONS_MAX; i++)
        if (un->mem[i] != NULL)
            ucp_mem_unmap(un->ctx, un->mem[i]);
    if (un->ctx != NULL)
        ucp_cleanup(un->ctx);
}
