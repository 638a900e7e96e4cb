"""The result: a file for programs, a page for people, the logs, the summary on standard output."""
import collections
import json
import os
import time

from check_gpu import figures, logs
from check_gpu.parts import PARTS

SCHEMA = {"schema": "lockstep-check-gpu", "version": 3}
TELLS = {"not run": 0, "skipped": 1, "pass": 2, "fail": 2}  # which of two rows of a part stays


class Unfit(Exception):
    """An earlier result that cannot be merged: why."""


def head(c):
    """Return what two results must have alike to be merged, and the rest of what stands before the parts."""
    return {**SCHEMA, "date": c.machine["date"], "commit": c.commit, "device": c.a.device, "quick": c.a.quick, "machine": c.machine}


def read(path, now):
    """Return an earlier result, which must be of these programs on such a device."""
    try:
        with open(path) as f:
            then = json.load(f)
        differ = [k for k in ("schema", "version", "commit", "device", "quick") if then[k] != now[k]]
        gpus = then["machine"]["gpu"], now["machine"]["gpu"]
        then["parts"][0]["status"]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as e:
        raise Unfit(f"no result of check-gpu: {type(e).__name__}: {e}") from None
    if differ:
        raise Unfit(f"its {differ[0]} is {then[differ[0]]}, and here it is {now[differ[0]]}")
    if gpus[0] != gpus[1]:
        raise Unfit(f"it is of {gpus[0]}, and here is {gpus[1]}")
    if now["commit"] == "unknown" or now["commit"].endswith("changed"):
        raise Unfit(f"the commit is '{now['commit']}', which does not tell whether the programs are the same")
    return then


def take_earlier(c):
    """Take the parts and logs of this day's earlier checks, if they fit, and of --merge FILE, which must fit."""
    now = head(c)
    for path in filter(None, [c.a.merge, c.file("json")]):
        try:
            then = read(path, now)
        except Unfit as e:
            if path == c.a.merge:
                raise Unfit(f"--merge {path}: {e}") from None
            continue
        c.earlier = together(then["parts"], c.earlier)
        c.earlier_logs.update(logs.read(path[: -len("json")] + "logs.tar.gz"))
        for key, value in then["machine"].items():  # what a part found that this call may leave out
            if c.machine.get(key) is None:
                c.machine[key] = value


def together(rows, earlier):
    """Return the rows of both, in the order of the parts: of two of a part, the one that tells more, or the later."""
    best = {row["name"]: row for row in earlier}
    for row in rows:
        old = best.get(row["name"], row)
        if told(row) >= told(old):
            best[row["name"]] = row
    order = [part.name for part in PARTS]
    return sorted(best.values(), key=lambda row: order.index(row["name"]) if row["name"] in order else len(order))


def told(row):
    return TELLS[row["status"]], row["status"] == "not run" and bool(row.get("figures"))  # cut off tells more than not reached


def replace(c, path, text):
    """Write a file in one step, without the folders of this machine."""
    with open(path + ".new", "w") as f:
        f.write(logs.without_folders(c, text.encode()).decode())
    os.replace(path + ".new", path)


def write(c):
    """Write the result, each file in one step; return the path of the one for programs."""
    with c.lock:
        rows = together(c.rows.values(), c.earlier)
        c.table = figures.table(rows, c.counts)
        result = {**head(c), "seconds": round(time.monotonic() - c.began, 1), "parts": rows, "table": c.table}
        replace(c, c.file("json"), json.dumps(result, indent=1) + "\n")
        replace(c, c.file("md"), page(result))
        logs.write(c, c.file("logs.tar.gz"))
        return c.file("json")


def number(value):
    return "" if value is None else f"{value:.4g}"


def words(row):
    return " ".join(row.get("reason", row.get("text", "")).split())


def page(result):
    """Return the result as a page: the figures with their limits, then the parts."""
    m = result["machine"]
    lines = [f"# {m['gpu'] or 'No GPU'}, {result['date']}", "",
             f"Commit {result['commit']}; {m['cpu']}, {m['cpus']} CPUs; PyTorch {m.get('torch') or 'none'}; {m.get('nvidia_smi') or 'no nvidia-smi'}."]
    lines += ["A small model, few steps: no result."] if result["quick"] else []
    lines += ["", "| figure | value | limit | verdict |", "|---|---|---|---|"]
    lines += [f"| {r['name']}{' (' + r['of'] + ')' if r['of'] else ''} | {number(r['value'])} | {r['limit']} | {r['verdict']} |" for r in result["table"]]
    lines += ["", "| part | status | seconds | |", "|---|---|---|---|"]
    lines += [f"| {p['name']} | {p['status']} | {p['seconds']} of {p['limit_s']} | {words(p)} |" for p in result["parts"]]
    return "\n".join(lines) + "\n"


def summarise(c, path):
    """Print the table and the counts; return the exit code."""
    for r in c.table:
        if r["value"] is not None:
            c.say(f"  {r['name']:70s} {number(r['value']):>10s}  {r['limit']:8s} {r['verdict']}")
    counts = collections.Counter(r["status"] for r in c.rows.values())
    c.say(f"check-gpu: {counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped, {counts['not run']} not run: {path}")
    write(c)  # the summary is in the logs, too
    return 1 if counts["fail"] else 0
