"""Runs the parts, each within its time, whatever becomes of the others."""
import os
import resource
import shutil
import signal
import sys
import time

from check_gpu import report
from check_gpu.check import ENDING, TAIL, Check, Ended, NotRun, Skipped, Stop
from check_gpu.machine import describe, gpu_name, make_executable
from check_gpu.parts import MORE_ROUNDS_S, PARTS, REST, REST_FULL_S, REST_LEAST_S, WHOLE_S


def seconds(c, part, left):
    """Return a part's limit. The overhead also gets what the parts before it left: more rounds narrow its interval."""
    usual = part.limit_s
    if part.name == "overhead":
        to_come = sum(p.limit_s or REST_LEAST_S for p in PARTS[PARTS.index(part):] if p.name in c.a.parts)
        usual += min(max(left - to_come, 0), MORE_ROUNDS_S)
    limit = c.limit(part.name, usual)
    return max(left, REST_FULL_S) if limit == REST else limit


def refuse(c, part, left):
    """Raise why a part does not run."""
    if left < (REST_LEAST_S if part.limit_s == REST else 1):
        raise NotRun(f"{max(left, 0):.0f} s left of {c.limit('all', WHOLE_S):.0f}")
    if part.needs_gpu and c.a.device == "cpu":
        raise Skipped("needs a GPU")
    if not c.built:
        raise NotRun("not built")  # the programs there are older


def attempt_part(c, part, left):
    """Run one part; fill its row, whatever becomes of it."""
    row = c.row
    try:
        refuse(c, part, left)
        row["figures"], row["text"] = part.run(c)
        row["status"] = "pass"
    except Stop as e:
        row.update(status=e.status, reason=e.reason())
        if e.figures():
            row["figures"] = e.figures()
    except Ended as e:
        row.update(reason=f"{c.late('check-gpu was ended').reason()} by {e}")
        raise
    except Exception as e:  # a fault of this script must not take the other parts with it
        row.update(status="fail", reason=f"check-gpu itself: {type(e).__name__}: {e}")


def children_s():
    """Return the processors' seconds of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_part(c, part):
    """Run one part within its time and write its row of the result."""
    left = c.whole_at - time.monotonic() if part.name != "build" else seconds(c, part, 0)
    limit = seconds(c, part, left)
    c.row = row = c.rows[part.name]
    row.update(limit_s=round(limit), reason="begun, and check-gpu ended before it")  # as long as it runs
    c.begin(part.name, limit, left)
    c.write()
    computed = children_s()
    with open(os.path.join(c.work, part.name + ".log"), "wb") as c.log:
        try:
            attempt_part(c, part, left)
        finally:
            row["seconds"] = round(time.monotonic() - c.part_at, 2)
            row["computed_s"] = round(children_s() - computed, 2)
            if row["status"] == "pass":
                del row["reason"]
            if row["status"] in ("fail", "not run"):
                with open(c.log.name, "rb") as f:
                    row["tail"] = f.read()[-TAIL:].decode(errors="replace")
            c.say(f"  {part.name:10s} {row['status']:8s} {row['seconds']:6.1f} s  {report.words(row)}")
            c.write()
    if part.name == "build":
        c.whole_at += row["seconds"]  # where the programs are built elsewhere, it takes none


def run_parts(c):
    """Run the parts that the options name; return the exit code."""
    c.write = lambda: report.write(c)
    c.rows = {part.name: {"name": part.name, "status": "not run", "reason": "not reached", "seconds": 0, "limit_s": part.limit_s,
                          "date": c.machine["date"]} for part in PARTS if part.name in c.a.parts}
    path = report.write(c)  # fails now where it cannot be written
    c.say(f"check-gpu: {c.machine['gpu'] or 'no GPU, the script only'}, {c.machine['cpus']} CPUs")
    try:
        for part in PARTS:
            if part.name in c.a.parts:
                run_part(c, part)
    except Ended as e:
        c.say(f"check-gpu: ended by {e}")
        return report.summarise(c, path) or 1
    return report.summarise(c, path)


def check(a):
    """Check as the options say; return the exit code."""
    gpu = None if a.device == "cpu" else gpu_name()
    if a.device == "cuda" and not gpu:
        print("check-gpu: skipped: no GPU here, or no driver for it; nothing was checked", file=sys.stderr)
        return 77
    c = Check(a)
    for number in ENDING:
        signal.signal(number, c.end)
    if a.from_:
        make_executable(c.build)
    try:
        os.makedirs(a.out, exist_ok=True)
        describe(c, gpu)
        report.take_earlier(c)
        c.whole_at = time.monotonic() + c.limit("all", WHOLE_S)
        return run_parts(c)
    except Ended:
        return 1  # before the first part
    finally:
        c.processes.end_all()
        if not a.keep:
            shutil.rmtree(c.work, ignore_errors=True)
