#include "cmd/report_links.h"

#include "base/util.h"

#include <stdio.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s != NULL ? s : "";
}

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void show_rails(const json_t *rails)
{
    char sent[32];
    size_t i;
    json_t *rail;

    if (json_array_size(rails) < 2)
        return; /* the device */
    json_array_foreach(rails, i, rail)
    {
        printf(", %s%s %s", i == 0 ? "rails " : "", str(rail, "name"),
               report_bytes(num(rail, "sent_bytes"), sent));
    }
}

static void show_link(const json_t *e)
{
    const double sent = num(e, "sent_bytes"), received = num(e, "received_bytes");
    char a[32], b[32];

    printf("link %s - %s: %s", str(e, "task"), str(e, "peer"), str(e, "way"));
    if (str(e, "device")[0] != '\0')
        printf(" %s", str(e, "device"));
    if (str(e, "local")[0] != '\0')
        printf(" %s -> %s", str(e, "local"), str(e, "remote"));
    if (str(e, "gid")[0] != '\0')
        printf(", GID %s", str(e, "gid"));
    if (num(e, "mtu") > 0)
        printf(", MTU %.0f", num(e, "mtu"));
    show_rails(json_object_get(e, "rails"));
    if (str(e, "protocol")[0] != '\0')
        printf(", %s", str(e, "protocol"));
    if (sent + received > 0)
        printf("; sent %s, received %s", report_bytes(sent, a), report_bytes(received, b));
    if (str(e, "why")[0] != '\0')
        printf("; not faster: %s", str(e, "why"));
    putchar('\n');
}

/* Numbers in names count as numbers: task:2 comes before task:10. */
static int by_names(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    const int task = strverscmp(str(x, "task"), str(y, "task"));

    return task != 0 ? task : strverscmp(str(x, "peer"), str(y, "peer"));
}

static void show_rest(json_t *const *e, size_t n)
{
    static const char *const ways[] = { "map", "rdma", "tcp" };
    const char *before = ": ";

    printf("and %zu links more", n);
    for (size_t w = 0; w < VB_ARRAY_LEN(ways); w++) {
        size_t of_way = 0;

        for (size_t i = 0; i < n; i++)
            of_way += strcmp(str(e[i], "way"), ways[w]) == 0;
        if (of_way == 0)
            continue;
        printf("%s%zu %s", before, of_way, ways[w]);
        before = ", ";
    }
    puts(" (--json has all)");
}

void report_links(const json_t *links)
{
    const size_t n = json_array_size(links);
    AUTO_FREE json_t **sorted = calloc(n + 1, sizeof(*sorted));

    for (size_t i = 0; sorted != NULL && i < n; i++)
        sorted[i] = json_array_get(links, i);
    if (sorted == NULL)
        return;
    qsort(sorted, n, sizeof(*sorted), by_names);
    for (size_t i = 0; i < n && i < REPORT_LINKS_MAX; i++)
        show_link(sorted[i]);
    if (n > REPORT_LINKS_MAX)
        show_rest(sorted + REPORT_LINKS_MAX, n - REPORT_LINKS_MAX);
}
