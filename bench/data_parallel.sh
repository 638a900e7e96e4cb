#!/bin/sh
# Steps of DataParallel, one process on K devices, beside DDP's, K processes, on the same global batch:
#
#     bench/data_parallel.sh LOCKSTEP [MODEL [GLOBAL-BATCH [REPETITIONS]]]
#
# Runs are interleaved, and each prints the median of 30 steps and the processor seconds of all of its threads. K is 2 and 4 here:
# on a machine with fewer processors, or a busy one, the times say nothing of either.
set -eu

lockstep=$(realpath "$1")
model=${2:-gpt-mini}
batch=${3:-16}
repetitions=${4:-3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# run NAME K OPTION...: print a line.
run() {
    name=$1 k=$2
    shift 2
    /usr/bin/time -f '%U %S' -o "$out/time" "$lockstep" run --model="$model" --steps=30 --warmup=5 --comm=auto --quiet --out="$out/run" \
        --force "$@" >"$out/said" 2>/dev/null
    awk -v name="$name" -v k="$k" -v cpu="$(awk '{printf "%.2f", $1 + $2}' "$out/time")" -v said="$(head -1 "$out/said")" \
        'BEGIN { printf "%-14s K=%d  %s  processor: %s s\n", name, k, said, cpu }'
}

for i in $(seq "$repetitions"); do
    run "one device" 1 -n1 -b"$batch"
    for k in 2 4; do
        run DataParallel "$k" -n1 -b"$batch" --data-parallel="$k"
        run DDP "$k" -n"$k" -b$((batch / k))
    done
done
