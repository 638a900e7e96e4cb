"""Train a network of images by PyTorch's DistributedDataParallel in torch.distributed.algorithms.Join, on ranks that run
out of samples at different steps, and compare the weights and running statistics with those of `lockstep run`.

    torch_join.py BEFORE AFTER DATA KIND LAYERS CHANNELS BATCH INITIAL|ACTIVE COUNT,COUNT,...

Rank r of R reads samples r, r + R, ... of DATA, COUNT of them, in batches of BATCH of which the last may be short.
"""
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import torch_images  # noqa: E402


def train(rank, a, counts, store):
    before, after, data, kind, layers, channels, batch, divide = a
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=len(counts), init_method="file://" + store)
    x, y = torch_images.images(data, 0, None)
    network = {"resnet": torch_images.ResNet, "vgg": torch_images.Vgg}[kind]
    model = network(int(layers), int(channels), x.shape[2], x.shape[1], 10).double()
    torch_images.load(model, torch_images.tensors(before))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    own = range(rank, len(x), len(counts))[: counts[rank]]
    with Join([ddp], divide_by_initial_world_size=divide == "initial"):
        for i in range(0, len(own), int(batch)):
            at = list(own[i : i + int(batch)])
            optimizer.zero_grad()
            F.cross_entropy(ddp(x[at]), y[at]).backward()
            optimizer.step()
    if rank == 0:
        ours, worst = torch_images.tensors(after), 0.0
        for name, v in [*model.named_parameters(), *model.named_buffers()]:
            if "num_batches" not in name:
                worst = max(worst, np.abs(ours[name] - v.detach().numpy().ravel()).max())
        print(f"worst {worst:.1e}")
        if not worst < 1e-4:
            os._exit(1)
    dist.barrier()


if __name__ == "__main__":
    counts = [int(c) for c in sys.argv[9].split(",")]
    # A fork has PyTorch imported.
    mp.start_processes(train, args=(sys.argv[1:9], counts, os.path.abspath("join.store")), nprocs=len(counts), start_method="fork")
