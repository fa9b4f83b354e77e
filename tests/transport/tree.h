/*
 * tree.h - a sysfs of files that a test writes, below a temporary folder.
 */
#ifndef TESTS_TRANSPORT_TREE_H
#define TESTS_TRANSPORT_TREE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
    char root[64];
};

static inline void tree_make(struct tree *t)
{
    snprintf(t->root, sizeof(t->root), "/tmp/vb-tree-XXXXXX");
    if (mkdtemp(t->root) == NULL)
        abort();
}

/* The folders on the way are made. */
static inline void tree_put(const struct tree *t, const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", t->root, path);
    for (char *slash = full + strlen(t->root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static inline void tree_drop(const struct tree *t)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -r %s", t->root);
    if (system(command) != 0)
        abort();
}

#endif
