#include "transport/net_dev.h"

#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <uct/api/uct.h>

/* What UCX says about devices that it cannot open is not asked for. */
static ucs_log_func_rc_t quiet(const char *file, unsigned line, const char *function,
                               ucs_log_level_t level, const ucs_log_component_config_t *conf,
                               const char *message, va_list ap)
{
    return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

static void name_add(struct net_ucx *out, const char *name)
{
    const size_t len = strlen(name), used = strlen(out->transports);

    for (const char *at = strstr(out->transports, name); at != NULL; at = strstr(at + 1, name))
        if ((at == out->transports || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0'))
            return;
    snprintf(out->transports + used, sizeof(out->transports) - used, "%s%s", used > 0 ? ", " : "",
             name);
    out->tcp |= strcmp(name, "tcp") == 0;
    out->rc |= strncmp(name, "rc_", 3) == 0;
}

static void md_read(uct_component_h c, const char *name, struct net_ucx *out)
{
    uct_tl_resource_desc_t *tl = NULL;
    uct_md_config_t *config;
    unsigned n = 0;
    uct_md_h md;

    if (uct_md_config_read(c, NULL, NULL, &config) != UCS_OK)
        return;
    if (uct_md_open(c, name, config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &tl, &n) == UCS_OK) {
            for (unsigned i = 0; i < n; i++)
                name_add(out, tl[i].tl_name);
            uct_release_tl_resource_list(tl);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
}

static void component_read(uct_component_h c, struct net_ucx *out)
{
    uct_component_attr_t attr = { .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                                                UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT };

    if (uct_component_query(c, &attr) != UCS_OK)
        return;
    out->rdmacm |= strcmp(attr.name, "rdmacm") == 0;
    AUTO_FREE uct_md_resource_desc_t *md = calloc(attr.md_resource_count + 1, sizeof(*md));
    if (md == NULL)
        return;
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = md;
    if (uct_component_query(c, &attr) != UCS_OK)
        return;
    for (unsigned i = 0; i < attr.md_resource_count; i++)
        md_read(c, md[i].md_name, out);
}

bool net_ucx_read(struct net_ucx *out)
{
    uct_component_h *list;
    unsigned n;

    *out = (struct net_ucx){ 0 };
    snprintf(out->version, sizeof(out->version), "%s", ucp_get_version_string());
    ucs_log_push_handler(quiet);
    const bool ok = uct_query_components(&list, &n) == UCS_OK;
    for (unsigned i = 0; ok && i < n; i++)
        component_read(list[i], out);
    if (ok)
        uct_release_component_list(list);
    ucs_log_pop_handler();
    return ok;
}
