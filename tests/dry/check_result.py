#!/usr/bin/env python3
"""Figures of `tools/check-gpu --quick` on the machine that is none: of the size and unit that the stand-ins, the options,
or arithmetic say.  tests/dry/check_result.py RESULT"""
import json
import sys

with open(sys.argv[1]) as f:
    d = json.load(f)
f = {p["name"]: p.get("figures") for p in d["parts"]}
table = {t["name"]: t for t in d["table"]}
calibrated = f["calibrate"]


def row(table, start):
    return next(r for name, r in table.items() if name.startswith(start))


CHECKS = [
    ("commit", d["commit"] == "0123456789abcdef"),
    ("quick", d["quick"] is True),
    ("GPU", d["machine"]["gpu"] == "NVIDIA H100 80GB HBM3" and d["machine"]["memory_bytes"] == 80 << 30),
    ("libraries", all(f["machine"]["libraries"][n]["path"].startswith("lib/") for n in ("nccl", "cupti", "cublaslt", "nvml"))),
    ("suites", {"records", "calibrate", "cudnn", "graph", "nvml", "kernels/gelu"} <= set(f["suites"])),
    ("nccl", f["nccl"]["checks"] > 0 and "nccl" not in f["suites"]),
    ("records", f["suites"]["records"]["largest_error"] < 0.01 and f["suites"]["records"]["launches"] == 20000),
    ("ddp", all(0 < v["verify_max_error"] < 0.2 and 5 < v["loss"][0] < 6 for v in f["ddp"].values())),
    ("shared", set(f["shared"]) == set(f["ddp"]) == {f"gpt-nano {t}" for t in ("float32", "bfloat16", "float16")}),
    ("job", f["job"]["step_s"] > 0 and f["job"]["preset"] == "dgx-h100"),
    ("power", f["nvml"]["GPU power (W)"]["mean"] == 640 and f["nvml"]["GPU SM clock (MHz)"]["mean"] == 1755),
    ("records", f["records"]["GPU records"] > f["records"]["kernels"] > 100 and f["records"]["dropped"] == 0),
    ("overhead", f["overhead"]["rounds"] == 2 and f["overhead"]["steps"] == 4 and f["overhead"]["step_s"] > 0),
    ("flop/s", calibrated["device"]["flops"]["unit"] == "flop/s" and 6e14 < calibrated["device"]["flops"]["value"] < 8e14),
    ("B/s", calibrated["device"]["memory_bandwidth"]["unit"] == "B/s"
     and 2.5e12 < calibrated["device"]["memory_bandwidth"]["value"] < 2.7e12),
    ("overlap", abs(calibrated["overlap"]["gamma_wire"]["value"] - 0.1) < 0.01 and calibrated["overlap"]["proxy"]),
    ("tables", any("surrogate" in line for line in calibrated["tables"])),
    ("graph", set(f["graph"]) == {"float32", "bfloat16"}),
    ("ranges", {"forward", "backward", "optimizer"} <= set(f["nsys"]["ranges"])),
    ("kernels", "16384x768x2304" in {k["shape"] for k in f["kernels"]["kernels"]}),
    ("attention", row(table, "cuDNN's attention")["value"] > 0),
    ("longest kernels", f["records"]["longest"][0]["us"] > 0 and "findings" in f["records"]),
    ("limits that always hold", all(row(table, n)["verdict"] == "met" for n in ("verified", "kernels of known", "GPU records"))),
    ("limits of results", row(table, "what recording")["verdict"] == "" and row(table, "what recording")["value"] is not None),
    ("not run", row(table, "GPT-2 124M, tokens/s over PyTorch's, compiled")["verdict"] == "not run"),
]
if f["torch"]:
    t, ratio = f["torch"], f["torch"]["ratio"]["ours / autocast+pad"]
    CHECKS += [
        ("PyTorch's losses", max(f["losses"]["difference"].values()) < 1e-4 and len(f["losses"]["difference"]) == 3),
        ("bfloat16's losses", max(t["losses"]["difference"].values()) < 1e-3),
        ("tokens/s", all(v["value"] > 0 for v in t["tokens_per_s"].values())),
        # cuDNN's attention is for GPUs: PyTorch refuses it on this machine's CPU.
        ("rounds", ratio["n"] == 2 and ratio["lo"] is None and all("cudnn" in e for e in t["errors"])),
        ("verdict", row(table, "GPT-2 124M, tokens/s")["verdict"] == "2 rounds, no interval"),
    ]

wrong = [name for name, right in CHECKS if not right]
print("\n".join(wrong) or "all as expected")
sys.exit(1 if wrong else 0)
