"""Parts that check results: kernels' suites, verified training, CUDA graphs, NCCL."""
import collections
import concurrent.futures
import os
import re
import shutil
import statistics

from check_gpu.check import TAIL, Failed, Skipped


def suites(c):
    """Run each suite in a process of its own, since an error of the GPU stays with its process. Parts of a suite
    ("kernels/gelu") run several at a time: their reference results take processors long."""
    _, names = c.run(c.program("test_gpu"), "--list")
    c.env["LK_CUPTI_CAPTURE"] = os.path.abspath(c.file("cupti.txt"))
    figures = {name: suite(c, name) for name in names.split() if "/" not in name and name != "nccl"}
    with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count() or 1, 12)) as pool:
        parts = [name for name in names.split() if "/" in name]
        figures.update(zip(parts, pool.map(lambda name: suite(c, name), parts)))
    # NCCL's suite comes last: its processes wait for each other, and may hang.
    figures.update({name: suite(c, name) for name in names.split() if name == "nccl"})
    failed = [name for name, v in figures.items() if v["status"] == "fail"]
    if failed or not figures:
        raise Failed(f"suites: {', '.join(failed) or 'none'}", figures)
    counts = collections.Counter(v["status"] for v in figures.values())
    return figures, ", ".join(f"{n} {status}" for status, n in counts.items())


def suite(c, name):
    try:
        code, output = c.run(c.program("test_gpu"), name, good=range(256))
    except Failed as e:
        return {"status": "fail", "reason": str(e)}
    return suite_status(name, code, output)


def suite_status(name, code, output):
    numbers = {k: float(v) for k, v in re.findall(r"^figure (\S+) (\S+)", output, re.M)}
    skipped = re.search(rf"^suite {name}: skipped: (.*)$", output, re.M)
    counted = re.search(rf"^suite {name}: (\d+) checks, (\d+) failed$", output, re.M)
    if skipped and code == 0:
        return {"status": "skipped", "reason": skipped[1]}
    if counted and code == 0:
        return {"status": "pass", "checks": int(counted[1]), **numbers}
    return {"status": "fail", "reason": f"exit code {code}", "tail": output[-TAIL // 2 :], **numbers}


def verified(c, name, model, batch, steps, *words):
    """Train with every step checked; the losses of a long run must fall."""
    words = ["--local-batch", str(batch), "--warmup", "0", "--steps", str(steps), "--no-trace", *words]
    _, result = c.train(name, "--verify", *words, model=model)
    loss, half = result["loss"], len(result["loss"]) // 2
    if result["verify_max_error"] is None:
        raise Failed(f"{name}: nothing was verified")
    if steps >= 20 and not statistics.fmean(loss[half:]) < statistics.fmean(loss[:half]):
        raise Failed(f"{name}: the loss does not fall: {loss}")
    return {**{k: result[k] for k in ("verify_max_error", "verify_allowed")}, "loss": loss}


def each_dtype(c, name, *words):
    figures = {}
    for model, batch, steps in c.setup.verified:
        for dtype in c.setup.dtypes:
            more = ["--dtype", dtype] if dtype else []
            key = f"{model} {dtype or 'float32'}"
            figures[key] = verified(c, key.replace(" ", "-"), model, batch, steps, *more, *words)
    worst = max(figures.values(), key=lambda f: f["verify_max_error"])
    return figures, (f"{len(figures)} {name}, largest error {worst['verify_max_error']:.1e}, "
                     f"{worst['verify_allowed']:.1e} allowed")


def ddp(c):
    return each_dtype(c, "runs verified")


def graph(c):
    """Train with and without a CUDA graph: the losses must be the same, bit for bit."""
    figures = {}
    for dtype in c.setup.dtypes:
        model, steps = c.setup.graph
        words = ["--no-trace", "--warmup", "0", "--steps", str(steps), "--dtype", dtype]
        plain = c.train(f"{dtype}-plain", *words, "--graph=no", model=model)[1]
        graph = c.train(f"{dtype}-graph", *words, "--graph=yes", model=model)[1]
        figures[dtype] = {"step_s": statistics.median(graph["step_s"][5:]),
                          "step_s_without": statistics.median(plain["step_s"][5:])}
        if graph["loss"] != plain["loss"]:
            raise Failed(f"{dtype}: other losses with a graph than without", figures)
    v = figures[c.setup.dtypes[-1]]
    return figures, f"same losses; a step {1e6 * v['step_s']:.0f} us, without {1e6 * v['step_s_without']:.0f} us"


def shared(c):
    words = ["-n", "2", "--comm", c.setup.comm, *c.setup.shared, "--timeout", "20s"]
    return each_dtype(c, "runs of 2 ranks verified", *words)


def nccl(c):
    gpus = c.machine.get("gpus", 0)
    if gpus < 2:
        raise Skipped("needs two GPUs")
    return each_dtype(c, "runs verified", "-n", str(min(gpus, 8)), "--comm", "nccl", "--timeout", "20s")


def sanitizer(c):
    """Run attention's suites, whose kernels share most memory between threads, under NVIDIA's checkers of memory accesses,
    races in shared memory and barriers."""
    program = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
    if not program:
        raise Skipped("no compute-sanitizer in PATH or in the toolkit")
    _, names = c.run(c.program("test_gpu"), "--list")
    figures = {}
    for name in [n for n in names.split() if n.startswith("kernels/") and "attention" in n]:
        for tool in ("memcheck", "racecheck", "synccheck"):
            try:
                code, output = c.run(program, "--tool", tool, "--error-exitcode", "9", c.program("test_gpu"), name, good=range(256))
            except Failed as e:
                figures[f"{name} {tool}"] = {"status": "fail", "reason": str(e)}
                continue
            figures[f"{name} {tool}"] = {"status": "pass" if code == 0 else "fail", "code": code, "tail": output[-TAIL // 4 :]}
    failed = [name for name, v in figures.items() if v["status"] == "fail"]
    if failed or not figures:
        raise Failed(f"compute-sanitizer: {', '.join(failed) or 'no suite of attention'}", figures)
    return figures, f"{len(figures)} runs of attention's suites without an error"
