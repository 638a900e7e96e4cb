#!/bin/sh
# Train a small GPT on the pages of docs/ with a small and with large global batches, on the same number of samples: how the
# rate is scaled, with and without a warm-up, and LARS and LAMB. And the small batch on 1, 2 and 4 ranks, which must be one
# curve. Losses do not depend on the machine's load. A row is the mean loss of the last twentieth of the steps, over seeds.
#
#     bench/large_batch.sh [LOCKSTEP [TEXT]]
#
# from the repository's root. TEXT: the file to train on; without it the pages of docs/, one after the other.
set -eu
lockstep=${1:-build/lockstep}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
text=${2:-$dir/text}
[ $# -gt 1 ] || cat docs/*.md > "$text"
samples=12800 small=8 seeds="1 2 3"

# loss SEED RANKS GLOBAL-BATCH OPTIONS...: of the end of a run, and of its worst step.
loss() {
    seed=$1 ranks=$2 batch=$3
    shift 3
    rm -rf "$dir/run"
    "$lockstep" run -n "$ranks" -b $((batch / ranks)) --steps $((samples / batch)) --warmup 0 --data "$text" --model gpt --layers 2 \
        --heads 2 --channels 32 --context 32 --reference-batch "$small" --seed "$seed" --no-trace -q --out "$dir/run" "$@" \
        > /dev/null 2> "$dir/error" || { echo "nan nan"; return; }
    tr -d ' \n' < "$(echo "$dir"/run/*/result.json)" | sed 's/.*"loss":\[\([^]]*\)\].*/\1/' | tr ',' '\n' |
        awk '{ l[NR] = $1; if ($1 > worst) worst = $1 } END { n = int(NR / 20) + (NR < 20)
            for (i = NR - n + 1; i <= NR; i++) sum += l[i]; printf "%.4f %.4f\n", sum / n, worst }'
}

# row NAME RANKS GLOBAL-BATCH OPTIONS...
row() {
    name=$1
    shift
    for seed in $seeds; do loss "$seed" "$@"; done | awk -v name="$name" '
        $1 == "nan" { lost++; next }
        { sum += $1; n++; if (!lo || $1 < lo) lo = $1; if ($1 > hi) hi = $1; if ($2 > worst) worst = $2 }
        END { if (n) printf "| %s | %.2f (%.2f to %.2f) | %.2f |", name, sum / n, lo, hi, worst
              else printf "| %s | - | - |", name
              print lost ? " " lost " of " lost + n " ended with a loss that is not finite |" : " |" }'
}

sgd="--optimizer=sgd --learning-rate=0.01"
echo "| run | last loss (over seeds) | largest loss | |"
echo "|---|---|---|---|"
for ranks in 1 2 4; do row "sgd, batch $small, $ranks rank(s)" "$ranks" "$small" $sgd; done
for batch in 64 128; do
    row "sgd, batch $batch, rate as it is" 4 $batch $sgd --lr-scaling=none
    row "sgd, batch $batch, linear" 4 $batch $sgd
    row "sgd, batch $batch, linear, warm-up 0.05 epochs" 4 $batch $sgd --lr-warmup=0.05epochs
    row "sgd, batch $batch, square root, warm-up 0.05 epochs" 4 $batch $sgd --lr-scaling=sqrt --lr-warmup=0.05epochs
    row "lars, batch $batch, square root, warm-up 0.05 epochs" 4 $batch --optimizer=lars --learning-rate=0.5 --trust=0.01 \
        --lr-scaling=sqrt --lr-warmup=0.05epochs
    row "lamb, batch $batch, square root, warm-up 0.05 epochs" 4 $batch --optimizer=lamb --learning-rate=0.004 \
        --lr-scaling=sqrt --lr-warmup=0.05epochs
done
