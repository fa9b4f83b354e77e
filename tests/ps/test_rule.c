#include "ps/rule.h"

#include <criterion/criterion.h>
#include <string.h>

Test(rule, what_is_written_is_what_is_said)
{
    static const struct {
        const char *text, *said;
        struct ps_rule rule;
    } cases[] = {
        { "sync", "sync", { PS_SYNC, 0, 0, 0 } },
        { "sync+0", "sync", { PS_SYNC, 0, 0, 0 } },
        { "sync+1", "sync+1", { PS_BACKUP, 0, 0, 1 } },
        { "sync+3", "sync+3", { PS_BACKUP, 0, 0, 3 } },
        { "ssp:0", "sync", { PS_SYNC, 0, 0, 0 } },
        { "ssp:3", "ssp:3", { PS_SSP, 3, 3, 0 } },
        { "ssp:0-8", "ssp:0-8", { PS_SSP, 0, 8, 0 } },
        { "ssp:1000000", "ssp:1000000", { PS_SSP, 1000000, 1000000, 0 } },
        { "async", "async", { PS_SSP, PS_UNBOUNDED, PS_UNBOUNDED, 0 } },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct ps_rule r;
        struct vb_err err;
        char text[PS_RULE_TEXT];

        cr_assert_eq(ps_rule_parse(cases[i].text, 4, &r, &err), VB_OK, "%s", cases[i].text);
        cr_assert_eq(memcmp(&r, &cases[i].rule, sizeof(r)), 0, "%s", cases[i].text);
        cr_assert_str_eq(ps_rule_text(&r, text), cases[i].said);
    }
}

Test(rule, anything_else_is_refused_in_one_line)
{
    static const char *const bad[] = {
        "",       "Sync",   "sync+",     "sync-1",  "sync+x",         "sync+4",
        "ssp",    "ssp:",   "ssp:-1",    "ssp:3-",  "ssp:3-1",        "ssp:1-2-3",
        "ssp: 3", "async ", "asynchron", "ssp:3.5", "ssp:99999999999"
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(bad); i++) {
        struct ps_rule r;
        struct vb_err err = { "" };

        cr_assert_eq(ps_rule_parse(bad[i], 4, &r, &err), VB_INVAL, "%s", bad[i]);
        cr_assert(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
}
