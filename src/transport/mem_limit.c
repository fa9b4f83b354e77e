#include "transport/mem_limit.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Version 2 and version 1 of the kernel's interface. */
static const struct kind {
    const char *mount, *limit, *usage, *free[3]; /* free: of memory.stat, can be given back */
} kinds[] = {
    { "",
      "memory.max",
      "memory.current",
      { "inactive_file ", "active_file ", "slab_reclaimable " } },
    { "/unified",
      "memory.max",
      "memory.current",
      { "inactive_file ", "active_file ", "slab_reclaimable " } },
    { "/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      { "total_inactive_file ", "total_active_file ", NULL } },
};
enum { PATH_BYTES = 512, NOT_LIMITED_BITS = 60 };

/* The number that the file is, or that follows the name at the beginning of a line. */
static bool number_in(const char *dir, const char *file, const char *name, uint64_t *out)
{
    char path[2 * PATH_BYTES], line[256];
    bool found = false;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *f = fopen(path, "re");

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
        found = strncmp(line, name, strlen(name)) == 0 &&
                sscanf(line + strlen(name), "%" SCNu64, out) == 1;
    if (f != NULL)
        fclose(f);
    return found;
}

static void group_read(const struct kind *k, const char *dir, struct mem_limit *out)
{
    uint64_t limit, used, cached;

    if (!number_in(dir, k->limit, "", &limit) || limit >> NOT_LIMITED_BITS != 0 ||
        !number_in(dir, k->usage, "", &used))
        return;
    for (unsigned i = 0; i < VB_ARRAY_LEN(k->free) && k->free[i] != NULL; i++)
        if (number_in(dir, "memory.stat", k->free[i], &cached))
            used -= VB_MIN(used, cached);

    const uint64_t left = limit - VB_MIN(limit, used);

    if (left >= out->left)
        return;
    out->left = left;
    out->limit = limit;
    snprintf(out->file, sizeof(out->file), "%.*s/%s", 200, dir, k->limit);
}

/* A group and all above it. In a container its path may begin outside: what is not there has no limit. */
static void groups_read(const struct kind *k, const char *root, const char *path,
                        struct mem_limit *out)
{
    char dir[PATH_BYTES];
    const size_t top = strlen(root) + strlen(k->mount);

    if (snprintf(dir, sizeof(dir), "%s%s%s", root, k->mount, path) >= (int)sizeof(dir))
        return;
    for (;;) {
        char *slash = strrchr(dir + top, '/');

        group_read(k, dir, out);
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* Is memory among "cpu,memory"? */
static bool has_memory(const char *list)
{
    for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == strlen("memory") && strncmp(list, "memory", 6) == 0)
            return true;
    return false;
}

bool mem_limit_read(const char *cgroup, const char *root, struct mem_limit *out)
{
    char line[PATH_BYTES];
    FILE *f = fopen(cgroup, "re");

    *out = (struct mem_limit){ .left = UINT64_MAX };
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char *list = strchr(line, ':'), *path = list != NULL ? strchr(list + 1, ':') : NULL;

        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (list[1] == '\0') {
            groups_read(&kinds[0], root, path, out);
            groups_read(&kinds[1], root, path, out);
        } else if (has_memory(list + 1)) {
            groups_read(&kinds[2], root, path, out);
        }
    }
    if (f != NULL)
        fclose(f);
    return out->left != UINT64_MAX;
}
