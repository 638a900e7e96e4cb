#!/usr/bin/env python3
"""Reading a Kineto trace, beside HolisticTraceAnalysis and TraceLens: import_peers.py TRACE --lockstep FILE [--hta DIR] [--tracelens DIR]

TRACE, plain or gzipped, is made longer (--copies): its events are repeated with later times, other correlations and steps.
Each tool reads it by its documented way, in turns, every time in a process of its own: lockstep analyze (reads, and prints the
breakdown and the tables), HTA's TraceAnalysis and get_temporal_breakdown, TraceLens's TraceToTree and GPUEventAnalyser. Printed:
seconds, MB/s of the unpacked JSON, peak memory, and the ratios of the rounds to lockstep's. DIR: a checkout of the tool.
"""
import argparse
import gzip
import os
import re
import statistics
import subprocess
import sys
import tempfile

HTA = """
import logging, sys
sys.path.insert(0, sys.argv[1])
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
print(TraceAnalysis(trace_files={0: sys.argv[2]}, trace_dir="").get_temporal_breakdown(visualize=False).to_string())
"""
TRACELENS = """
import sys
sys.path.insert(0, sys.argv[1])
from TraceLens import TreePerfAnalyzer
print(TreePerfAnalyzer.from_file(sys.argv[2]).get_df_gpu_timeline().to_string())
"""


def lengthen(trace, copies):
    """Return the text with its events repeated; the array of events is the last one that holds a "ph"."""
    begin = trace.index("[", trace.index('"traceEvents"')) + 1
    end = trace.index("]", trace.rindex('"ph"'))
    while trace[end - 1] not in "}\n ":
        end = trace.index("]", end + 1)
    body, parts = trace[begin:end], []
    for i in range(copies):
        b = re.sub(r'("correlation": ?)(\d+)', lambda m: m[1] + str(int(m[2]) + 10_000_000 * i), body)
        b = re.sub(r'("ts": ?)(\d+)', lambda m: m[1] + str(int(m[2]) + 1_000_000 * i), b)
        parts.append(re.sub(r"ProfilerStep#(\d+)", lambda m: f"ProfilerStep#{int(m[1]) + 100 * i}", b))
    return trace[:begin] + ",".join(parts) + trace[end:]


# Run by a small process of its own: a child's peak memory counts that of its parent before it became another program.
MEASURE = """
import os, subprocess, sys, time
before = time.monotonic()
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
output = p.stdout.read()
_, status, usage = os.wait4(p.pid, 0)
if status:
    sys.exit(output.decode(errors="replace")[-800:])
print(time.monotonic() - before, usage.ru_maxrss / 1024)
"""


def measure(command):
    """Return seconds and peak memory, MB, of a command."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.stderr}")
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trace")
    p.add_argument("--lockstep", required=True)
    p.add_argument("--hta")
    p.add_argument("--tracelens")
    p.add_argument("--copies", type=int, default=10)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    with (gzip.open if a.trace.endswith(".gz") else open)(a.trace, "rt") as f:
        text = lengthen(f.read(), a.copies)
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "rank0.json")
        with open(plain, "w") as f:
            f.write(text)
        subprocess.run(["gzip", "-k", plain], check=True)
        arms = {"lockstep": [a.lockstep, "analyze", plain], "lockstep, gzipped": [a.lockstep, "analyze", plain + ".gz"]}
        if a.hta:
            arms["HTA"] = [sys.executable, "-c", HTA, a.hta, plain]
        if a.tracelens:
            arms["TraceLens"] = [sys.executable, "-c", TRACELENS, a.tracelens, plain]
        rounds = [{name: measure(command) for name, command in arms.items()} for _ in range(a.rounds)]
    size = len(text.encode()) / 1e6
    print(f"{size:.0f} MB of JSON, {text.count(chr(34) + 'ph' + chr(34))} events, {a.rounds} rounds, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    for name in arms:
        seconds = [r[name][0] for r in rounds]
        ratios = [r[name][0] / r["lockstep"][0] for r in rounds]
        print(f"{name:18s} {statistics.median(seconds):8.3f} s  {size / statistics.median(seconds):7.1f} MB/s  "
              f"{max(r[name][1] for r in rounds):7.0f} MB  {statistics.median(ratios):7.1f} x lockstep's time ({min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    main()
