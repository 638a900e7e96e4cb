#!/bin/sh
# Make a table of how long 10,000 ranks worked in 1,000 steps (259 MB), one rank 10 ms longer, and time the page of it.
#
#     bench/step_times.sh [LOCKSTEP [RANKS STEPS]]
set -eu
lockstep=$(realpath "${1:-build/lockstep}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk -v ranks="${2:-10000}" -v steps="${3:-1000}" 'BEGIN {
    print "rank,host,step,own_s"
    for (s = 0; s < steps; s++)
        for (r = 0; r < ranks; r++)
            printf "%d,node%d,%d,%.6f\n", r, r / 8, s, 0.01 + 0.0001 * ((r * 7919 + s * 104729) % 97) + (r == 7 * int(ranks / 9)) * 0.01
}' > "$dir/times.csv"
cd "$dir"
time -p "$lockstep" report times.csv
"$lockstep" analyze times.csv -q
wc -c times.csv report/report.html
