#!/bin/sh
# A forecast from the traces of a PyTorch job that nobody changed for it: DDP over gloo on hosts joined by shaped links
# (tests/net/hosts, bench/net_torch.py). torch.profiler traces 1 and 2 ranks at the smallest cap; `lockstep import` makes the
# job, a sweep of all-reduces on 2 ranks the cluster; 4 ranks at six caps are forecast, then run.
#   bench/import_torch.sh BUILD [convnet|transformer [BACKWARD_MS [RATE]]]     default: convnet 500 100mbit; 5 minutes
# Leaves everything in BUILD/import-torch. Skips (exit 77) without root or PyTorch. PYTHON names the interpreter.
set -eu
export LOCKSTEP_LEDGER=none # what other forecasts brought would change these

build=${1:-build} kind=${2:-convnet} backward=${3:-500} rate=${4:-100mbit}
here=$(dirname "$0")
out=$build/import-torch/$kind-$backward-$rate
lockstep=$build/lockstep
python=${PYTHON:-/usr/bin/python3}
caps="1048576 2097152 4194304 8388608 16777216 26214400"

"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2> /dev/null \
    || { echo "import_torch: skipped: no PyTorch with gloo (package python3-torch, or set PYTHON)" >&2; exit 77; }
code=0
"$here/../tests/net/hosts" 1 100mbit -- true || code=$?
[ $code = 0 ] || exit $code
rm -rf "$out"
mkdir -p "$out"

# torch NAME RANKS WORDS...
torch() {
    name=$1 ranks=$2
    shift 2
    GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 "$here/../tests/net/hosts" --limit 300 "$ranks" "$rate" -- \
        nice -n -10 "$python" "$here/net_torch.py" "$out/spec.json" "$out/$name" "$@" > "$out/$name.log" 2>&1 || {
        cat "$out/$name.log" >&2
        exit 1
    }
}

"$here/net_job" "$kind" "$backward" > "$out/spec.json" 
torch k1 1 --traces 1048576:1
torch k2 2 --sweep --traces 1048576:1
"$lockstep" import --collectives "$out/k2.csv" --name links --out "$out/cluster.json" > /dev/null
for k in 1 2; do
    "$lockstep" import "$out/k$k-1048576-a1.traces" --local-batch 8 --nodes "$k" --out "$out/runs/k$k" > "$out/import-k$k.log"
done
list=
for c in $caps; do list="$list${list:+,}${c}B"; done
"$lockstep" predict "$out/runs" "$out/cluster.json" --gpus 4 --bucket-cap "$list" --csv "$out/forecast.csv" > "$out/forecast.txt" || {
    cat "$out/forecast.txt" >&2
    exit 1
}
for c in $caps; do torch k4 4 "$c:1"; done
"$python" - "$out" $caps << 'END'
import csv, json, statistics, sys
out, caps = sys.argv[1], [int(c) for c in sys.argv[2:]]
with open(out + "/forecast.csv") as f:
    rows = {int(float(r["bucket_cap_bytes"])): r for r in csv.DictReader(line.lstrip("#") for line in f)}
errors = []
print("cap, MiB  measured, ms  forecast, ms  90 % interval, ms  error")
for cap in caps:
    with open(f"{out}/k4-{cap}-a1.json") as f:
        measured = statistics.median(json.load(f)["runs"][0]["step_s"])
    r = rows[cap]
    step, lo, hi = (float(r[k]) for k in ("step_s", "step_lo_s", "step_hi_s"))
    errors.append(step / measured - 1)
    print(f"{cap / 2**20:8.0f}  {1e3 * measured:12.1f}  {1e3 * step:12.1f}  {1e3 * lo:7.1f} to {1e3 * hi:7.1f}  {100 * errors[-1]:+.1f} %"
          f"{'' if lo <= measured <= hi else '  outside'}")
print(f"mean error {100 * statistics.fmean(abs(e) for e in errors):.1f} %, at worst {100 * max(abs(e) for e in errors):.1f} %")
END
