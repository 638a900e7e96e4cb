"""Parts that measure: GPT-2 beside PyTorch's, a job with its forecast, kernels, calibration."""
import json
import os
import re
import shutil
import statistics
import sys
import time

from check_gpu.check import ROOT, Failed, Skipped
from check_gpu.figures import fastest
from check_gpu.setups import PRESETS


def job(c):
    """Record a step of GPT-2 and forecast it. Spans alone are recorded, so that the file holds no cost of CUPTI."""
    dtype = ["--dtype", "bfloat16", "--gpu-records=no"] if c.a.device == "cuda" else []
    out, result = c.train("run", *dtype, "--local-batch", str(c.batch()), "--warmup", "5", "--steps", str(c.setup.steps))
    shutil.copy(os.path.join(out, "job.json"), c.file("job.json"))
    step = statistics.median(result["step_s"][5:])
    figures = {"step_s": step, "job": os.path.basename(c.file("job.json"))}
    gpu = c.machine.get("gpu", "")
    preset = "ethernet-25g" if c.a.device == "cpu" else next((p for word, p in PRESETS if word in gpu), None)
    if not preset:
        raise Failed(f"no preset for '{gpu}'", figures)
    c.lockstep("predict", c.file("job.json"), os.path.join(ROOT, "clusters", preset + ".json"), "--gpus", "1,8,64",
               "--out", c.file("forecast.json"), "--csv", c.file("forecast.csv"))
    figures.update(preset=preset, forecast=os.path.basename(c.file("forecast.json")))
    return figures, f"step {1e3 * step:.2f} ms; 8 and 64 GPUs on {preset}"


def kernels(c):
    _, output = c.run(c.program("bench/kernels_cuda"))
    rows = re.findall(r"^(\w+) +(\S+) +(float32|bfloat16) +([\d.]+) +([\d.]+) +([\d.]+)$", output, re.M)
    if not rows:
        raise Failed("no rows")
    figures = [{"op": r[0], "shape": r[1], "dtype": r[2], "ms": float(r[3]), "Tflop_per_s": float(r[4]),
                "GB_per_s": float(r[5])} for r in rows]
    return {"kernels": figures}, f"{len(rows)} rows"


def calibrate(c):
    out = c.path("cluster.json")
    _, said = c.lockstep("calibrate", *c.setup.calibrate, "--verbose", "--out", out)
    shutil.copy(out, c.file("cluster.json"))
    with open(out) as f:
        cluster = json.load(f)
    figures = {"file": os.path.basename(c.file("cluster.json"))}
    figures.update({k: cluster.get(k, {}) for k in ("device", "overlap")}, tables=said.splitlines())
    if c.a.device == "cuda" and not figures["overlap"]:
        raise Failed("nothing of the overlap in the cluster file", figures)
    values = {k: v["value"] for group in ("device", "overlap") for k, v in figures[group].items() if isinstance(v, dict)}
    text = ", ".join(f"{k} {values[k]:.3g}" for k in ("flops", "memory_bandwidth", "gamma_wait", "gamma_wire", "delta") if k in values)
    return figures, text


def beside_torch(c, *words):
    """Run bench/gpu_torch.py, which begins no round that it could not end; return its figures."""
    out, left = c.path("torch.json"), c.limit_at - time.monotonic()
    command = [sys.executable, os.path.join(ROOT, "bench", "gpu_torch.py"), "--python", c.a.python, "--json", out]
    command += ["--lockstep", c.program("lockstep"), "--device", c.a.device, "--limit", f"{left - 5:.0f}", *words]
    code, output = c.run(*command, good=(0, 1, 77))
    said = (output.strip().splitlines() or ["nothing said"])[-1]
    if code == 77:
        raise Skipped(said)
    if not os.path.exists(out):
        raise Failed(said)
    with open(out) as f:
        figures = json.load(f)
    if code:
        raise Failed(said, figures)
    return figures


def losses(c):
    """Compare losses in float32 at both ends. On a GPU products are tf32."""
    agree = "1e-4" if c.a.device == "cpu" else "1e-3"
    figures = beside_torch(c, "--dtype", "float32", "--model", "gpt-nano", "--theirs", "float32,float32+ddp", "--rounds", "1",
                    "--warmup", "0", "--steps", "10", "--local-batch", "4", "--agree", agree, "--learning-rate", "1e-3")
    worst = max(figures["losses"]["difference"].values())
    if figures["errors"]:
        raise Failed(f"{figures['errors']}", figures["losses"])
    return figures["losses"], f"largest difference {worst:.1e}, relative"


def fastest_text(figures):
    value, name = fastest(figures)
    v = figures["ratio"][name]
    interval = f" ({v['lo']:.3f} to {v['hi']:.3f})" if v["n"] > 1 else ""
    return f"{name}: {value:.3f}{interval}"


def torch(c):
    figures = beside_torch(c, *c.setup.torch, "--local-batch", str(c.batch()))
    return figures, fastest_text(figures)


def compile(c):
    """Compare with torch.compile, which takes most of a minute before its first step."""
    figures = beside_torch(c, *c.setup.compile, "--local-batch", str(c.batch()))
    return figures, fastest_text(figures)


def attention(c):
    """Train with our own attention and with cuDNN's in turns; return a step of each and the ratios of the rounds."""
    words = ["--dtype", "bfloat16", "--no-trace", "--local-batch", str(c.batch()), "--warmup", "5", "--steps", str(c.setup.steps)]
    step_s = {"own": [], "cudnn": []}
    for i in range(2):
        for kind in step_s:
            _, result = c.train(f"{kind}-{i}", *words, *c.setup.cudnn, f"--attention={kind}")
            step_s[kind].append(statistics.median(result["step_s"][5:]))
    ratios = [b / a for a, b in zip(step_s["own"], step_s["cudnn"])]
    return ({"step_s": step_s, "ratios": ratios, "cudnn / own": statistics.median(ratios)},
            f"a step with cuDNN's over one with ours: {', '.join(f'{r:.3f}' for r in ratios)}")
