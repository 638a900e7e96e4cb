#!/bin/sh
# Hold forecasts of communication hooks and averaged parameters against runs of known truth: a job of round numbers
# (tests/data/slow_link.job.json) is replayed on links that are slow by a planted fault, and whatif is asked for the same words
# on a cluster of these links. The run without a scheme and the forecast of each come from different programs' words alone.
#
#     bench/truth_schemes.sh [LOCKSTEP]
#
# from the repository's root. What else runs on the machine only ever adds time, so of three runs the shortest step counts.
# Exit 1 where a run and its forecast differ by more than 3 % of the step.
set -eu
export LOCKSTEP_LEDGER=none # what other forecasts brought would change these
lockstep=${1:-build/lockstep}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
steps=20 warmup=5 allowed=3

# Matrices of 128 rows, which PowerSGD compresses.
sed 's/"elements": 16384,/"elements": 16384, "rows": 128,/' tests/data/slow_link.job.json > "$dir/job.json"
cat > "$dir/cluster.json" <<'END'
{"schema": "lockstep-cluster", "version": 1, "name": "slow", "preset": false, "nodes": 2, "gpus_per_node": 1, "gpu": "timed",
 "inter": {"latency": {"value": 2, "unit": "ms", "source": "planted"},
           "bandwidth": {"value": 5, "unit": "MB/s", "source": "planted"}},
 "topology": {"nics_per_node": 1, "network": "tcp"}}
END

# The value of a column of the first row of a table in a page's JSON.
first() {
    sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | head -n 1
}

measure() {
    best=
    for try in 1 2 3; do
        step=$("$lockstep" replay "$dir/job.json" -n 2 --steps "$steps" --warmup "$warmup" \
            --fault=slow:rate=5MB/s,latency=2ms --format json --out "$dir/run" --force "$@" 2> /dev/null | first step_s)
        best=$(printf '%s\n%s\n' "$best" "$step" | sed '/^$/d' | sort -g | head -n 1)
    done
    echo "$best"
}

bad=0
# check NAME WORDS-OF-REPLAY -- WORDS-OF-WHATIF
check() {
    name=$1 run=$2 ask=$3
    measured=$(measure $run)
    forecast=$("$lockstep" whatif "$dir/job.json" "$dir/cluster.json" --gpus 2 $ask --table points --format json | first step_s)
    printf '%s %s %s\n' "$measured" "$forecast" "$allowed" | awk -v name="$name" '{
        off = 100 * ($2 / $1 - 1)
        printf "%-24s measured %7.2f ms  forecast %7.2f ms  %+.2f %%\n", name, 1e3 * $1, 1e3 * $2, off
        exit off > $3 || off < -$3 }' || bad=1
}

check "no hook" "" ""
check "bf16" "--compression=bf16" "--compression bf16"
check "powersgd of rank 1" "--compression=powersgd --powersgd-start=2" "--compression powersgd --powersgd-rank 1"
check "powersgd of rank 8" "--compression=powersgd --powersgd-start=2 --powersgd-rank=8" "--compression powersgd --powersgd-rank 8"
check "local-sgd, period 2" "--sharding=local-sgd --period=2" "--sharding local-sgd --period 2"
check "local-sgd, period 4" "--sharding=local-sgd --period=4" "--sharding local-sgd --period 4"
check "diloco, period 5" "--sharding=diloco --period=5" "--sharding diloco --period 5"
exit "$bad"
