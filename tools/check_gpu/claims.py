"""Holds the table of docs/support.md against the result files in bench/results."""
import glob
import json
import os
import re

from check_gpu.parts import FEATURES
from check_gpu.report import SCHEMA

NOT_RUN = "built, not yet run on a GPU"
RUN = re.compile(r"run on ([^,|]+), (\d{4}-\d\d-\d\d) \(\[result\]\(([^)]+)\)\)")


def passes(result, name):
    """Return whether a part, or a suite of the part suites, passed in a result file."""
    part, _, suite = name.partition("/")
    row = next((r for r in result["parts"] if r["name"] == part), {"status": "missing"})
    if suite:
        figures = row.get("figures", {})
        rows = [v for k, v in figures.items() if k == suite or k.startswith(suite + "/")]
        return bool(rows) and all(v["status"] == "pass" for v in rows)
    return row["status"] == "pass"


def claims(table):
    """Return a line for each claim of the file that the result files do not support, or that is missing."""
    folder = os.path.dirname(os.path.abspath(table))
    with open(table) as f:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in f if line.startswith("|")]
    results = {}
    for path in sorted(glob.glob(os.path.join(folder, "..", "bench", "results", "gpu-*.json"))):
        with open(path) as f:
            found = json.load(f)
        if found.get("schema") == SCHEMA["schema"] and found["device"] == "cuda" and not found.get("quick"):
            results[os.path.relpath(path, folder)] = found
    wrong = []
    for feature, needed in FEATURES:
        wrong += claim(feature, [r[1] for r in rows if len(r) == 2 and r[0].startswith(feature)],
                       {p: r for p, r in results.items() if all(passes(r, n) for n in needed)})
    for row in rows:
        if len(row) == 2 and RUN.search(row[1]) and not any(row[0].startswith(f) for f, _ in FEATURES):
            wrong.append(f"'{row[0]}' claims a run that no part of check-gpu can show")
    return wrong


def claim(feature, states, passing):
    """Check one feature's row; `passing` holds the result files in which the feature passed."""
    if len(states) != 1:
        return [f"'{feature}' has {len(states)} rows in the table, not one"]
    claimed = {m[2]: m for m in RUN.findall(states[0])}
    wrong = [f"'{feature}' claims {p}, in which it did not pass" for p in claimed if p not in passing]
    for path, m in claimed.items():
        if path in passing and (m[0] != passing[path]["machine"]["gpu"] or m[1] != passing[path]["date"]):
            wrong.append(f"'{feature}': {path} is of {passing[path]['machine']['gpu']}, {passing[path]['date']}")
    if not claimed and passing:
        wrong.append(f"'{feature}' does not say that it ran: {sorted(passing)[-1]}")
    if not claimed and NOT_RUN not in states[0]:
        wrong.append(f"'{feature}' says neither 'run on NAME, DATE ([result](FILE))' nor '{NOT_RUN}'")
    return wrong
