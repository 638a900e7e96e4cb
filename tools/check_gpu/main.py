"""Checks lockstep on this machine's GPU and writes what came of it.

Builds for the GPU (or takes what was built elsewhere: --from), runs every part below, each within
its time, whatever became of the others, and writes

    OUT/gpu-NAME-DATE.json            machine, status and figures of every part
    OUT/gpu-NAME-DATE.md              the same as a page: figures with limits and verdicts, parts
    OUT/gpu-NAME-DATE.logs.tar.gz     what every part's programs printed
    OUT/gpu-NAME-DATE.job.json        a step of GPT-2 124M on this GPU
    OUT/gpu-NAME-DATE.forecast.json   its forecast on the preset of such GPUs
    OUT/gpu-NAME-DATE.cluster.json    what calibrate measured
    OUT/gpu-NAME-DATE.cupti.txt       records of CUPTI, for tests

NAME is the GPU's, DATE the day in UTC. The first three are written after every part, so that a kill
loses no result. A second run on a day replaces the first, part by part where the programs are the
same; --merge FILE takes the parts of a run elsewhere. "fail" is said of a part that is wrong or did
not end within its own time, "not run" of one that was cut off before, or not reached. Exit 0:
nothing failed; 1: something failed, or the check was ended; 2: usage; 77: no GPU.

    tools/check-gpu                        from a checkout: make check-gpu
    tools/check-gpu --from build/gpu       with the programs of `make gpu-bundle`
    tools/check-gpu --quick --out /tmp/x   every part with a small model: does all of it run?
    tools/check-gpu --more --merge FILE    the parts that wait for a second call, added to the first's FILE
    tools/check-gpu --device cpu --out /tmp/x   the same parts without a GPU: tests this script only
    tools/check-gpu --claims               does docs/support.md claim what the result files show, and no more?

Needs Python alone, and PyTorch for the parts that compare with it.
"""
import argparse
import os
import sys

from check_gpu.check import ROOT
from check_gpu.claims import claims
from check_gpu.correctness import SUITES
from check_gpu.parts import PARTS, REST, WHOLE_S
from check_gpu.report import Unfit
from check_gpu.runner import check


def parse():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder")
    a.add_argument("--from", dest="from_", metavar="FOLDER", help="take the programs of a bundle, build nothing")
    a.add_argument("--out", help="folder for what is written (bench/results)")
    a.add_argument("--merge", metavar="FILE", help="an earlier result of these programs on such a GPU: parts that are not run now are taken from it")
    a.add_argument("--parts", help="only these, separated by ','")
    a.add_argument("--limit", action="append", default=[], metavar="PART=SECONDS",
                   help="another time for a part or a suite (suites/records); all=SECONDS: for each and for all")
    a.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    a.add_argument("--quick", action="store_true", help="a small model, few steps: does everything run? No result")
    a.add_argument("--more", action="store_true", help="the parts that the whole leaves out")
    a.add_argument("--python", default=sys.executable, help="that has PyTorch")
    a.add_argument("--keep", metavar="FOLDER", help="leave runs and logs here")
    a.add_argument("--list", action="store_true", help="parts and their times")
    a.add_argument("--claims", nargs="?", const=os.path.join(ROOT, "docs", "support.md"), metavar="FILE", help="check the table of docs/support.md")
    p = a.parse_args()
    names = [part.name for part in PARTS]
    p.parts = p.parts.split(",") if p.parts else [part.name for part in PARTS if part.more == p.more]
    if set(p.parts) - set(names):
        a.error(f"no part {', '.join(sorted(set(p.parts) - set(names)))}; there are: {', '.join(names)}")
    try:
        p.limits = {k: float(v) for k, v in (x.split("=") for x in p.limit)}
    except ValueError:
        a.error("--limit takes PART=SECONDS")
    known = [*names, *(f"suites/{name}" for name in SUITES), "all"]
    if set(p.limits) - set(known):
        a.error(f"--limit: there are: {', '.join(known)}")
    if p.quick and p.device == "cpu":
        a.error("--quick is for GPUs")
    if (p.quick or p.device == "cpu") and not p.out and not (p.list or p.claims):
        a.error(f"--{'quick' if p.quick else 'device cpu'} wants --out: its file is no result")
    if p.keep and os.path.isdir(p.keep) and os.listdir(p.keep):
        a.error(f"--keep: {p.keep} is not empty")
    if os.sep in p.python:
        p.python = os.path.abspath(p.python)  # programs run in a folder of their own
    p.out = p.out or os.path.join(ROOT, "bench", "results")
    return p


def list_parts():
    """Print the parts with their times; return 1 if a call has more than WHOLE_S of them."""
    for part in PARTS:
        limit = "the rest" if part.limit_s == REST else f"{part.limit_s:6d} s"
        print(f"{part.name:14s} {limit}  {part.purpose}{' (--more)' if part.more else ''}")
        for name, limit_s in SUITES.items() if part.name == "suites" else ():
            print(f"  {name:12s} {limit_s:6d} s")
    totals = [sum(part.limit_s for part in PARTS if part.more == more and part.name != "build") for more in (False, True)]
    print(f"{'all':14s} {totals[0]:6d} s of {WHOLE_S}, with --more {totals[1]} s; the build has its own time")
    return 0 if max(totals) <= WHOLE_S else 1


def main():
    """Read the command line and do what it says; return the exit code."""
    a = parse()
    if a.list:
        return list_parts()
    if a.claims:
        wrong = claims(a.claims)
        for line in wrong:
            print(f"check-gpu: {a.claims}: {line}", file=sys.stderr)
        return 1 if wrong else 0
    try:
        return check(a)
    except Unfit as e:
        print(f"check-gpu: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"check-gpu: {e}", file=sys.stderr)
        return 1
