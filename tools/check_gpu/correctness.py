"""Parts that check results: suites of test_gpu, verified training, CUDA graphs, NCCL."""
import collections
import concurrent.futures
import os
import re
import shutil
import statistics
import time

from check_gpu.check import TAIL, Failed, NotRun, Skipped


# Suites of test_gpu, most telling first, with the most seconds of each. A part of a suite ("kernels/gelu") has its
# suite's; it runs beside the other parts, since their reference results take processors long, and they end together.
# NCCL's suite is a part of the check, as its ranks wait for each other.
SUITES = {"kernels": 35, "cudnn": 30, "records": 10, "graph": 20, "nvml": 5, "calibrate": 5}
OTHER_S = 5


def suites(c):
    """Run each suite in a process of its own, since an error of the GPU stays with its process."""
    _, said = c.run(c.program("test_gpu"), "--list")
    names = [name for name in said.split() if name != "nccl"]
    groups = list(dict.fromkeys(name.split("/")[0] for name in names))
    groups.sort(key=lambda group: list(SUITES).index(group) if group in SUITES else len(SUITES))
    c.env["LK_CUPTI_CAPTURE"] = os.path.abspath(c.file("cupti.txt"))
    figures = {name: {"status": "not run", "reason": "not reached"} for name in names}
    for group in groups:
        limit = c.limit(f"suites/{group}", SUITES.get(group, OTHER_S))
        until = time.monotonic() + limit

        def one(name):
            figures[name] = suite(c, name, limit, until)
            c.progress(figures)

        with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count() or 1, 12)) as pool:
            list(pool.map(one, [name for name in names if name.split("/")[0] == group]))
    return judged("suites", figures)


def judged(what, figures):
    """Return the figures of a part that has parts of its own, or raise what became of them."""
    of = collections.defaultdict(list)
    for name, v in figures.items():
        of[v["status"]].append(name)
    if of["fail"] or not figures:
        raise Failed(f"{what}: {', '.join(of['fail']) or 'none'}", figures)
    if of["not run"]:
        raise NotRun(f"{len(of['not run'])} of {len(figures)} {what}: {', '.join(of['not run'])}", figures)
    return figures, ", ".join(f"{len(names)} {status}" for status, names in of.items() if names)


def suite(c, name, own_s=None, until=None):
    start = time.monotonic()
    done = c.attempt(c.program("test_gpu"), name, own_s=own_s, until=until, good=range(256))
    row = ended(done) or suite_status(name, done.code, done.output)
    return {**row, "seconds": round(time.monotonic() - start, 2)}


def ended(done):
    """Return the row of a command that has no result, or None."""
    return {"status": done.why.status, "reason": done.why.reason(), "tail": done.output[-TAIL // 2 :]} if done.why else None


def suite_status(name, code, output):
    numbers = {k: float(v) for k, v in re.findall(r"^figure (\S+) (\S+)", output, re.M)}
    skipped = re.search(rf"^suite {name}: skipped: (.*)$", output, re.M)
    counted = re.search(rf"^suite {name}: (\d+) checks, (\d+) failed$", output, re.M)
    if skipped and code == 0:
        return {"status": "skipped", "reason": skipped[1]}
    if counted and code == 0:
        return {"status": "pass", "checks": int(counted[1]), **numbers}
    return {"status": "fail", "reason": f"exit code {code}", "tail": output[-TAIL // 2 :], **numbers}


def nccl(c):
    """Run NCCL's suite: one rank, and two that share the GPU."""
    row = suite(c, "nccl")
    stops = {stop.status: stop for stop in (Failed, NotRun, Skipped)}
    if row["status"] != "pass":
        raise stops[row["status"]](row["reason"], row)
    return row, f"{row['checks']} checks"


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
        for dtype in [*c.setup.dtypes, *c.setup.scaled]:
            more = ["--dtype", dtype] if dtype else []
            key = f"{model} {dtype or 'float32'}"
            figures[key] = verified(c, key.replace(" ", "-"), model, batch, steps, *more, *words)
            c.progress(figures)
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
        words = ["--no-trace", "--warmup", "0", "--steps", str(steps), "--dtype", dtype, "--deterministic"]
        plain = c.train(f"{dtype}-plain", *words, "--graph=no", model=model)[1]
        graph = c.train(f"{dtype}-graph", *words, "--graph=yes", model=model)[1]
        figures[dtype] = {"step_s": statistics.median(graph["step_s"][5:]),
                          "step_s_without": statistics.median(plain["step_s"][5:])}
        c.progress(figures)
        if graph["loss"] != plain["loss"]:
            raise Failed(f"{dtype}: other losses with a graph than without", figures)
    v = figures[c.setup.dtypes[-1]]
    return figures, f"same losses; a step {1e6 * v['step_s']:.0f} us, without {1e6 * v['step_s_without']:.0f} us"


def shared(c):
    # The GPU runs the ranks in turns, so a collective takes its time.
    words = ["-n", "2", "--comm", c.setup.comm, *c.setup.shared, "--timeout", "30s"]
    return each_dtype(c, "runs of 2 ranks verified", *words)


def gpus(c):
    n = c.machine.get("gpus", 0)
    if n < 2:
        raise Skipped("needs two GPUs")
    return each_dtype(c, "runs verified", "-n", str(min(n, 8)), "--comm", "nccl", "--timeout", "10s")


def sanitizer(c):
    """Run attention's suites, whose kernels share most memory between threads, under NVIDIA's checkers of memory accesses,
    races in shared memory and barriers."""
    program = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
    if not program:
        raise Skipped("no compute-sanitizer in PATH or in the toolkit")
    _, said = c.run(c.program("test_gpu"), "--list")
    names = [name for name in said.split() if name.startswith("kernels/") and "attention" in name]
    runs = [(name, tool) for name in names for tool in ("memcheck", "racecheck", "synccheck")]
    figures = {" ".join(run): {"status": "not run", "reason": "not reached"} for run in runs}
    for name, tool in runs:
        done = c.attempt(program, "--tool", tool, "--error-exitcode", "9", c.program("test_gpu"), name, good=range(256))
        figures[f"{name} {tool}"] = ended(done) or {"status": "fail" if done.code else "pass", "code": done.code,
                                                    "tail": done.output[-TAIL // 4 :]}
        c.progress(figures)
    return judged("compute-sanitizer", figures)
