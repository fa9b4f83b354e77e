#include "perf/bench.h"

#include "base/clock.h"
#include "perf/commit.h"
#include "perf/plot.h"

#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double bench_now_s(void)
{
    return (double)vb_now_ns() * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), by_value);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double bench_spread(double *x, size_t n)
{
    const double mid = bench_median(x, n);

    return (x[n - 1 - n / 4] - x[n / 4]) / mid;
}

/* The processor's name as the kernel gives it. */
static void cpu_name(char *buf, size_t bytes)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    snprintf(buf, bytes, "unknown processor");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(buf, bytes, "%s", colon + 2);
        break;
    }
    if (f != NULL)
        fclose(f);
}

void bench_head(const struct bench_out *o, int argc, char **argv)
{
    char cpu[128], command[512] = "verbena";

    cpu_name(cpu, sizeof(cpu));
    for (int i = 0; i < argc; i++) {
        strncat(command, " ", sizeof(command) - strlen(command) - 1);
        strncat(command, argv[i], sizeof(command) - strlen(command) - 1);
    }
    if (!o->json) {
        printf("%s, %u cores, commit %s: %s\n", cpu, bench_cpus(), VERBENA_COMMIT, command);
        return;
    }
    json_t *j = json_pack("{s:s, s:i, s:s, s:s}", "machine", cpu, "cores", (int)bench_cpus(),
                          "commit", VERBENA_COMMIT, "command", command);
    char *text = json_dumps(j, JSON_COMPACT);

    puts(text != NULL ? text : "{}");
    free(text);
    json_decref(j);
}

static void print_number(const char *key, double x)
{
    if (x < 0)
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %.6g", key, x);
}

static double ratio_of(const struct bench_row *r)
{
    return r->baseline > 0 ? r->value / r->baseline : -1;
}

static const char *verdict(const struct bench_row *r)
{
    const double x = r->goal_of_value ? r->value : ratio_of(r);

    if (r->goal < 0 || x < 0 || r->noisy)
        return "null";
    return (r->more_is_better ? x >= r->goal : x <= r->goal) ? "true" : "false";
}

static void print_json(const struct bench_row *r)
{
    printf("{\"bench\": \"%s\", \"case\": {%s}", r->bench, r->cases);
    print_number("value", r->value);
    printf(", \"unit\": \"%s\"", r->unit);
    print_number("baseline", r->baseline);
    print_number("ratio", ratio_of(r));
    print_number("goal", r->goal);
    if (r->first >= 0)
        print_number("first", r->first);
    printf(", \"ok\": %s, \"noisy\": %s}\n", verdict(r), r->noisy ? "true" : "false");
}

void bench_print(const struct bench_out *o, const struct bench_row *r)
{
    const char *v = verdict(r);

    if (o->json) {
        print_json(r);
    } else {
        printf("%-28s %12.6g %-4s", r->label, r->value, r->unit);
        if (r->baseline > 0)
            printf("  baseline %10.6g  ratio %6.3f", r->baseline, ratio_of(r));
        if (r->goal >= 0)
            printf("  goal %s %g%s%s: %s", r->more_is_better ? ">=" : "<=", r->goal,
                   r->goal_of_value ? " " : "", r->goal_of_value ? r->unit : "",
                   r->noisy                  ? "noisy, no verdict"
                   : strcmp(v, "true") == 0  ? "met"
                   : strcmp(v, "false") == 0 ? "missed"
                                             : "unknown");
        putchar('\n');
    }
    fflush(stdout);
    if (o->plot != NULL && r->series != NULL)
        plot_add(o->plot, r);
}

unsigned bench_cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

void bench_pin(unsigned i)
{
    cpu_set_t all, one;
    unsigned left = i % bench_cpus();

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && left-- == 0)
            CPU_SET(c, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}
