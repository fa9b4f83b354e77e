# Modes side by side, and predictions against runs: what is printed has the promised shape and the right order.
. "$(dirname "$0")/lib.sh"

make_data 2000
make_job 'epochs: 12' 'workers: 2' 'ps: 1'

"$verbena" compare job.yaml --modes sync,ssp:2,async@async.compensation=0.1,nonsense >out.log 2>err.log && fail 'a wrong mode'
[ "$(wc -l <err.log)" = 1 ] && grep -q "compare: --modes: 'nonsense' is not a mode" err.log || fail 'a wrong mode: no line'

# the second one's extra option is wrong, so its run fails, and costs the others nothing
code=0
"$verbena" compare job.yaml --modes sync,ssp:2@optimizer.rate=fast,async --seeds 2 --json --plot plot.svg >out.json 2>err.log ||
    code=$?
[ $code = 2 ] || fail "a run that fails: exit $code"
grep -q 'ssp:2@optimizer.rate=fast ended with code 2: .*--optimizer.rate=fast: must be a number' err.log || fail 'no reason'
/usr/bin/python3 - <<'END' || fail 'compare --json'
import json, xml.dom.minidom
rows = [json.loads(line) for line in open("out.json")]
assert [(r["mode"], r["seed"]) for r in rows] == [
    (m, s) for m in ("sync", "ssp:2@optimizer.rate=fast", "async") for s in (1, 2)], rows
for r in rows:
    assert (r["code"] == 2) == ("fast" in r["mode"]), r
    if r["code"] == 0:
        steps = [p[0] for p in r["loss"]]
        assert len(steps) in (24, 29, 30) and steps == sorted(steps) and steps[0] == 10, steps
        assert all(p[2] > 0 for p in r["loss"]) and r["pushed_bytes"] > 0 and r["waited_s"] >= 0
    else:
        assert r["ratio"] is None and r["loss"] == []
sync = [r for r in rows if r["mode"] == "sync"]
assert all(r["ratio"] == 1 and 100 <= r["target_steps"] <= 240 and r["staleness"] == 0 for r in sync), sync
assert sync[0]["target_loss"] != sync[1]["target_loss"]
svg = xml.dom.minidom.parse("plot.svg").documentElement
assert svg.tagName == "svg" and len(svg.getElementsByTagName("polyline")) == 6
END
"$verbena" compare job.yaml --modes sync,async@async.rate_over_staleness >out.log 2>err.log || fail "compare: exit $?"
[ "$(wc -l <out.log)" = 4 ] && grep -q '^sync .* 1\.000 ' out.log && grep -q '^async@async.rate_over_staleness ' out.log || fail 'compare: the table'

# Ctrl-C ends the run that is going on, and nothing is left
make_job 'epochs: 1000' 'workers: 2'
"$verbena" compare job.yaml --modes sync,async >out.log 2>err.log &
pid=$!
wait_for 20 'tasks' eval '[ "$(ours | wc -l)" -ge 4 ]'
kill -TERM $pid
exit_of $pid 20
[ "$code" = 143 ] || fail "compare after SIGTERM: exit $code"
none_left

make_job 'epochs: 1' 'workers: 2' 'ps: 1' 'transport: map' 'compute: 5' 'jitter: straggler'
"$verbena" sim job.yaml --steps 50 --lose 1@20 >out.log 2>err.log || fail "sim --lose: exit $?"
grep -q 'worker 1 dies in step 20: all together make 70 steps' out.log || fail 'sim --lose'
"$verbena" sim job.yaml --steps 200 --sweep mode=sync,ssp:1,async --against-runs --json --plot sweep.svg >out.json 2>err.log ||
    fail "sim --against-runs: exit $?"
/usr/bin/python3 - <<'END' || fail 'sim --sweep'
import json
rows = [json.loads(line) for line in open("out.json")]
assert [r["value"] for r in rows] == ["sync", "ssp:1", "async"], rows
assert rows[0]["samples_per_s"] < rows[1]["samples_per_s"] <= rows[2]["samples_per_s"] * 1.001, rows
assert sum(r["best"] for r in rows) == 1 and all(r["measured_samples_per_s"] > 0 for r in rows), rows
END
grep -q 'errors of 3 predictions: median' err.log && grep -q polyline sweep.svg || fail 'sim --sweep: errors and picture'
printf 'latency_us: 1000\n' >fit.yaml
slow=$("$verbena" sim job.yaml --steps 50 --fit fit.yaml --json)
fast=$("$verbena" sim job.yaml --steps 50 --fit fit.yaml --latency-us 1 --json)
/usr/bin/python3 -c 'import json, sys; a, b = map(json.loads, sys.argv[1:]); assert 0.09 < a["seconds"] - b["seconds"] < 0.11' \
    "$slow" "$fast" || fail 'sim --fit: what is given goes before the file'
for bad in '--sweep mode' '--sweep colour=red' '--sweep ps=0' '--lose 2@1' '--lose x' '--plot x.svg'; do
    code=0
    "$verbena" sim job.yaml $bad >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] || fail "sim $bad: exit $code"
done
echo 'modes and predictions are side by side'
