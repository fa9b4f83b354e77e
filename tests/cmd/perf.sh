#!/bin/bash
# Every measurement in its shortest form: JSON of the promised shape, a picture that is one. Never how fast.
. "$(dirname "$0")/../e2e/lib.sh"

for bench in 'link-lat --bytes 64' 'link-bw --bytes 65536' link-rate wake 'copies --bytes 65536' idle \
    'pull-lat --bytes 64' read-lat 'push --bytes 1048576' barrier 'apply --bytes 1048576' overlap \
    'ssp --workers 2' 'allreduce --bytes 65536 --workers 2'; do
    "$verbena" perf $bench --rounds 1 --json --plot plot.svg >out.json 2>err.log || fail "perf $bench"
    grep -q 'no library that counts' err.log && continue # with sanitizers
    grep -q 'left out: network namespaces\|namespaces cannot be made' err.log && continue # not root
    /usr/bin/python3 - $bench <<'END' || fail "perf $bench: $(cat out.json)"
import json, sys, xml.dom.minidom
head, *rows = [json.loads(line) for line in open("out.json")]
assert set(head) == {"machine", "cores", "commit", "command"}, head
assert rows and all(row["bench"] == sys.argv[1] for row in rows)
for row in rows:
    assert {"case", "value", "unit", "baseline", "ratio", "goal", "ok", "noisy"} <= set(row), row
    assert row["unit"] in ("s", "B/s", "1/s", "core", "ratio", "1/step"), row
    assert row["ok"] in (True, False, None) and row["noisy"] in (True, False), row
ways = {row["case"]["transport"] for row in rows if "transport" in row["case"]}
both = sys.argv[1] not in ("read-lat", "push", "apply", "overlap", "ssp", "allreduce")
assert {"map", "tcp"} <= ways or not both, ways
assert xml.dom.minidom.parse("plot.svg").documentElement.tagName == "svg"
END
done
if unshare -n true 2>/dev/null; then
    "$verbena" perf link-bw --netns --bytes 65536 --rounds 1 --json >out.json 2>err.log || fail 'perf --netns'
    [ "$(grep -c '"netns": true' out.json)" = 2 ] || fail "perf --netns: $(cat out.json)"
fi
if "$verbena" perf speed >out.log 2>&1; then fail 'a measurement that there is not'; else code=$?; fi
[ $code = 2 ] && [ "$(wc -l <out.log)" = 1 ] && grep -q 'link-lat' out.log || fail "a wrong name: exit $code"
if "$verbena" perf link-lat --bytes 8 --rounds 1 --transport map --plot /nowhere/x.svg >out.log 2>err.log
then fail 'a picture that cannot be written'; else code=$?; fi
[ $code = 1 ] && grep -q '/nowhere/x.svg' err.log || fail "a picture that cannot be written: exit $code"
echo 'every measurement prints what it should'
