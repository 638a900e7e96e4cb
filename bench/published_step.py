#!/usr/bin/env python3
"""Does the step model behind a table beat the scaling law alone on published series?

    bench/published_step.py [BUILD [nodes]]     nodes: the last table alone

The largest count of each series of published_scaling.csv (LOCKSTEP_DATA, default bench/data) whose model's size
is known (bench/model_sizes.csv), whose batch and throughput count the same thing, and whose machine has a preset, from
its smaller counts: by `lockstep predict --throughput` alone, and with --parameters and --cluster. The law's constants
have seen these series (bench/accuracy_scaling is the nested test); both forecasts use the same ones.
"""
import collections
import csv
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

build = sys.argv[1] if len(sys.argv) > 1 else "build"
os.environ["LOCKSTEP_LEDGER"] = "none"
data = os.environ.get("LOCKSTEP_DATA", "bench/data") + "/published_scaling.csv"
here = os.path.dirname(__file__) or "."
UNITS = ("img/s", "sequences/s", "samples/s", "sentences/s")
KEY = ("model", "gpu", "precision", "batch_per_gpu", "grad_accum", "seq_len_or_image", "interconnect")
# The first whose words are all in "GPU interconnect".
PRESETS = (
    (("DGX-2",), "dgx-2"),
    (("V100", "DGX-1"), "dgx-1-v100"),
    (("V100-SXM2",), "dgx-1-v100"),
    (("V100", "p3.16"), "dgx-1-v100"),
    (("LambdaCloud V100",), "dgx-1-v100"),
    (("A100", "DGX A100"), "dgx-a100"),
    (("A100", "SXM"), "dgx-a100"),
    (("A100", "PCI"), "pcie-a100"),
    (("H100", "SXM"), "dgx-h100"),
    (("H200",), "dgx-h200"),
    (("B200",), "dgx-b200"),
    (("L40S",), "pcie-l40s"),
    (("RTX",), "pcie-rtx4090"),
)


def read_sizes():
    with open(os.path.join(here, "model_sizes.csv")) as f:
        lines = [line for line in f if not line.startswith("# ")]
    return {r["model"]: float(r["parameters_millions"]) for r in csv.DictReader(lines)}


def preset_of(row):
    text = row["gpu"] + " " + row["interconnect"]
    return next((name for words, name in PRESETS if all(w in text for w in words)), None)


def read_series(sizes, least=3):
    series = collections.OrderedDict()
    with open(data) as f:
        for r in csv.DictReader(f):
            if not re.match("tier=[AB]", r["note"]) or not r["n_gpus"] or not r["throughput"]:
                continue
            key = (re.sub(r":L\d.*$", "", r["source"]),) + tuple(r[c] for c in KEY)
            gpus, per = int(float(r["n_gpus"])), int(float(r["gpus_per_node"] or 0))
            nodes = math.ceil(gpus / per) if per else 1
            series.setdefault(key, {})[gpus] = (nodes, float(r["throughput"]), r)
    for points in series.values():
        row = points[max(points)][2]
        if (len(points) >= least and row["model"] in sizes and preset_of(row) and row["unit"] in UNITS
                and re.fullmatch(r"\d+(\.0)?", row["batch_per_gpu"])):
            yield row, [(g,) + points[g][:2] for g in sorted(points)]


def amdahl(points, gpus):
    """Amdahl's law fitted to relative errors (sim/forecast/baseline.h): GPUs / throughput = a + b GPUs, a and b >= 0."""
    rows = [(g, g / t) for g, _, t in points]
    w = [1 / y ** 2 for _, y in rows]
    s = sum(w)
    x0, y0 = sum(c * g for c, (g, _) in zip(w, rows)) / s, sum(c * y for c, (_, y) in zip(w, rows)) / s
    xx = sum(c * (g - x0) ** 2 for c, (g, _) in zip(w, rows))
    b = max(0, sum(c * (g - x0) * (y - y0) for c, (g, y) in zip(w, rows)) / xx) if xx else 0
    a = y0 - b * x0
    if a < 0:
        a, b = 0, sum(c * g * y for c, (g, y) in zip(w, rows)) / sum(c * g * g for c, (g, _) in zip(w, rows))
    return gpus / (a + b * gpus)


def several_from_one(folder, series):
    """The smallest count on several nodes from the rows on one, by a preset; with Amdahl's law beside it."""
    results = []
    for row, points in series:
        one, more = [p for p in points if p[1] == 1], [p for p in points if p[1] > 1]
        if not one or not more:
            continue
        words = ["--parameters", f"{SIZES[row['model']]:g}M", "--cluster", preset_of(row)]
        for target in more[:2]:
            forecast = predict(folder, row, one + [target], words)
            if forecast:
                results.append((row["source"].split(":L")[0], row["model"], target, forecast, amdahl(one, target[0])))
    return results


def predict(folder, row, points, words):
    table, out = os.path.join(folder, "t.csv"), os.path.join(folder, "o.csv")
    batch = int(float(row["batch_per_gpu"]))
    accumulation = int(float(row["grad_accum"])) if re.fullmatch(r"\d+(\.0)?", row["grad_accum"]) else 1
    gpus, nodes, _ = points[-1]
    with open(table, "w") as f:
        f.write("gpus,nodes,throughput,local_batch,accumulation\n")
        for g, n, t in points[:-1]:
            f.write(f"{g},{n},{t:g},{batch},{accumulation}\n")
    command = [f"{build}/lockstep", "predict", "--throughput", table, "--gpus", str(gpus), "--gpus-per-node",
               str(gpus // nodes), "--csv", out] + words
    if subprocess.run(command, capture_output=True).returncode:
        return None
    with open(out) as f:
        r = next(csv.DictReader(f))
    samples = batch * accumulation * gpus
    return [samples / float(r[c]) for c in ("step_s", "step_hi_s", "step_lo_s")]


def score(name, forecasts):
    if not forecasts:
        return
    error = [abs(p / m - 1) * 100 for m, (p, lo, hi) in forecasts]
    inside = sum(lo <= m <= hi for m, (p, lo, hi) in forecasts)
    interval = [math.log(hi / lo) + 20 * max(0, math.log(lo / m), math.log(m / hi)) for m, (p, lo, hi) in forecasts]
    width = [math.log(hi / lo) for m, (p, lo, hi) in forecasts]
    scored = f"{inside} | {100 * statistics.mean(width):.1f} % | {statistics.mean(interval):.3f}" if any(width) else "no interval | - | -"
    print(f"| {name} | {len(error)} | {statistics.mean(error):.2f} / {statistics.median(error):.2f} / {max(error):.1f} | {scored} |")


SIZES = read_sizes()


def print_nodes():
    with tempfile.TemporaryDirectory() as folder:
        nodes = several_from_one(folder, read_series(SIZES, 2))
    print("\n| several nodes from one node's rows and a preset | points | error: mean / median / worst % | inside | mean width |"
          " score |\n|---|---|---|---|---|---|")
    score("**lockstep**", [(p[2], f) for _, _, p, f, _ in nodes])
    score("Amdahl's law", [(p[2], (a, a, a)) for _, _, p, _, a in nodes])


def main():
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row, points in read_series(SIZES):
            law = predict(folder, row, points, [])
            step = predict(folder, row, points, ["--parameters", f"{SIZES[row['model']]:g}M", "--cluster", preset_of(row)])
            results.append((row["note"][5], points[-1], law, step))
    print("| series | n | error: mean / median / worst % | inside | mean width | score |\n|---|---|---|---|---|---|")
    for tier in "AB":
        for name, use in (("one node", lambda p: p[1] == 1), ("several nodes", lambda p: p[1] > 1)):
            both = [r for r in results if r[0] == tier and use(r[1]) and r[2] and r[3]]
            only = [r for r in results if r[0] == tier and use(r[1]) and not r[2] and r[3]]
            score(f"tier {tier}, {name}: law alone", [(p[2], law) for _, p, law, _ in both])
            score(f"tier {tier}, {name}: with the step model", [(p[2], step) for _, p, _, step in both])
            score(f"tier {tier}, {name}: refused by the law alone", [(p[2], step) for _, p, _, step in only])


if sys.argv[2:] != ["nodes"]:
    main()
print_nodes()
