#!/usr/bin/python3
"""GPT training step of PyTorch DDP over gloo, to compare with `lockstep run`.

The same model (weights read from a file that `lockstep run --export` wrote), the same tokens
(sample i of the data file starts at byte i * context; rank r reads samples r, r + K, ...), the same
optimizer, one thread a rank. Started once a rank with torchrun's variables. Rank 0 prints what it
computes with (bench/sides.py) as a line of JSON, then one line a step: step,seconds,loss (loss is
the mean over ranks).
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sides import torch_side
from torch_gpt2 import GPT, adamw, load_weights


def main():
    a = argparse.ArgumentParser(description=__doc__)
    for name in ("layers", "heads", "channels", "context", "vocab", "local-batch", "steps"):
        a.add_argument("--" + name, type=int, required=True)
    a.add_argument("--weights", required=True)
    a.add_argument("--data", required=True)
    a.add_argument("--learning-rate", type=float, required=True)
    a.add_argument("--weight-decay", type=float, required=True)
    a = a.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = GPT(a.layers, a.heads, a.channels, a.context, a.vocab)
    load_weights(model, a.weights)
    optimizer = adamw(model, a.learning_rate, a.weight_decay)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)

    data = np.fromfile(a.data, dtype=np.uint8)
    samples = (len(data) - 1) // a.context
    order = list(range(rank, samples - samples % world, world))
    losses, seconds = [], []
    for step in range(a.steps):
        start = time.perf_counter()
        picks = [order[(step * a.local_batch + i) % len(order)] for i in range(a.local_batch)]
        rows = np.stack([data[p * a.context : p * a.context + a.context + 1] for p in picks])
        rows = torch.from_numpy(rows.astype(np.int64))
        optimizer.zero_grad(set_to_none=False)
        loss = ddp(rows[:, :-1], rows[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    if rank == 0:
        print(json.dumps(torch_side()))
        for step in range(a.steps):
            print(f"{step},{seconds[step]:.9f},{mean[step].item() / world:.9f}")


if __name__ == "__main__":
    main()
