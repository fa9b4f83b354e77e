# Fashion-MNIST, 784-256-128-10, SGD 0.1, batch 100: the best test accuracy of 15 data epochs, seeds 1 to 3.
job=$(readlink -f "$2")
. "$(dirname "$0")/lib.sh"

[ -e /usr/share/datasets/fashion-mnist ] || { echo 'skipped: no package dataset-fashion-mnist'; exit 77; }
for seed in 1 2 3; do
    "$verbena" train "$job" --seed $seed --json >out.log 2>err.log || fail "seed $seed: exit $?"
    best=$(grep -o '"best_test_accuracy":[0-9.]*' out.log | cut -d: -f2)
    echo "seed $seed: best test accuracy $best"
    awk "BEGIN { exit !($best >= 0.875) }" || fail "seed $seed: $best is below 0.875"
done
