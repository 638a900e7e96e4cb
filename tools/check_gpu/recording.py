"""Parts about the recorder: CUPTI records, NVML counters, NVTX ranges, cost of recording."""
import collections
import contextlib
import glob
import gzip
import json
import os
import shutil
import statistics
import tarfile
import time

from check_gpu.check import ROOT, Failed, Skipped


def trace_of(run):
    with gzip.open(glob.glob(os.path.join(run, "*", "rank0.trace.json.gz"))[0], "rt") as f:
        return json.load(f)


def records(c):
    """Train with CUPTI; the trace must have kernels, none dropped."""
    words = ["--warmup", "3", "--steps", "8", "--local-batch", str(c.batch())]
    if c.a.device == "cuda":
        words += ["--dtype", "bfloat16", "--gpu-records=yes", "--gpu-record-steps", "3"]
    out, _ = c.train("run", *words)
    trace = trace_of(out)
    rank = trace["lockstep"]["ranks"][0]
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel" and e.get("ph") == "X"]
    figures = {"kernels": len(kernels), "dropped": rank["dropped"], "truncated": rank["truncated"]}
    for e in trace["traceEvents"]:  # the recorder's own counters: profiler/record/cupti.h
        if e.get("ph") == "C" and e["name"].startswith("GPU records"):
            figures[e["name"]] = e["args"]["value"]
        if e.get("ph") == "C" and e["name"].startswith("device clock error"):
            figures["clock_error_ns"] = max(e["args"]["value"], figures.get("clock_error_ns", 0))
    told = ("kernels", "GPU records", "GPU records without an op", "GPU records placed by time", "clock_error_ns")  # figures that may be above zero
    bad = [k for k, v in figures.items() if v and k not in told]
    if bad or not kernels or (c.a.device == "cuda" and not figures.get("GPU records")):
        raise Failed(f"records: {figures}", figures)
    time_us = collections.Counter()
    for e in kernels:
        time_us[e["name"]] += e["dur"]
    figures["longest"] = [{"kernel": name, "us": round(us, 1)} for name, us in time_us.most_common(12)]
    code, said = c.lockstep("analyze", out, "--format", "csv", "--table", "findings")
    figures["findings"] = [line for line in said.splitlines() if line.startswith(("launch_bound,", "recording_cost,", "lost_spans,", "gpu_records,"))]
    bound = any(line.startswith("launch_bound,") for line in figures["findings"])
    return figures, f"{len(kernels)} kernels, none dropped; {'' if bound else 'not '}launch bound"


def fixtures(c):
    """Bring home what PyTorch writes of this machine, as inputs of tests: traces of one and two ranks, execution traces,
    Flight Recorder dumps; as one file."""
    figures = {}
    for ranks in (1, 2):
        folder = c.path(f"{ranks}-rank")
        words = ["--device", c.a.device, "--ranks", str(ranks), "--out", folder]
        done = c.attempt(c.a.python, os.path.join(ROOT, "bench", "torch_traces.py"), *words, good=(0, 77))
        if done.code == 77:
            raise Skipped(done.output.strip().splitlines()[-1])
        figures[f"{ranks}-rank"] = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        pack(c, c.file("fixtures.tar.gz"), figures)
        if done.why:
            raise type(done.why)(done.why.reason(), figures)
        c.progress(figures)
    return figures, f"{sum(map(len, figures.values()))} files in {os.path.basename(c.file('fixtures.tar.gz'))}"


def pack(c, path, folders):
    with tarfile.open(path + ".new", "w:gz") as tar:
        for name in folders:
            if os.path.isdir(c.path(name)):
                tar.add(c.path(name), name)
    os.replace(path + ".new", path)


def nvml(c):
    """Read clock and power from the trace of the part job."""
    if not glob.glob(os.path.join(c.work, "job-run", "*", "rank0.trace.json.gz")):
        raise Skipped("the part job left no trace")
    values = collections.defaultdict(list)
    for e in trace_of(os.path.join(c.work, "job-run"))["traceEvents"]:
        if e.get("ph") == "C" and e["name"].startswith("GPU ") and not e["name"].startswith("GPU records"):
            values[e["name"]].append(e["args"]["value"])
    figures = {name: {"mean": statistics.fmean(v), "lo": min(v), "hi": max(v), "n": len(v)} for name, v in values.items()}
    clock, power = figures.get("GPU SM clock (MHz)"), figures.get("GPU power (W)")
    if not clock or not power:
        raise Failed("no clock or power in the trace", figures)
    return figures, f"{clock['mean']:.0f} MHz, {power['mean']:.0f} W in the mean of {clock['n']} samples"


def nsys(c):
    """Profile a run with Nsight Systems and look for lockstep's NVTX ranges."""
    import sqlite3  # not in every Python

    places = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", *glob.glob("/opt/nvidia/nsight-systems/*/bin")]
    nsys = shutil.which("nsys", path=os.pathsep.join(places))
    if not nsys or c.a.device == "cpu":
        raise Skipped("no nsys in PATH or where NVIDIA's packages put it" if not nsys else "needs a GPU")
    words = ["run", *c.setup.options, "--nvtx=yes", "--model", "gpt-nano", "--warmup", "0", "--steps", "5", "--out", "nsys-run"]
    c.run(nsys, "profile", "--trace=cuda,nvtx", "--sample=none", "--export=sqlite", "-o", "nsys-report",
          c.program("lockstep"), *words)
    with contextlib.closing(sqlite3.connect(c.path("report.sqlite"))) as db:
        rows = db.execute("SELECT DISTINCT coalesce(e.text, s.value) FROM NVTX_EVENTS e "
                          "LEFT JOIN StringIds s ON e.textId = s.id").fetchall()
    names = sorted({r[0] for r in rows if r[0]})
    lost = [w for w in ("forward", "backward", "optimizer") if not any(w in n for n in names)]
    if lost:
        raise Failed(f"no range {', '.join(lost)}", {"ranges": names})
    return {"ranges": names}, f"{len(names)} names of ranges"


def profile(c):
    """Record `lockstep run` as a job that nobody changes: kernels, collectives and steps must come out, the job's exit
    code must be kept, and another profiler left alone."""
    if not os.path.exists(c.program("liblockstep_profile.so")):
        raise Skipped("no liblockstep_profile.so beside lockstep")
    out, way = c.path("run"), ["profile", "--with=preload", "--delay=1ms", "--for=60s"]
    job = ["run", *c.setup.options, *c.setup.shared, "--comm", c.setup.comm, "-n", "2", "--model", "gpt-nano",
           "--gpu-records=no", "--warmup", "0", "--steps", "60", "--out", c.path("job")]
    _, said = c.lockstep(*way, "--out", out, "--", c.program("lockstep"), *job)
    told = [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith("lockstep profile: ")]
    if not any(line.startswith("recorded 2 of 2 ranks by the preload library") for line in told):
        raise Failed("not two ranks", {"told": told})
    with gzip.open(os.path.join(out, "rank0.trace.json.gz"), "rt") as f:
        events = [(e.get("cat"), e["name"]) for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    figures = {"told": told,
               "kernels": sum(cat == "kernel" for cat, _ in events),
               "collectives": sum(name.startswith("nccl:") for _, name in events),
               "steps": sum(name.startswith("ProfilerStep#") for _, name in events)}
    lost = [what for what in ("kernels", "collectives", "steps") if not figures[what]]
    _, other = c.run("env", "CUDA_INJECTION64_PATH=none", c.program("lockstep"), *way, "--out", c.path("none"), "--",
                     "sh", "-c", "echo $CUDA_INJECTION64_PATH; exit 3", good=(3,))
    if lost or "none" not in other.split() or "left to that profiler" not in other:
        raise Failed(f"no {', '.join(lost)}" if lost else "another profiler was not left alone", figures)
    return figures, f"{figures['kernels']} kernels, {figures['collectives']} collectives, {figures['steps']} steps"


def overhead(c):
    out, left = c.path("overhead.json"), c.limit_at - time.monotonic() - 3
    pairs, *words = c.setup.overhead
    if c.a.device == "cuda":  # the job that is compared with PyTorch's
        words.append(f"--job=--model={c.setup.big} --dtype=bfloat16 --local-batch={c.batch()}")
    c.run(c.program("bench/overhead"), pairs, "1", c.program("lockstep"), *words, "--time-limit", f"{left:.0f}s",
          "--json", out)
    with open(out) as f:
        figures = json.load(f)
    worst = max(figures["overhead"], key=lambda row: row["hi"])
    percent = [100 * worst[k] for k in ("value", "lo", "hi")]
    return figures, "%s %+.2f %% (%+.2f to %+.2f), %d rounds" % (worst["with"], *percent, figures["rounds"])
