#!/usr/bin/python3
"""Training step of PyTorch DDP over gloo, of a GPT or of a ResNet for CIFAR-10, to compare with `lockstep run`.

The same model (weights read from a file that `lockstep run --export` wrote), the same samples
(sample i of a text starts at byte i * context; rank r reads samples r, r + K, ...), the same
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
import torch_images
from torch_gpt2 import GPT, adamw, load_weights


class Texts:
    def __init__(self, a):
        self.model = GPT(a.layers, a.heads, a.channels, a.context, 256)
        load_weights(self.model, a.weights)
        self.data, self.context = np.fromfile(a.data, dtype=np.uint8), a.context
        self.samples = (len(self.data) - 1) // a.context

    def loss(self, ddp, picks):
        rows = np.stack([self.data[p * self.context : (p + 1) * self.context + 1] for p in picks])
        rows = torch.from_numpy(rows.astype(np.int64))
        return ddp(rows[:, :-1], rows[:, 1:])


class Images:
    def __init__(self, a):
        self.model = torch_images.ResNet(a.layers, a.channels, 32, 3, 10)
        torch_images.load(self.model, torch_images.tensors(a.weights))
        self.pixels, self.classes = torch_images.images(a.data, 0, None)
        self.samples = len(self.classes)

    def loss(self, ddp, picks):
        return torch.nn.functional.cross_entropy(ddp(self.pixels[picks].float()), self.classes[picks])


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--model", default="gpt", choices=("gpt", "resnet"))
    for name in ("layers", "channels", "local-batch", "steps"):
        a.add_argument("--" + name, type=int, required=True)
    for name in ("heads", "context"):
        a.add_argument("--" + name, type=int)
    a.add_argument("--weights", required=True)
    a.add_argument("--data", required=True)
    a.add_argument("--learning-rate", type=float, required=True)
    a.add_argument("--weight-decay", type=float, required=True)
    a = a.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    side = Images(a) if a.model == "resnet" else Texts(a)
    optimizer = adamw(side.model, a.learning_rate, a.weight_decay)
    ddp = DistributedDataParallel(side.model, gradient_as_bucket_view=True)

    order = list(range(rank, side.samples - side.samples % world, world))
    losses, seconds = [], []
    for step in range(a.steps):
        start = time.perf_counter()
        picks = [order[(step * a.local_batch + i) % len(order)] for i in range(a.local_batch)]
        optimizer.zero_grad(set_to_none=False)
        loss = side.loss(ddp, picks)
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
