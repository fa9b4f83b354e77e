#!/bin/bash
# The layers of docs/design.md: a folder includes itself and what stands below it, and siblings never
# include each other. Prints each include that breaks this; exit code 1 when there is one.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files -co --exclude-standard 'src/*.[ch]' 'topo/*.[ch]' 'perf/*.[ch]' 'cmd/*.[ch]' 'include/*.h' |
    while read -r file; do [ ! -f "$file" ] || grep -HoE '^ *# *include "[^"]+"' "$file" || true; done |
    awk -F: '
BEGIN {
    n = split("verbena=0 base=1 topo=2 kernels=2 transport=2 graph=2 ops=3 cluster=3 ps=4 worker=5 sim=5 session=6 perf=7 cmd=8", pair, " ")
    for (i = 1; i <= n; i++) {
        split(pair[i], kv, "=")
        level[kv[1]] = kv[2]
    }
    # below, but none of its business
    never["ops>transport"] = never["cluster>kernels"] = never["cluster>graph"] = 1
    never["ps>graph"] = never["ps>ops"] = 1
}
{
    folder = $1
    sub(/^(src|include)\//, "", folder)
    sub(/\/.*/, "", folder)
    header = $2
    gsub(/^[^"]*"|"$/, "", header)
    target = header
    sub(/\/.*/, "", target)
    if (target == header)
        why = "name the folder: \"" folder "/" header "\""
    else if (!(target in level))
        why = "no folder of the layers"
    else if (target != folder && level[target] >= level[folder])
        why = folder " may not use " target
    else if ((folder ">" target) in never)
        why = folder " knows nothing of " target
    else
        next
    print $1 ": " header ": " why
    bad = 1
}
END { exit bad }'
