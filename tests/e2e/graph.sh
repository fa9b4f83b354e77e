# The graph of a job in its forms and stages.
. "$(dirname "$0")/lib.sh"

make_data 200
make_job 'epochs: 1'
for stage in raw pruned; do
    "$verbena" graph job.yaml --stage $stage --form json >$stage.json 2>err.log || fail "$stage: exit $?"
    "$verbena" graph job.yaml --stage $stage --form svg >$stage.svg 2>err.log || fail "$stage.svg: exit $?"
    "$verbena" graph job.yaml --stage $stage >$stage.dot 2>err.log || fail "$stage.dot: exit $?"
done
/usr/bin/python3 - <<'END' || fail 'the graphs'
import json, xml.dom.minidom
def read(stage):
    nodes = [json.loads(line) for line in open(stage + ".json")]
    seen = set()
    for n in nodes: # inputs come before their users
        assert set(n["in"]) <= seen, n
        seen.add(n["name"])
    boxes = xml.dom.minidom.parse(stage + ".svg").getElementsByTagName("rect")
    assert len(boxes) == len(nodes) + 1
    dot = open(stage + ".dot").read()
    assert dot.startswith("digraph") and dot.count("->") == sum(len(n["in"]) for n in nodes)
    return nodes
raw, pruned = read("raw"), read("pruned")
assert len(pruned) <= len(raw)
for nodes in raw, pruned:
    ops = [n["op"] for n in nodes]
    assert ops.count("variable") == 6 and ops.count("softmax_cross_entropy_grad") == 1, ops
    loss = [n for n in nodes if n["name"] == "loss"]
    assert loss[0]["shape"] == [] and [n for n in nodes if n["name"] == "x"][0]["shape"] == ["batch", 784]
END
for bad in '--stage placed' '--form png'; do
    code=0
    "$verbena" graph job.yaml $bad >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] || fail "graph $bad: exit $code"
done
echo 'a graph can be looked at'
