#!/usr/bin/env python3
"""Hold the answers of `lockstep plan` against real runs: tests/net/validate plan measured them.

    bench/net_plan.py LOCKSTEP LIST.csv JOB CLUSTER [RESULTS.csv]

LIST has a row for each configuration: cap, accumulation, run (folders, apart by blanks). For targets between the slowest
and the fastest of them, plan is asked for the smallest configuration that reaches it, as a throughput and as a
deadline. Printed: what it names, with which probability, and what the runs of that configuration measured. Where it
says that none reaches the target, the fastest that was measured is shown.
"""
import csv
import json
import subprocess
import sys

TARGETS = 12
PROBABILITY = 0.9
SAMPLES = 1_000_000


def read_throughput(runs, accumulation):
    """Samples a second of the counted steps of all runs of a configuration."""
    samples = seconds = 0
    for run in runs.split():
        with open(f"{run}/result.json") as f:
            steps = json.load(f)
        with open(f"{run}/job.json") as f:
            job = json.load(f)
        counted = steps["step_s"][steps["warmup_steps"]:]
        samples += len(counted) * job["runs"][0]["gpus"] * job["runs"][0]["local_batch"] * accumulation
        seconds += sum(counted)
    return samples / seconds


def ask(lockstep, job, cluster, caps, accumulations, *goal):
    """The row of the smallest configuration that reaches a goal, or None."""
    command = [lockstep, "plan", job, cluster, "--gpus=2", "--sharding=ddp", "--reduce=last", f"--probability={PROBABILITY}",
               f"--bucket-cap={','.join(caps)}", f"--accumulation={','.join(accumulations)}", "--format=csv", *goal]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {out.stderr}")
    rows = {r["what"]: r for r in csv.DictReader(out.stdout.splitlines())}
    return rows.get("smallest")


def main():
    lockstep, listed, job, cluster = sys.argv[1:5]
    with open(listed) as f:
        rows = list(csv.DictReader(f))
    measured = {(int(r["cap"]) * 1024, int(r["accumulation"])): read_throughput(r["run"], int(r["accumulation"]))
                for r in rows}
    caps = sorted({f"{r['cap']}KiB" for r in rows}, key=lambda c: int(c[:-3]))
    accumulations = sorted({r["accumulation"] for r in rows}, key=int)
    low, high = min(measured.values()), max(measured.values())
    table = []
    for i in range(TARGETS):
        target = low + (high - low) * (i + 0.5) / TARGETS
        named = ask(lockstep, job, cluster, caps, accumulations, f"--target-throughput={target}")
        timed = ask(lockstep, job, cluster, caps, accumulations, f"--samples={SAMPLES}", f"--deadline={SAMPLES / target}s")
        row = {"target_per_s": target, "cap_bytes": "", "accumulation": "", "probability": "", "forecast_per_s": "",
               "measured_per_s": high, "reached": "", "same_by_deadline": "yes"}
        if named:
            at = int(named["bucket_cap_bytes"]), int(named["accumulation"])
            row.update(cap_bytes=at[0], accumulation=at[1], probability=float(named["probability"]),
                       forecast_per_s=float(named["throughput_per_s"]), measured_per_s=measured[at],
                       reached="yes" if measured[at] >= target else "no")
        if bool(named) != bool(timed) or (named and any(named[k] != timed[k] for k in ("bucket_cap_bytes", "accumulation"))):
            row["same_by_deadline"] = "no"
        table.append(row)
    if len(sys.argv) > 5:
        with open(sys.argv[5], "w", newline="") as f:
            writer = csv.DictWriter(f, table[0])
            writer.writeheader()
            writer.writerows(table)
    for row in table:
        print("  ".join(f"{v:.4g}" if isinstance(v, float) else str(v) or "-" for v in row.values()))
    answered = [r for r in table if r["reached"]]
    print(f"{len(answered)} of {len(table)} targets have an answer; {sum(r['reached'] == 'yes' for r in answered)} of these were reached, "
          f"at a probability of {PROBABILITY:.0%} asked for; {sum(r['same_by_deadline'] == 'yes' for r in table)} are the same by a deadline")


main()
