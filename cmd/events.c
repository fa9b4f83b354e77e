#include "cmd/events.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void events_init(struct events *e, const struct cl_spec *spec, uint32_t rank, bool json, bool live)
{
    *e = (struct events){ .spec = spec, .rank = rank };
    if (!json)
        e->shown = report_create(&(struct report_params){ .columns = live ? 80 : 0 });
}

void events_fini(struct events *e)
{
    if (e->shown != NULL)
        (void)report_finish(e->shown);
    report_free(e->shown);
}

static json_t *num(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* null where there is none: JSON knows neither infinity nor NaN. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *fraction(double x)
{
    return x < 0 ? json_null() : json_real(x);
}

static void add_start(json_t *o, const struct events *e, const struct wk_report *r)
{
    json_object_set_new(o, "ps", num(e->spec->nps));
    json_object_set_new(o, "workers", num(e->spec->nworkers));
    json_object_set_new(o, "params", num(r->params));
    json_object_set_new(o, "train_samples", num(r->train_samples));
    json_object_set_new(o, "test_samples", num(r->test_samples));
}

static void add_progress(json_t *o, const struct wk_report *r)
{
    json_object_set_new(o, "epoch", num(r->epoch));
    json_object_set_new(o, "epochs", num(r->epochs));
    json_object_set_new(o, "step", num(r->step));
    json_object_set_new(o, "steps", num(r->steps));
    json_object_set_new(o, "samples_per_s", real(r->samples_per_s));
    json_object_set_new(o, "loss", real(r->loss));
    json_object_set_new(o, "eta_s", real(r->eta_s));
}

static void add_epoch(json_t *o, const struct wk_report *r)
{
    json_object_set_new(o, "epoch", num(r->epoch));
    json_object_set_new(o, "epochs", num(r->epochs));
    json_object_set_new(o, "loss", real(r->loss));
    json_object_set_new(o, "test_accuracy", fraction(r->test_accuracy));
    json_object_set_new(o, "seconds", json_real(r->seconds));
    json_object_set_new(o, "samples", num(r->samples));
    json_object_set_new(o, "samples_per_s", real(r->samples_per_s));
}

/* null where there is none. */
static json_t *words(const char *s)
{
    return s[0] != '\0' ? json_string(s) : json_null();
}

static void add_info(json_t *o, const struct tp_link_info *i)
{
    json_t *rails = json_array();

    json_object_set_new(o, "way", json_string(tp_way_name(i->way)));
    json_object_set_new(o, "device", words(i->device));
    json_object_set_new(o, "local", words(i->local));
    json_object_set_new(o, "remote", words(i->remote));
    json_object_set_new(o, "gid", words(i->gid));
    json_object_set_new(o, "mtu", i->mtu != 0 ? num(i->mtu) : json_null());
    json_object_set_new(o, "protocol", words(i->protocol));
    for (unsigned k = 0; k < i->nrails; k++)
        json_array_append_new(rails, json_pack("{s:s,s:I}", "name", i->rail[k].name, "sent_bytes",
                                               (json_int_t)i->rail[k].sent_bytes));
    json_object_set_new(o, "rails", rails);
    json_object_set_new(o, "why", words(i->why));
}

static void add_link(json_t *o, const struct events *e, const struct wk_report *r)
{
    char name[CL_NAME_MAX];

    json_object_set_new(o, "task", json_string(cl_name(e->spec, e->rank, name)));
    json_object_set_new(o, "peer", json_string(r->peer));
    add_info(o, r->link);
    json_object_set_new(o, "sent_bytes", num(r->sent_bytes));
    json_object_set_new(o, "received_bytes", num(r->received_bytes));
}

static void add_loss(json_t *o, const struct events *e, const struct wk_report *r)
{
    char name[CL_NAME_MAX];

    json_object_set_new(o, "task", json_string(cl_name(e->spec, e->rank, name)));
    json_object_set_new(o, "step", num(r->step));
    json_object_set_new(o, "samples", num(r->samples));
    json_object_set_new(o, "loss", real(r->loss));
    json_object_set_new(o, "seconds", real(r->seconds));
}

static json_t *histogram(const uint64_t *count)
{
    json_t *a = json_array();
    unsigned n = PS_STALENESS_BUCKETS;

    while (n > 1 && count[n - 1] == 0)
        n--;
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(a, num(count[i]));
    return a;
}

static void add_staleness(json_t *o, const struct wk_report *r)
{
    uint64_t sum[PS_STALENESS_BUCKETS] = { 0 };
    json_t *classes = json_array();
    char mode[PS_RULE_TEXT];

    for (uint32_t k = 0; k < r->nclasses; k++) {
        for (unsigned i = 0; i < PS_STALENESS_BUCKETS; i++)
            sum[i] += r->staleness[k][i];
        json_array_append_new(classes, json_pack("{s:s,s:s,s:o}", "class", r->cls[k].name, "mode",
                                                 ps_rule_text(&r->cls[k].rule, mode), "staleness",
                                                 histogram(r->staleness[k])));
    }
    json_object_set_new(o, "staleness", histogram(sum));
    json_object_set_new(o, "classes", classes);
}

static void add_waits(json_t *o, const struct events *e, const struct wk_report *r)
{
    json_t *waited = json_array();
    char name[CL_NAME_MAX];

    for (uint32_t w = 0; w < r->nworkers; w++)
        json_array_append_new(waited, json_real((double)r->waited_ns[w] * 1e-9));
    json_object_set_new(o, "task", json_string(cl_name(e->spec, e->rank, name)));
    add_staleness(o, r);
    json_object_set_new(o, "waited_s", waited);
}

static void add_done(json_t *o, const struct wk_report *r)
{
    char crc[9];

    snprintf(crc, sizeof(crc), "%08x", r->params_crc32c);
    json_object_set_new(o, "steps", num(r->steps));
    json_object_set_new(o, "samples", num(r->samples));
    json_object_set_new(o, "seconds", json_real(r->seconds));
    json_object_set_new(o, "samples_per_s", real(r->samples_per_s));
    json_object_set_new(o, "test_accuracy", fraction(r->test_accuracy));
    json_object_set_new(o, "best_test_accuracy", fraction(r->best_test_accuracy));
    json_object_set_new(o, "params_crc32c", json_string(crc));
    json_object_set_new(o, "pushed_bytes", num(r->pushed_bytes));
    json_object_set_new(o, "push_ratio", real(r->push_ratio));
    json_object_set_new(o, "pull_ratio", real(r->pull_ratio));
    json_object_set_new(o, "pulled_bytes", num(r->pulled_bytes));
}

void events_write(struct events *e, const struct wk_report *r)
{
    static const char *const name[] = {
        [WK_START] = "start", [WK_PROGRESS] = "progress", [WK_EPOCH] = "epoch", [WK_LOSS] = "loss",
        [WK_LINK] = "link",   [WK_WAITS] = "waits",       [WK_DONE] = "done"
    };
    json_t *o = json_object();
    char *line;

    json_object_set_new(o, "event", json_string(name[r->event]));
    if (r->event == WK_START)
        add_start(o, e, r);
    else if (r->event == WK_PROGRESS)
        add_progress(o, r);
    else if (r->event == WK_EPOCH)
        add_epoch(o, r);
    else if (r->event == WK_LOSS)
        add_loss(o, e, r);
    else if (r->event == WK_LINK)
        add_link(o, e, r);
    else if (r->event == WK_WAITS)
        add_waits(o, e, r);
    else
        add_done(o, r);
    line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(o);
    if (line == NULL)
        return;
    if (e->shown != NULL) {
        report_line(e->shown, "", false, line, strlen(line));
    } else {
        puts(line);
        fflush(stdout);
    }
    free(line);
}
