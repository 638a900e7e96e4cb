#!/bin/sh
# All-reduce of ours, sleeping and polling for 50 us before it sleeps, gloo (PyTorch) and Open MPI over loopback, in interleaved rounds.
#
#   bench/allreduce.sh [ROUNDS [RANKS...]]       default: 10 rounds of 2 and of 4 ranks
#
# A peer that is not installed is left out, and said so. Prints a table: time, and ratio of times
# with its bootstrap interval. The lines of all rounds stay in build/bench/allreduce.txt.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-10}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 2 4
build=${BUILD:-build}
out=$build/bench/allreduce.txt
python=${PYTHON:-/usr/bin/python3}
make -s bench-bin >&2

mpi= mpicc=mpicc mpirun=mpirun
! command -v mpicc.openmpi > /dev/null || { mpicc=mpicc.openmpi mpirun=mpirun.openmpi; }
if command -v $mpicc > /dev/null && command -v $mpirun > /dev/null; then
    mpi=$build/bench/allreduce_mpi
    $mpicc -O3 -o "$mpi" bench/peers/allreduce_mpi.c
else
    echo "no mpicc: Open MPI is left out" >&2
fi
gloo=
if "$python" -c 'import torch.distributed' 2> /dev/null; then
    gloo=yes
else
    echo "no torch in $python: gloo is left out" >&2
fi

: > "$out"
round=0
while [ "$round" -lt "$rounds" ]; do
    for ranks; do
        "$build/bench/allreduce" "$ranks" auto 0 0 >> "$out"
        "$build/bench/allreduce" "$ranks" auto 0 50 >> "$out"
        [ -z "$gloo" ] || "$python" bench/allreduce_gloo.py "$ranks" >> "$out"
        [ -z "$mpi" ] || OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            $mpirun --oversubscribe -n "$ranks" --mca btl tcp,self "$mpi" >> "$out"
    done
    round=$((round + 1))
done
"$build/lockstep" --version | sed -n '1s/^/ours: /p; s/^math: .*; /  /p'
[ -z "$gloo" ] || "$python" bench/allreduce_gloo.py --about
[ -z "$mpi" ] || $mpirun --version | head -n 1
"$build/bench/allreduce" summary "$out"
