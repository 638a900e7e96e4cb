#!/bin/sh
# The forecast against PyTorch's DDP over gloo on hosts joined by shaped links (tests/net/hosts), with timed compute
# (bench/net_torch.py): a job file written by hand from one timed process, alone and with runs of 1 and 2 ranks, and a
# cluster file imported from a sweep of all-reduces on 2 ranks; runs of 4 and 8 ranks are what is to be forecast.
#   bench/net_torch.sh BUILD [GROUP...]   groups: convnet-50 convnet-100 convnet-200 transformer-100 transformer-150
# Leaves everything in BUILD/net-torch, the results in results-hand.csv and results-anchored.csv there; groups not named are
# kept, and with RESUME=yes every run that is there. Skips (exit 77) without root or PyTorch. PYTHON names the interpreter (default /usr/bin/python3).
set -eu
export LOCKSTEP_LEDGER=none # what other forecasts brought would change these

build=${1:-build}
[ $# -eq 0 ] || shift
here=$(dirname "$0")
out=$build/net-torch
lockstep=$build/lockstep
python=${PYTHON:-/usr/bin/python3}
caps="1048576:1 26214400:1"
held_out="$caps 1048576:2"

"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2> /dev/null \
    || { echo "net_torch: skipped: no PyTorch with gloo (package python3-torch, or set PYTHON)" >&2; exit 77; }
code=0
"$here/../tests/net/hosts" 1 100mbit -- true || code=$?
[ $code = 0 ] || exit $code
mkdir -p "$out"

# torch NAME RANKS RATE JOB WORDS...
torch() {
    name=$1 ranks=$2 rate=$3 job=$4
    shift 4
    [ -z "${RESUME:-}" ] || [ ! -e "$out/$name.done" ] || return 0
    GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 "$here/../tests/net/hosts" --limit 180 "$ranks" "$rate" -- \
        nice -n -10 "$python" "$here/net_torch.py" "$job" "$out/$name" "$@" > "$out/$name.log" 2>&1 || {
        cat "$out/$name.log" >&2
        exit 1
    }
    touch "$out/$name.done"
    echo "$(date +%T) $name"
}

# group NAME KIND RATE BACKWARD_MS
group() {
    name=$1 kind=$2 rate=$3
    spec=$out/$kind-$4.spec.json
    "$here/net_job" "$kind" "$4" > "$spec"
    torch "$1-alone" 1 "$3" "$spec" --alone
    torch "$1-k1" 1 "$3" "$spec" 1048576:1
    # shellcheck disable=SC2086 # words
    torch "$1-k2" 2 "$3" "$spec" --sweep $caps
    for k in 4 8; do
        # shellcheck disable=SC2086 # words
        torch "$1-k$k" $k "$3" "$spec" --sweep $held_out
    done
}

groups="convnet-50 convnet-100 convnet-200 transformer-100 transformer-150"
for g in ${*:-$groups}; do
    case $g in
    convnet-50) group $g convnet 50mbit 800 ;;
    convnet-100) group $g convnet 100mbit 500 ;;
    convnet-200) group $g convnet 200mbit 300 ;;
    transformer-100) group $g transformer 100mbit 800 ;;
    transformer-150) group $g transformer 150mbit 600 ;;
    *) echo "net_torch: no group $g: $groups" >&2; exit 2 ;;
    esac
done

# Forecasts of whatever is there. Anchored: with runs of 1 and 2 ranks; by hand: with none.
list() {
    suffix=$1 pattern=$2
    echo "group,single,cluster,run,hosts,rate,ranks,cap,accumulation" > "$out/list-$suffix.csv"
    for g in $groups; do
        [ -e "$out/$g-k8.csv" ] || continue
        "$lockstep" import --collectives "$out/$g-k2.csv" --name "$g" --out "$out/$g.cluster.json" > /dev/null
        runs=
        for r in $pattern; do runs="$runs $out/$g-$r.json"; done
        # shellcheck disable=SC2086 # paths without blanks
        "$python" "$here/net_torch.py" "$out/$g-alone.json" "$out/$g-$suffix" --merge $runs
        for k in 4 8; do
            for c in $held_out; do
                run=$out/$g-k$k-${c%:*}-a${c#*:}
                echo "$g,$out/$g-$suffix.json,$out/$g.cluster.json,$run.json,$run.hosts,${g#*-}mbit,$k,${c%:*},${c#*:}"
            done
        done >> "$out/list-$suffix.csv"
    done
    "$build/bench/net" "$lockstep" "$out/list-$suffix.csv" "$out/results-$suffix.csv"
}
echo "PyTorch, job written by hand, no runs"
list hand ""
echo "PyTorch, with runs of 1 and 2 ranks"
list anchored "k1-1048576-a1 k2-1048576-a1"
