#include "cmd/report_waits.h"

#include "base/util.h"
#include "ps/engine.h"

#include <stdio.h>
#include <string.h>

enum { STALENESS_LAST = PS_STALENESS_BUCKETS - 1 };
enum { PAIRS_MAX = 4 }; /* of those who waited and were waited for */
#define SHOWN_S 0.05

/* Of one class, over all workers. */
static size_t add_up(const json_t *waits, size_t cls, double sum[PS_STALENESS_BUCKETS])
{
    size_t n = 0, i, s;
    json_t *e, *v;

    json_array_foreach(waits, i, e)
    {
        const json_t *c = json_array_get(json_object_get(e, "classes"), cls);

        json_array_foreach(json_object_get(c, "staleness"), s, v)
        {
            if (s < PS_STALENESS_BUCKETS)
                sum[s] += json_number_value(v);
            n = VB_MAX(n, s + 1);
        }
    }
    return VB_MIN(n, (size_t)PS_STALENESS_BUCKETS);
}

static void show_staleness(const json_t *waits, size_t cls, const char *name)
{
    double sum[PS_STALENESS_BUCKETS] = { 0 }, all = 0;
    const size_t n = add_up(waits, cls, sum);

    for (size_t s = 0; s < n; s++)
        all += sum[s];
    if (n < 2 || all == 0)
        return; /* never behind */
    printf("steps behind when read%s%s:", name[0] != '\0' ? ", " : "", name);
    for (size_t s = 0; s < n; s++) {
        const double part = sum[s] / all;

        if (part >= 0.0005)
            printf(" %zu%s %.1f %%%s", s, s == STALENESS_LAST ? " and more" : "", 100 * part,
                   s + 1 < n ? "," : "");
    }
    putchar('\n');
}

static bool is_task(const char *name, size_t index)
{
    const char *colon = name != NULL ? strrchr(name, ':') : NULL;

    return colon != NULL && strtoull(colon + 1, NULL, 10) == index;
}

/* The longest wait of all that is below `below`. */
static double next_pair(const json_t *waits, double below, size_t *who, size_t *whom)
{
    double best = 0;
    size_t i, k;
    json_t *e, *s;

    json_array_foreach(waits, i, e)
    {
        json_array_foreach(json_object_get(e, "waited_s"), k, s)
        {
            const double v = json_number_value(s);

            if (v > best && v < below) {
                best = v;
                *who = i;
                *whom = k;
            }
        }
    }
    return best;
}

static void show_waits(const json_t *waits)
{
    size_t who = 0, whom = 0;
    double s = next_pair(waits, 1e300, &who, &whom);

    if (s < SHOWN_S)
        return;
    printf("waits:");
    for (unsigned n = 0; n < PAIRS_MAX && s >= SHOWN_S; n++) {
        const char *name = json_string_value(json_object_get(json_array_get(waits, who), "task"));

        printf("%s %s %.1f s for ", n == 0 ? "" : ",", name != NULL ? name : "?", s);
        if (is_task(name, whom))
            printf("its own answers"); /* the way to the ps and back */
        else
            printf("worker %zu", whom);
        s = next_pair(waits, s, &who, &whom);
    }
    putchar('\n');
}

void report_waits(const json_t *waits)
{
    const json_t *classes = json_object_get(json_array_get(waits, 0), "classes");
    const size_t n = json_array_size(classes);

    for (size_t k = 0; k < n; k++) {
        const char *name = json_string_value(json_object_get(json_array_get(classes, k), "class"));

        show_staleness(waits, k, n > 1 && name != NULL ? name : "");
    }
    show_waits(waits);
}
