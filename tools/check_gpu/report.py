"""The result: a file for programs, a page for people, the summary on standard output."""
import collections
import json
import os
import time

from check_gpu import figures
from check_gpu.machine import commit

SCHEMA = {"schema": "lockstep-check-gpu", "version": 2}


def earlier(path, now):
    """Return the parts that an earlier check of this day, with these programs, left in the file."""
    try:
        with open(path) as f:
            then = json.load(f)
    except (OSError, ValueError):
        return []
    same = all(then.get(k) == now[k] for k in ("schema", "version", "commit", "device", "quick"))
    return then["parts"] if same and not now["commit"].endswith("changed") else []


def replace(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def write(c):
    """Write the result, each file in one step; return the path of the one for programs. Parts of an earlier check that
    are not among this one's stay."""
    result = {**SCHEMA, "date": c.machine["date"], "commit": commit(c), "device": c.a.device, "quick": c.a.quick, "machine": c.machine,
              "seconds": round(time.monotonic() - c.began, 1)}
    path = c.file("json")
    if c.earlier is None:
        c.earlier = [p for p in earlier(path, result) if p["name"] not in c.a.parts]
    c.table = figures.table(c.earlier + c.records, c.counts)
    result.update(parts=c.earlier + c.records, table=c.table)
    replace(path, json.dumps(result, indent=1) + "\n")
    replace(c.file("md"), page(result))
    return path


def number(value):
    return "" if value is None else f"{value:.4g}"


def page(result):
    """Return the result as a page: the figures with their limits, then the parts."""
    m = result["machine"]
    lines = [f"# {m['gpu'] or 'No GPU'}, {result['date']}", "",
             f"Commit {result['commit']}; {m['cpu']}, {m['cpus']} CPUs; PyTorch {m.get('torch') or 'none'}; {m.get('nvidia_smi') or 'no nvidia-smi'}."]
    lines += ["A small model, few steps: no result."] if result["quick"] else []
    lines += ["", "| figure | value | limit | verdict |", "|---|---|---|---|"]
    lines += [f"| {r['name']}{' (' + r['of'] + ')' if r['of'] else ''} | {number(r['value'])} | {r['limit']} | {r['verdict']} |" for r in result["table"]]
    lines += ["", "| part | status | seconds | |", "|---|---|---|---|"]
    lines += [f"| {p['name']} | {p['status']} | {p['seconds']} | {' '.join(p.get('reason', p.get('text', '')).split())} |" for p in result["parts"]]
    return "\n".join(lines) + "\n"


def summarise(c, path):
    """Print the table and the counts; return the exit code."""
    for r in c.table:
        if r["value"] is not None:
            print(f"  {r['name']:70s} {number(r['value']):>10s}  {r['limit']:8s} {r['verdict']}")
    counts = collections.Counter(r["status"] for r in c.records)
    print(f"check-gpu: {counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped, {counts['not run']} not run: {path}")
    return 1 if counts["fail"] else 0
