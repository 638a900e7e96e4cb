#!/usr/bin/env python3
"""What PyTorch writes of a DDP job, as inputs of tests: torch_traces.py --out DIR [--device cuda] [--ranks N]

A small model is trained for some steps under torch.profiler. Written of every rank R, as far as this PyTorch can:

    DIR/rankR.pt.trace.json.gz    torch.profiler's trace of three steps (Kineto)
    DIR/rankR.et.json.gz          the execution trace of one step
    DIR/rankR.flight.pickle, .json.gz   NCCL's Flight Recorder

Ranks that outnumber the GPUs reduce by gloo, since NCCL refuses to share one. Exit 77: no PyTorch.
"""
import argparse
import contextlib
import gzip
import os
import shutil
import sys
import tempfile

STEPS, LAYERS, WIDTH, BATCH = 8, 6, 256, 32


def make_model(torch):
    layers = [m for _ in range(LAYERS) for m in (torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))]
    return torch.nn.Sequential(*layers)


def execution_trace(torch, path):
    """Return an observer that writes execution traces to the path, or None: its name changed, and it may be missing."""
    kind = getattr(torch.profiler, "ExecutionTraceObserver", None) or getattr(torch.profiler, "ExecutionGraphObserver", None)
    if not kind:
        return None
    observer = kind()
    observer.register_callback(path)
    return observer


def pack(path, to):
    with open(path, "rb") as source, gzip.open(to, "wb") as target:
        shutil.copyfileobj(source, target)
    os.remove(path)


def flight_records(torch, stem):
    """Write what NCCL's Flight Recorder holds, if this PyTorch has one."""
    c10d = torch._C._distributed_c10d
    with contextlib.suppress(AttributeError):
        with open(stem + ".flight.pickle", "wb") as f:
            f.write(c10d._dump_nccl_trace())
    with contextlib.suppress(AttributeError):
        with gzip.open(stem + ".flight.json.gz", "wb") as f:
            f.write(c10d._dump_nccl_trace_json())


def train(rank, a, store):
    import torch
    import torch.distributed as dist

    cuda = a.device == "cuda"
    gpu = rank % max(torch.cuda.device_count(), 1)
    nccl = cuda and a.ranks <= torch.cuda.device_count()
    device = torch.device("cuda", gpu) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if nccl else "gloo", init_method=f"file://{store}", rank=rank, world_size=a.ranks)
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(make_model(torch).to(device), bucket_cap_mb=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.TensorDataset(torch.randn(BATCH * STEPS, WIDTH), torch.randn(BATCH * STEPS, WIDTH))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, pin_memory=cuda)
    stem = os.path.join(a.out, f"rank{rank}")
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if cuda else [])
    observer = execution_trace(torch, stem + ".et.json")
    with torch.profiler.profile(activities=kinds, schedule=torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1),
                                on_trace_ready=lambda p: p.export_chrome_trace(stem + ".pt.trace.json"), record_shapes=True) as profile:
        for step, (x, y) in enumerate(loader):
            if observer and step == 1:
                observer.start()
            loss = torch.nn.functional.mse_loss(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if observer and step == 1:
                observer.stop()
                observer.unregister_callback()
            profile.step()
    pack(stem + ".pt.trace.json", stem + ".pt.trace.json.gz")
    if observer:
        pack(stem + ".et.json", stem + ".et.json.gz")
    if nccl:
        torch.cuda.synchronize()
        flight_records(torch, stem)
    dist.barrier()
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--ranks", type=int, default=1)
    a = p.parse_args()
    try:
        import torch.multiprocessing
    except ImportError:
        print("no PyTorch here")
        return 77
    for name in ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"):  # the newer name is PyTorch 2.9's
        os.environ[name] = "2000"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.makedirs(a.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # A fork has PyTorch imported; CUDA allows none.
        method = {"cpu": "fork", "cuda": "spawn"}[a.device]
        torch.multiprocessing.start_processes(train, (a, os.path.join(folder, "store")), nprocs=a.ranks, start_method=method)
    return 0


if __name__ == "__main__":
    sys.exit(main())
