#!/usr/bin/python3
"""PyTorch's DDP over gloo with timed compute, on hosts of tests/net/hosts: evidence and truth for bench/net.

One process is one rank, by torchrun's variables. Autograd functions wait instead of computing, a
layer at a time, and hand back gradients of the sizes that a job file lists, so that DDP's hooks,
buckets, overlap and reducer are its own.

  net_torch.py JOB OUT --sweep          all-reduces of many sizes: OUT.csv, as `lockstep import` reads
  net_torch.py JOB OUT CAP:ACC ...      trains with each bucket cap and accumulation: OUT-CAP-aACC.json,
                                        a job file with that one run, and OUT-CAP-aACC.hosts, the
                                        processor time
  net_torch.py JOB OUT --traces CAP:ACC ...
                                        the same, and then some steps under torch.profiler:
                                        OUT-CAP-aACC.traces/, as `lockstep import` reads
  net_torch.py JOB OUT --alone          times the model without DDP: OUT.json, the job as a user would
                                        write it by hand
  net_torch.py JOB OUT --merge RUN...   OUT.json: JOB with the runs of other job files
"""
import gzip
import json
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, WARMUP, TRACED = 8, 2, 5
SWEEP_BYTES = [4096 * 4**i for i in range(6)]
MIB = 1 << 20
BATCH = 8


class Timed(torch.autograd.Function):
    """Waits, forward and backward; gradients of the parameters come out of backward."""

    @staticmethod
    def forward(ctx, x, forward_s, backward_s, *params):
        ctx.backward_s, ctx.params = backward_s, params
        time.sleep(forward_s)
        return x + 0

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.backward_s)
        return (grad, None, None) + tuple(torch.ones_like(p) for p in ctx.params)


class Layer(nn.Module):
    def __init__(self, tensors, forward_s, backward_s):
        super().__init__()
        self.own = nn.ParameterList(nn.Parameter(torch.zeros(t["elements"])) for t in tensors)
        self.forward_s, self.backward_s = forward_s, backward_s

    def forward(self, x):
        return Timed.apply(x, self.forward_s, self.backward_s, *self.own)


def layers_of(job):
    """Tensors of one layer share all of their name but its end; ready when the first of them is."""
    layers = []
    for t in job["gradients"]:
        name = t["name"].rsplit(".", 1)[0]
        if not layers or layers[-1][0] != name:
            layers.append((name, []))
        layers[-1][1].append(t)
    return [tensors for _, tensors in layers]


def seconds(row, what):
    return row[what]["value"] / 1000


def model_of(job):
    row = job["compute"][0]
    forward, backward = seconds(row, "forward"), seconds(row, "backward")
    layers = layers_of(job)
    ends = [tensors[0]["ready"] for tensors in layers] + [0]
    shares = [max(0, ends[i] - ends[i + 1]) for i in range(len(layers))]
    return nn.Sequential(
        *(Layer(t, forward * s, backward * s) for t, s in zip(layers, shares))
    )


def timed(what, spans, kind):
    began = time.perf_counter()
    what()
    spans.setdefault(kind, []).append(time.perf_counter() - began)


def step(model, optimizer_s, accumulation, spans):
    x = torch.ones(1, requires_grad=True)
    for micro in range(accumulation):
        last = micro == accumulation - 1
        with model.no_sync() if not last and hasattr(model, "no_sync") else torch.enable_grad():
            out = []
            timed(lambda: out.append(model(x).sum()), spans, "forward")
            timed(out[0].backward, spans, "backward")
    with torch.profiler.record_function("Optimizer.step#timed"):
        timed(lambda: time.sleep(optimizer_s), spans, "optimizer")
    for p in model.parameters():
        p.grad.zero_()


def steps(model, job, accumulation):
    spans, times = {}, []
    for i in range(STEPS + WARMUP):
        if i == WARMUP:
            spans, before = {}, cpu_seconds()
            whole = time.perf_counter()
        began = time.perf_counter()
        step(model, seconds(job["compute"][0], "optimizer"), accumulation, spans)
        times.append(time.perf_counter() - began)
    return times[WARMUP:], spans, cpu_seconds() - before, time.perf_counter() - whole


def cpu_seconds():
    """Of the whole machine: user, nice, system, irq, softirq, steal."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK")


def quantity(values, source):
    v = sorted(values)
    return {"value": sum(v) / len(v), "unit": "s", "lo": v[0], "hi": v[-1], "n": len(v), "source": source}


def written_job(job):
    """As a user would write it by hand: gradients, and the layers' shares of backward."""
    ready = [t[0]["ready"] for t in layers_of(job) for _ in t]
    return {
        "schema": "lockstep-job", "version": 1, "name": job["name"], "ddp_rule": "torch-1.13",
        "first_bucket_bytes": MIB, "bucket_cap_bytes": MIB,
        "gradients": [dict(t, ready=r) for t, r in zip(job["gradients"], ready)],
        "compute": job["compute"],
    }


def alone(job, out):
    _, spans, _, _ = steps(model_of(job), job, 1)
    row = {k: quantity(spans[k], "timed alone") for k in ("forward", "backward", "optimizer")}
    with open(out + ".json", "w") as f:
        json.dump(dict(written_job(job), compute=[dict(row, local_batch=BATCH)]), f, indent=1)


def merge(job, out, runs):
    """OUT.json: the job with the runs of other job files."""
    both = []
    for path in runs:
        with open(path) as f:
            both += json.load(f)["runs"]
    with open(out + ".json", "w") as f:
        json.dump(dict(job, runs=both), f, indent=1)


def sweep(out):
    world = dist.get_world_size()
    rows = []
    for size in SWEEP_BYTES:
        buffer, times = torch.ones(size // 4), []
        for i in range(8):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(buffer)
            if i > 1:
                times.append(time.perf_counter() - began)
        rows.append((size, sorted(times)[len(times) // 2]))
    if dist.get_rank() == 0:
        with open(out + ".csv", "w") as f:
            f.write("collective,gpus,nodes,bytes,seconds\n")
            for size, s in rows:
                f.write(f"all_reduce,{world},{world},{size},{s:.9f}\n")


def pack(path):
    with open(path, "rb") as source, gzip.open(path + ".gz", "wb") as target:
        shutil.copyfileobj(source, target)
    os.remove(path)


def trace(model, job, accumulation, folder):
    """Trace steps by torch.profiler, and one more by the observer of execution, which knows the sizes of buckets."""
    stem = f"{folder}/rank{dist.get_rank()}"
    observer = getattr(torch.profiler, "ExecutionTraceObserver", None) or torch.profiler.ExecutionGraphObserver
    observer = observer()
    os.makedirs(folder, exist_ok=True)
    observer.register_callback(stem + ".et.json")
    optimizer_s = seconds(job["compute"][0], "optimizer")
    observer.start()
    step(model, optimizer_s, accumulation, {})
    observer.stop()
    observer.unregister_callback()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                schedule=torch.profiler.schedule(wait=0, warmup=1, active=TRACED, repeat=1)) as p:
        for _ in range(1 + TRACED):
            step(model, optimizer_s, accumulation, {})
            p.step()
    p.export_chrome_trace(stem + ".pt.trace.json")
    pack(stem + ".pt.trace.json")
    pack(stem + ".et.json")


def train(job, out, config, traces):
    cap, accumulation = (int(v) for v in config.split(":"))
    model = DistributedDataParallel(model_of(job), bucket_cap_mb=cap / MIB)
    times, _, cpu_s, wall_s = steps(model, job, accumulation)
    if traces:
        trace(model, job, accumulation, f"{out}-{cap}-a{accumulation}.traces")
    world = dist.get_world_size()
    if dist.get_rank() != 0:
        return
    run = {"source": "torch " + torch.__version__, "gpus": world, "nodes": world, "local_batch": BATCH,
           "accumulation": accumulation, "no_sync": True, "first_bucket_bytes": MIB,
           "bucket_cap_bytes": cap, "step_s": times}
    with open(f"{out}-{cap}-a{accumulation}.json", "w") as f:
        json.dump(dict(written_job(job), runs=[run]), f)
    with open(f"{out}-{cap}-a{accumulation}.hosts", "w") as f:
        f.write(f"name,value\nwall_s,{wall_s}\nprocessors,{os.cpu_count()}\n"
                f"ranks_cpu_s,{cpu_s}\ninterrupt_cpu_s,0\n")


def main():
    torch.set_num_threads(1)
    with open(sys.argv[1]) as f:
        job = json.load(f)
    out, what = sys.argv[2], sys.argv[3:]
    if what == ["--alone"]:
        alone(job, out)
        return
    if what[:1] == ["--merge"]:
        merge(job, out, what[1:])
        return
    dist.init_process_group("gloo")
    for w in what:
        if w == "--sweep":
            sweep(out)
        elif w != "--traces":
            train(job, out, w, "--traces" in what)
    dist.barrier()
    dist.destroy_process_group()


main()
