#!/usr/bin/env python3
"""What lockstep's preload library sees of a job on Open MPI, against the job's own clock, and what it costs.

    bench/profile_mpi.py [RANKS [STEPS]]       default: 4 ranks, 200 steps

The job is bench/peers/training_mpi.c, which times its all-reduces itself. Its ranks run with the library and without it
in turns. Printed are, by bucket, how long ranks waited for the last one and how long the wire took, by both clocks; how
far single calls' times are apart; the step with and without the library; and what a call costs more, on the stand-in
for MPI of tests/mpi, whose calls do nothing. Exits with 77 where there is no Open MPI.
"""
import csv
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
ROUNDS = 5
CALLS = 300000  # steps of the stand-in, of 7 collectives and 2 calls that wait


def run(words, folder=None, **more):
    """Run a command, with the library if there is a folder for its files; return what it prints."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
    if folder:
        env.update(LD_PRELOAD=str(BUILD / "liblockstep_profile.so"), LOCKSTEP_PROFILE_DIR=str(folder))
    return subprocess.run(words, env=env, check=False, capture_output=True, text=True)


def job(app, ranks, steps, out, folder=None):
    """Run the job; return {(step, bucket): [(start, end) of each rank]}, ns."""
    done = run(["mpirun", "--oversubscribe", "-n", str(ranks), app, str(steps), str(out)], folder)
    if done.returncode:
        sys.exit(f"mpirun: {done.stderr}")
    calls = {}
    for rank in range(ranks):
        for line in pathlib.Path(f"{out}.{rank}").read_text(encoding="ascii").splitlines():
            step, bucket, start, end = map(int, line.split())
            calls.setdefault((step, bucket), []).append((start, end))
    return calls


def own_buckets(calls, first):
    """Return {bucket: (wait, wire, most frequent last rank, its share)} from a step on, s."""
    found = {}
    for (step, bucket), times in calls.items():
        if step < first:
            continue
        begin = max(start for start, _ in times)
        wait = statistics.mean(begin - start for start, _ in times)
        wire = max(end for _, end in times) - begin
        late = max(range(len(times)), key=lambda rank: times[rank][0])
        found.setdefault(bucket, []).append((wait * 1e-9, wire * 1e-9, late))
    result = {}
    for bucket, rows in found.items():
        late = statistics.mode(row[2] for row in rows)
        result[bucket] = (statistics.mean(row[0] for row in rows), statistics.mean(row[1] for row in rows),
                          late, sum(row[2] == late for row in rows) / len(rows))
    return result


def seen_buckets(folder):
    """Return the rows of lockstep's table of buckets, by bucket."""
    done = run([str(BUILD / "lockstep"), "analyze", str(folder), "--format=csv", "--table=buckets"])
    if done.returncode:
        sys.exit(done.stderr)
    return {int(row["bucket"]): row for row in csv.DictReader(done.stdout.splitlines())}


def step_s(calls):
    """Return the median time from one step's last end to the next one's on rank 0, s."""
    last = max(bucket for _, bucket in calls)
    ends = [calls[step, last][0][1] for step in sorted({step for step, _ in calls})]
    return statistics.median(b - a for a, b in zip(ends, ends[1:])) * 1e-9


def call_ns(folder):
    """Return the time of a collective of the stand-in, ns."""
    program = str(BUILD / "mpi/open/program")
    start = time.monotonic()
    done = run([program, "steps", str(CALLS)], folder)
    if done.returncode != 3:
        sys.exit(f"{program}: {done.stdout}{done.stderr}")
    return (time.monotonic() - start) / (7 * CALLS) * 1e9


def main():
    ranks, steps = (int(x) for x in (sys.argv[1:] + ["4", "200"][len(sys.argv) - 1:]))
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        print("no mpicc or mpirun: nothing was compared", file=sys.stderr)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        app = scratch / "training_mpi"
        subprocess.run(["mpicc", "-O2", "-o", app, "bench/peers/training_mpi.c"], check=True)
        with_it, without = [], []
        for i in range(ROUNDS):
            folder = scratch / f"records{i}"
            folder.mkdir()
            without.append(step_s(job(app, ranks, steps, scratch / "own")))
            calls = job(app, ranks, steps, scratch / "own", folder)
            with_it.append(step_s(calls))
        own, seen = own_buckets(calls, 1), seen_buckets(folder)
        print(f"{ranks} ranks, {steps} steps; ms, by the job's own clock and by lockstep")
        print("bucket  wait own  lockstep  wire own  lockstep  last own  lockstep")
        for bucket, (wait, wire, late, share) in sorted(own.items()):
            row = seen[bucket]
            print(f"{bucket:6}  {1e3 * wait:8.4f}  {1e3 * float(row['wait_s']):8.4f}  {1e3 * wire:8.4f}  "
                  f"{1e3 * float(row['wire_s']):8.4f}  {late} {share:6.3f}  {row['late_rank']} {float(row['late_share']):6.3f}")
        print(f"step, median of {ROUNDS} rounds, ms: {1e3 * statistics.median(without):.3f} without, "
              f"{1e3 * statistics.median(with_it):.3f} with the library "
              f"(rounds: {' '.join(f'{b / a - 1:+.2%}' for a, b in zip(without, with_it))})")
        idle = [call_ns(None) for _ in range(ROUNDS)]
        recorded = []
        for i in range(ROUNDS):
            folder = scratch / f"calls{i}"
            folder.mkdir()
            recorded.append(call_ns(folder))
        print(f"a call, ns: {min(idle):.0f} without, {min(recorded):.0f} with the library")


main()
