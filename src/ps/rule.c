#include "ps/rule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Digits, at most PS_STALENESS_MAX; moves past them. */
static bool number(const char **at, uint32_t *out)
{
    const char *begin = *at;

    for (*out = 0; **at >= '0' && **at <= '9' && *out <= PS_STALENESS_MAX; ++*at)
        *out = *out * 10 + (uint32_t)(**at - '0');
    return *at > begin && *out <= PS_STALENESS_MAX;
}

static bool after(const char **at, const char *prefix)
{
    const size_t n = strlen(prefix);

    if (strncmp(*at, prefix, n) != 0)
        return false;
    *at += n;
    return true;
}

static bool read_rule(const char *at, struct ps_rule *r)
{
    *r = (struct ps_rule){ .mode = PS_SYNC };
    if (strcmp(at, "async") == 0) {
        *r = (struct ps_rule){ PS_SSP, PS_UNBOUNDED, PS_UNBOUNDED, 0 };
        return true;
    }
    if (after(&at, "sync")) {
        if (*at == '\0')
            return true;
        r->mode = PS_BACKUP;
        return after(&at, "+") && number(&at, &r->backups) && *at == '\0';
    }
    if (!after(&at, "ssp:") || !number(&at, &r->staleness_lo))
        return false;
    r->mode = PS_SSP;
    r->staleness_hi = r->staleness_lo;
    return *at == '\0' || (after(&at, "-") && number(&at, &r->staleness_hi) && *at == '\0');
}

enum vb_st ps_rule_parse(const char *text, uint64_t nworkers, struct ps_rule *out,
                         struct vb_err *err)
{
    if (!read_rule(text, out)) {
        vb_err_set(
            err,
            "'%.40s' is not a mode; there are sync, sync+B (B backup workers), ssp:S (S steps "
            "of staleness), ssp:L-H and async",
            text);
        return VB_INVAL;
    }
    if (out->mode == PS_SSP && out->staleness_lo > out->staleness_hi) {
        vb_err_set(err, "'%.40s': the lower bound is above the upper one", text);
        return VB_INVAL;
    }
    if (out->backups >= nworkers) {
        vb_err_set(err, "'%.40s': of %" PRIu64 " workers at most %" PRIu64 " can be backups", text,
                   nworkers, nworkers - 1);
        return VB_INVAL;
    }
    if ((out->mode == PS_BACKUP && out->backups == 0) ||
        (out->mode == PS_SSP && out->staleness_hi == 0))
        *out = (struct ps_rule){ .mode = PS_SYNC };
    return VB_OK;
}

const char *ps_rule_text(const struct ps_rule *r, char buf[PS_RULE_TEXT])
{
    if (r->mode == PS_SYNC)
        snprintf(buf, PS_RULE_TEXT, "sync");
    else if (r->mode == PS_BACKUP)
        snprintf(buf, PS_RULE_TEXT, "sync+%" PRIu32, r->backups);
    else if (r->staleness_lo == PS_UNBOUNDED)
        snprintf(buf, PS_RULE_TEXT, "async");
    else if (r->staleness_lo == r->staleness_hi)
        snprintf(buf, PS_RULE_TEXT, "ssp:%" PRIu32, r->staleness_lo);
    else
        snprintf(buf, PS_RULE_TEXT, "ssp:%" PRIu32 "-%" PRIu32, r->staleness_lo, r->staleness_hi);
    return buf;
}
