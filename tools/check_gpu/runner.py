"""Runs the parts, each within its time, whatever becomes of the others."""
import os
import shutil
import signal
import sys
import time

from check_gpu import report
from check_gpu.check import TAIL, Check, Failed, NotRun, Skipped
from check_gpu.machine import describe, gpu_name, make_executable
from check_gpu.parts import PARTS, REST, REST_LEAST_S, WHOLE_S


def seconds(c, part):
    """Return a part's limit. The overhead also gets what the build left: more rounds narrow its interval."""
    usual = part.limit_s + (c.unused_s if part.name == "overhead" else 0)
    return c.a.limits.get(part.name, c.a.limits.get("all", usual))


def run_part(c, part):
    """Run one part within its time; return its row of the result file, whatever becomes of it."""
    c.part, limit = part.name, seconds(c, part)
    whole = c.a.limits.get("all", WHOLE_S)
    left = whole - (time.monotonic() - c.began)
    limit = left if limit == REST else limit
    row = {"name": part.name, "limit_s": round(limit)}
    start = time.monotonic()
    c.limit_s, c.limit_at = limit, start + min(limit, left)
    with open(os.path.join(c.work, part.name + ".log"), "wb") as c.log:
        try:
            if left < (REST_LEAST_S if part.limit_s == REST else 1):
                raise NotRun(f"{max(left, 0):.0f} s left of {whole:.0f}")
            if part.needs_gpu and c.a.device == "cpu":
                raise Skipped("needs a GPU")
            if not c.built:
                raise NotRun("not built")  # the programs there are older
            row["figures"], row["text"] = part.run(c)
            row["status"] = "pass"
        except NotRun as e:
            row.update(status="not run", reason=str(e))
        except Skipped as e:
            row.update(status="skipped", reason=str(e))
        except Failed as e:
            row.update(status="fail", reason=str(e.args[0]))
            if len(e.args) > 1:
                row["figures"] = e.args[1]
        except Exception as e:  # a fault of this script must not take the other parts with it
            row.update(status="fail", reason=f"check-gpu itself: {type(e).__name__}: {e}")
    row["seconds"] = round(time.monotonic() - start, 2)
    if part.name == "build":
        c.unused_s = max(limit - row["seconds"], 0)
    if row["status"] == "fail":
        with open(c.log.name, "rb") as f:
            row["tail"] = f.read()[-TAIL:].decode(errors="replace")
    print(f"  {part.name:10s} {row['status']:8s} {row['seconds']:6.1f} s  {row.get('reason', row.get('text', ''))}", flush=True)
    return row


def check(a):
    """Run all parts that the options name; return the exit code."""
    gpu = None if a.device == "cpu" else gpu_name()
    if a.device == "cuda" and not gpu:
        print("check-gpu: skipped: no GPU here, or no driver for it; nothing was checked", file=sys.stderr)
        return 77
    c = Check(a)
    signal.signal(signal.SIGTERM, lambda *_: c.end())
    if a.from_:
        make_executable(c.build)
    os.makedirs(a.out, exist_ok=True)
    describe(c, gpu)
    path = report.write(c)  # fails now where it cannot be written
    print(f"check-gpu: {gpu or 'no GPU, the script only'}, {c.machine['cpus']} CPUs", flush=True)
    try:
        for part in PARTS:
            if part.name in a.parts:
                c.records.append(run_part(c, part))
                path = report.write(c)  # after every part, so that a kill loses no result
    finally:
        if not a.keep:
            shutil.rmtree(c.work, ignore_errors=True)
    return report.summarise(c, path)
