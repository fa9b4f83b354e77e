/* What control groups leave of memory, read from made-up trees. */
#include "transport/mem_limit.h"

#include "tree.h"

#include <criterion/criterion.h>

Test(mem_limit, least_of_a_group_and_those_above_counts_and_caches_can_be_given_back)
{
    struct mem_limit m;
    struct tree tree;
    char cgroup[80];
    const char *root = tree.root;

    tree_make(&tree);
    snprintf(cgroup, sizeof(cgroup), "%s/self", root);
    tree_put(&tree, "self", "1:cpu:/x\n0::/a/b\n");
    cr_assert(!mem_limit_read(cgroup, root, &m), "no files");
    tree_put(&tree, "a/b/memory.max", "max\n");
    tree_put(&tree, "a/b/memory.current", "5000\n");
    cr_assert(!mem_limit_read(cgroup, root, &m), "no limit");
    tree_put(&tree, "a/memory.max", "100000\n");
    tree_put(&tree, "a/memory.current", "70000\n");
    cr_assert(mem_limit_read(cgroup, root, &m) && m.left == 30000 && m.limit == 100000);
    tree_put(&tree, "a/memory.stat", "file 60000\nactive_file 4000\ninactive_file 6000\n");
    cr_assert(mem_limit_read(cgroup, root, &m) && m.left == 40000);
    cr_assert_not_null(strstr(m.file, "/a/memory.max"));
    tree_put(&tree, "a/b/memory.max", "6000\n");
    cr_assert(mem_limit_read(cgroup, root, &m) && m.left == 1000);
    tree_put(&tree, "a/b/memory.current", "7000\n");
    cr_assert(mem_limit_read(cgroup, root, &m) && m.left == 0);
    tree_put(&tree, "self", "4:cpu,memory:/c\n3:memoryless:/a\n");
    tree_put(&tree, "memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put(&tree, "memory/c/memory.usage_in_bytes", "4096\n");
    cr_assert(!mem_limit_read(cgroup, root, &m), "version 1, no limit");
    tree_put(&tree, "memory/memory.limit_in_bytes", "8192\n");
    tree_put(&tree, "memory/memory.usage_in_bytes", "4096\n");
    tree_put(&tree, "memory/memory.stat", "inactive_file 1\ntotal_inactive_file 96\n");
    cr_assert(mem_limit_read(cgroup, root, &m) && m.left == 4096 + 96);
    tree_put(&tree, "self", "no colons\n:\n::\n4:memory\n0::\n");
    (void)mem_limit_read(cgroup, root, &m);
    cr_assert(!mem_limit_read("/nowhere", root, &m));
    tree_drop(&tree);
}
