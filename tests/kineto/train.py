#!/usr/bin/env python3
"""A DDP job over gloo: train.py RANKS STORE. The test puts the lines of `lockstep profile --snippet` where the capitals are.

PyTorch without Kineto (Debian's package) writes no shapes into its traces: the sizes of gradients are in an execution trace of
one step, beside them. At the end rank 0 prints the mean of the recorded steps by its own clock, but for the last, in which the
trace is written, and the recorder's count of all-reduces.
"""
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS, FIRST, RECORDED = 20, 10, 5


def main(rank, ranks, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    # BEFORE
    kind = getattr(torch.profiler, "ExecutionTraceObserver", None) or torch.profiler.ExecutionGraphObserver
    observer = kind()
    observer.register_callback(f"traces/rank{rank}.et.json")
    times = []
    for step in range(STEPS):
        times.append(time.perf_counter())
        if step == FIRST - 5:
            observer.start()
        loss = model(torch.randn(64, 512)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == FIRST - 5:
            observer.stop()
            observer.unregister_callback()
        # STEP
    # AFTER
    if rank == 0:
        last = FIRST + RECORDED - 1
        print(f"mean of the recorded steps by the script's clock: {1e3 * (times[last] - times[FIRST]) / (last - FIRST):.3f} ms")
        print("all-reduces:", sum(e.count for e in recorder.key_averages() if e.key == "gloo:all_reduce"))  # noqa: F821
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, (int(sys.argv[1]), sys.argv[2]), nprocs=int(sys.argv[1]))
