"""Parts that measure: GPT-2 beside PyTorch's, a job with its forecast, kernels, calibration."""
import json
import os
import re
import shutil
import statistics
import sys
import time

from check_gpu.check import ROOT, Failed, NotRun, Skipped
from check_gpu.figures import fastest
from check_gpu.setups import PRESETS

TOO_LATE = 75  # exit code of bench/gpu_torch.py: not one round, or not one of PyTorch's variants, ended within --limit


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
               "--out", c.file("forecast.json"))
    figures.update(preset=preset, forecast=os.path.basename(c.file("forecast.json")))
    return figures, f"step {1e3 * step:.2f} ms; 8 and 64 GPUs on {preset}"


def kernel_rows(output):
    """Return the rows of bench/kernels_cuda: times, or why the library refused ("OP SHAPE DTYPE refused: REASON")."""
    rows = []
    for op, shape, dtype, rest in re.findall(r"^(\w+) +(\S+) +(float32|bfloat16) +(\S.*)$", output, re.M):
        row, told = {"op": op, "shape": shape, "dtype": dtype}, re.fullmatch(r"([\d.]+) +([\d.]+) +([\d.]+)", rest.strip())
        if told:
            row.update(ms=float(told[1]), Tflop_per_s=float(told[2]), GB_per_s=float(told[3]))
        elif rest.startswith("refused: "):
            row["refused"] = rest.strip()[len("refused: "):]
        else:
            continue
        rows.append(row)
    return rows


def kernels(c):
    """Time each kernel; whatever becomes of the program, the rows that it printed are kept."""
    done = c.attempt(c.program("bench/kernels_cuda"))
    rows = kernel_rows(done.output)
    refused = sum("refused" in row for row in rows)
    text = f"{len(rows) - refused} rows" + (f", {refused} refused" if refused else "")
    if done.why:
        raise type(done.why)(f"{done.why.reason()} ({text} before)", {"kernels": rows})
    if len(rows) == refused:
        raise Failed(text, {"kernels": rows})
    return {"kernels": rows}, text


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


def figures_of(path):
    """Return what bench/gpu_torch.py has written so far, or None."""
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def beside_torch(c, *words):
    """Run bench/gpu_torch.py, which begins no round that it could not end; return its figures. They are kept round by
    round, whatever becomes of the later ones."""
    out, left, seen = c.path("torch.json"), c.limit_at - time.monotonic(), []

    def keep():
        now = figures_of(out)
        if now and now != (seen and seen[-1]):
            seen[:] = [now]
            c.progress(now)

    command = [sys.executable, os.path.join(ROOT, "bench", "gpu_torch.py"), "--python", c.a.python, "--json", out]
    command += ["--lockstep", c.program("lockstep"), "--device", c.a.device, "--limit", f"{left - 5:.0f}", *words]
    done = c.attempt(*command, good=(0, 1, TOO_LATE, 77), watch=keep)
    said, figures = (done.output.strip().splitlines() or ["nothing said"])[-1], figures_of(out)
    if done.why:
        raise type(done.why)(done.why.reason(), figures)
    if done.code == 77:
        raise Skipped(said)
    if done.code == TOO_LATE:
        raise (NotRun if c.cut else Failed)(said, figures)
    if done.code or not figures:
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


def tokens(c, options):
    """Compare the speed; a ratio needs an interval, and an interval three rounds."""
    figures = beside_torch(c, *options, "--local-batch", str(c.batch()))
    value, name, few = fastest(figures)
    v = figures["ratio"][name]
    text = f"{name}: {value:.3f} ({few or '%.3f to %.3f' % (v['lo'], v['hi'])})"
    if few and c.counts:
        raise NotRun(text, figures)
    return figures, text


def torch(c):
    return tokens(c, c.setup.torch)


def compile(c):
    """Compare with torch.compile, which takes most of a minute before its first step."""
    return tokens(c, c.setup.compile)
