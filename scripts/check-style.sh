#!/bin/bash
# One rule of style over all files of the tree: check-style.sh RULE; check-style.sh --list names them.
# Prints each place that breaks it; exit code 1 when there is one.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rules=(tabs trailing-space final-newline comments leftovers file-length function-length format)

mapfile -t text < <(git ls-files -co --exclude-standard | grep -vE '\.(gz|bin|png|svg)$|/corpus/' |
    while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
mapfile -t code < <(printf '%s\n' "${text[@]}" | grep -E '\.[ch]$')

# none COMMAND...: good when it finds nothing
none()
{
    ! "$@"
}

final_newline()
{
    local bad=0
    for file in "${text[@]}"; do
        if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
            echo "$file: no newline at the end"
            bad=1
        fi
    done
    return $bad
}

file_length()
{
    wc -l "${code[@]}" | awk '$2 != "total" && $1 > 500 { print $2 ": " $1 " lines, at most 500"; bad = 1 }
        END { exit bad }'
}

# A function begins with a { alone in the first column and ends with such a }. Tests may hold tables.
function_length()
{
    awk 'FNR == 1 { start = 0 }
        /^{$/ { start = FNR }
        /^}/ && start {
            if (FNR - start - 1 > 60) {
                print FILENAME ":" start ": " FNR - start - 1 " lines in a function, at most 60"
                bad = 1
            }
            start = 0
        }
        END { exit bad }' $(printf '%s\n' "${code[@]}" | grep -v '^tests/')
}

case ${1:-} in
--list) printf '%s\n' "${rules[@]}" ;;
tabs) none grep -nHP '\t' "${text[@]}" ;;
trailing-space) none grep -nHE '[[:space:]]+$' "${text[@]}" ;;
final-newline) final_newline ;;
comments) none grep -nHE '(^|[^:"/])//' "${code[@]}" ;;
leftovers) none grep -nHE '\b(TO''DO|FIX''ME)\b' "${text[@]}" ;;
file-length) file_length ;;
function-length) function_length ;;
format) clang-format --dry-run -Werror "${code[@]}" ;;
*)
    echo "usage: check-style.sh --list | ${rules[*]}" >&2
    exit 2
    ;;
esac
