# Every op is in docs/ops.md. $1: the source folder
set -euo pipefail
for op in $(grep -o '&op_[a-z0-9_]*' "$1/src/ops/ops.c" | sed 's/&op_//'); do
    grep -qw "$op" "$1/docs/ops.md" || { echo "docs/ops.md has not $op"; exit 1; }
done
