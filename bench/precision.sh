#!/bin/sh
# Train a small GPT on the pages of docs/ in float32, bfloat16 and float16, on one rank and on two: the mean loss of the last 20
# of 200 steps, over six seeds, and how many steps float16 skipped. Losses do not depend on the machine's load.
#
#     bench/precision.sh [LOCKSTEP [TEXT]]
#
# from the repository's root. TEXT: the file to train on; without it the pages of docs/, one after the other.
set -eu
lockstep=${1:-build/lockstep}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
text=${2:-$dir/text}
[ $# -gt 1 ] || cat docs/*.md > "$text"

# loss SEED DTYPE RANKS OPTIONS...: of a run, and the steps that it skipped
loss() {
    seed=$1 dtype=$2 ranks=$3
    shift 3
    rm -rf "$dir/run"
    "$lockstep" run -n "$ranks" -b $((8 / ranks)) --steps 200 --warmup 0 --data "$text" --model gpt --layers 2 --heads 2 --channels 32 \
        --context 32 --dtype "$dtype" --seed "$seed" --no-trace -q --out "$dir/run" "$@" > /dev/null
    tr -d ' \n' < "$(echo "$dir"/run/*/result.json)" > "$dir/result"
    skipped=$(sed -n 's/.*"skipped_steps":\([0-9]*\).*/\1/p' "$dir/result")
    sed 's/.*"loss":\[\([^]]*\)\].*/\1/' "$dir/result" | tr ',' '\n' |
        awk -v skipped="${skipped:-0}" '{ l[NR] = $1 } END { for (i = NR - 19; i <= NR; i++) sum += l[i]; print sum / 20, skipped }'
}

# cell DTYPE RANKS OPTIONS...: the mean over seeds, the least and the most, and the steps skipped in all of them
cell() {
    for seed in 1 2 3 4 5 6; do loss "$seed" "$@"; done | awk '
        { sum += $1; skipped += $2; if (!lo || $1 < lo) lo = $1; if ($1 > hi) hi = $1 }
        END { printf "%.3f (%.3f to %.3f)%s", sum / NR, lo, hi, skipped ? ", " skipped " skipped" : "" }'
}

echo "| optimizer | ranks | float32 | bfloat16 | float16 |"
echo "|---|---|---|---|---|"
for o in "sgd 0.05" "adamw 0.003"; do
    for ranks in 1 2; do
        printf '| %s | %s |' "$(echo "$o" | sed 's/ /, /')" "$ranks"
        for dtype in float32 bfloat16 float16; do
            printf ' %s |' "$(cell $dtype $ranks --optimizer="${o% *}" --learning-rate="${o#* }")"
        done
        echo
    done
done
