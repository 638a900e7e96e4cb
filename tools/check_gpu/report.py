"""The result file and the summary on standard output."""
import collections
import json
import os
import time

from check_gpu.machine import commit

SCHEMA = {"schema": "lockstep-check-gpu", "version": 1}


def write(c):
    """Write the result file in one step; return its path."""
    result = {**SCHEMA, "date": c.machine["date"], "commit": commit(c), "device": c.a.device, "quick": c.a.quick, "machine": c.machine,
              "seconds": round(time.monotonic() - c.began, 1), "parts": c.records, "targets": c.targets}
    path = c.file("json")
    with open(path + ".new", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)
    return path


def summarise(c, path):
    """Print targets and counts; return the exit code."""
    for t in c.targets:
        if t["met"] is not None:
            print(f"  target {'met' if t['met'] else 'NOT MET'}: {t['name']} {t['bound']:g}: {t['value']:.4g} {t.get('of', '')}")
    counts = collections.Counter(r["status"] for r in c.records)
    print(f"check-gpu: {counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped: {path}")
    return 1 if counts["fail"] else 0
