#!/usr/bin/python3
"""Schemes of data parallelism of PyTorch over gloo against `lockstep run`: hooks, ZeRO-1, local SGD.

Both train the same perceptron from the same weights on the same windows of a text; what they have learnt is compared.

    bench/torch_schemes.py --ranks=2 --steps=9 --local-batch=4 --context=12 --data=TEXT --learning-rate=0.05 \\
        BEFORE SCHEME=AFTER ...

BEFORE and AFTER are files of weights of `lockstep run --model=mlp --export`, with plain SGD, --momentum=0.9 for zero1.
SCHEME is ddp, fp16, zero1, zero1-adamw, local-sgd (period 3 behind 2 steps of DDP), or powersgd:FOLDER, whose FOLDER has the run's
checkpoints of every step: PyTorch's hook gets the factors of the one behind step 3, the first that is compressed, and the errors of all
ranks are compared with the last one's. PyTorch 1.13's bf16 hook needs NCCL.

Prints a line a scheme: the largest difference of weights over the largest change of one, and with powersgd that of the errors over
the largest error. Fails where a bound is exceeded: 1e-4, with fp16 1e-2 (both round a sum of two to 2^-11, in another order).
"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks as default_hooks
import torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook as post_local
import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook as power
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from torch_images import load, tensors

PERIOD, LOCAL_FROM, POWERSGD_FROM, POWERSGD_RANK = 3, 2, 3, 2
BOUND, BOUND_FP16 = 1e-4, 1e-2


class Mlp(nn.Module):
    """layers.N.weight and .bias, as lockstep names them; bytes become numbers from -1 to 1."""

    def __init__(self, weights):
        super().__init__()
        names = [n for n in weights if n.endswith("weight")]
        outputs = [weights[n.replace("weight", "bias")].size for n in names]
        self.layers = nn.ModuleList(nn.Linear(weights[n].size // o, o) for n, o in zip(names, outputs))
        load(self, weights)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else F.relu(x))
        return x


def safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return {
        name: np.frombuffer(data[8 + size + e["data_offsets"][0] : 8 + size + e["data_offsets"][1]], "<f4")
        for name, e in header.items()
        if name != "__metadata__" and e["dtype"] == "F32"
    }


class PowerSgd:
    """PyTorch's hook, which starts from the factors of a checkpoint of ours, and keeps what its buckets hold."""

    def __init__(self, model, folder, steps):
        self.names = {id(p): n for n, p in model.named_parameters()}
        self.first = safetensors(f"{folder}/step-{POWERSGD_FROM:09d}.safetensors")
        self.last = safetensors(f"{folder}/step-{steps:09d}.safetensors")
        self.state = power.PowerSGDState(None, POWERSGD_RANK, POWERSGD_FROM, 2)
        self.buckets = {}

    def hook(self, _, bucket):
        k, params = bucket.index(), bucket.parameters()
        self.buckets[k] = params
        if self.state.iter >= POWERSGD_FROM and k not in self.state.p_memory_dict:
            qs, n_p = [], 0
            for p in params:
                q = self.first.get("powersgd.q." + self.names[id(p)])
                if q is not None:
                    r = min(*p.shape, POWERSGD_RANK)
                    qs.append(torch.from_numpy(q.reshape(r, -1).T.copy()).flatten())  # ours is transposed
                    n_p += p.shape[0] * r
            self.state.p_memory_dict[k] = torch.empty(n_p)
            self.state.q_memory_dict[k] = torch.cat(qs) if qs else torch.empty(0)
        return power.powerSGD_hook(self.state, bucket)

    def errors(self, rank, world):
        """The largest difference of this rank's errors from ours, which are of a gradient over the ranks; the largest error."""
        worst = largest = 0
        for k, params in self.buckets.items():
            at = 0
            for p in params:
                theirs = self.state.error_dict[k][at : at + p.numel()].numpy() / world
                at += p.numel()
                ours = self.last.get(("" if rank == 0 else f"rank.{rank}.") + "powersgd.error." + self.names[id(p)])
                if ours is not None:
                    worst, largest = max(worst, np.abs(ours - theirs).max()), max(largest, np.abs(theirs).max())
        return float(worst), float(largest)


def optimizer(scheme, params, rate):
    if scheme == "zero1":
        return ZeroRedundancyOptimizer(params, torch.optim.SGD, lr=rate, momentum=0.9)
    if scheme == "zero1-adamw":
        return ZeroRedundancyOptimizer(params, torch.optim.AdamW, lr=rate, betas=(0.9, 0.95), eps=1e-3, weight_decay=0)
    sgd = torch.optim.SGD(params, lr=rate)
    return PostLocalSGDOptimizer(sgd, PeriodicModelAverager(PERIOD, LOCAL_FROM)) if scheme == "local-sgd" else sgd


def train(a, scheme, folder, before, data):
    """The weights that PyTorch has after the steps, and the errors of PowerSGD."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model = Mlp(before)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    powersgd = PowerSgd(model, folder, a.steps) if scheme == "powersgd" else None
    if scheme == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif scheme == "local-sgd":
        alone = [dist.new_group([r]) for r in range(world)][rank]
        ddp.register_comm_hook(post_local.PostLocalSGDState(None, alone, LOCAL_FROM), post_local.post_localSGD_hook)
    elif powersgd:
        ddp.register_comm_hook(None, powersgd.hook)
    step_by = optimizer(scheme, model.parameters(), a.learning_rate)
    samples = (len(data) - 1) // a.context
    order = range(rank, samples - samples % world, world)
    for step in range(a.steps):
        picks = [order[step * a.local_batch + i] for i in range(a.local_batch)]
        x = np.stack([data[p * a.context : (p + 1) * a.context] for p in picks]).astype(np.float32) * np.float32(2 / 255) - 1
        y = torch.from_numpy(np.array([data[(p + 1) * a.context] for p in picks], dtype=np.int64))
        step_by.zero_grad()
        F.cross_entropy(ddp(torch.from_numpy(x)), y).backward()
        step_by.step()
    weights = {n: p.detach().numpy().ravel().copy() for n, p in model.named_parameters()}
    return weights, powersgd.errors(rank, world) if powersgd else (0.0, 1.0)


def compare(a, before, data):
    bad = 0
    for case in a.schemes:
        scheme, _, after = case.partition("=")
        scheme, _, folder = scheme.partition(":")
        theirs, errors = train(a, scheme, folder, before, data)
        everyone = [None] * a.ranks
        dist.all_gather_object(everyone, errors)
        if dist.get_rank():
            continue
        ours = tensors(after)
        moved = max(np.abs(ours[n] - before[n]).max() for n in before)
        off = max(np.abs(ours[n] - theirs[n]).max() for n in before) / moved
        error = max(e for e, _ in everyone) / max(e for _, e in everyone)
        print(f"{scheme}: weights {off:.1e}" + (f", errors {error:.1e}" if folder else ""), flush=True)
        bad |= max(off, error) > (BOUND_FP16 if scheme == "fp16" else BOUND)
    return bad


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ranks", "steps", "local-batch", "context"):
        a.add_argument("--" + name, type=int, required=True)
    a.add_argument("--data", required=True)
    a.add_argument("--learning-rate", type=float, required=True)
    a.add_argument("before")
    a.add_argument("schemes", nargs="+")
    a = a.parse_args()
    torch.set_num_threads(1)
    before, data = tensors(a.before), np.fromfile(a.data, dtype=np.uint8)
    store = tempfile.mktemp()
    children = []
    for rank in range(1, a.ranks):
        children.append(os.fork())
        if not children[-1]:
            children = None
            break
    else:
        rank = 0
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=a.ranks)
    bad = compare(a, before, data)
    dist.destroy_process_group()
    if children is None:
        os._exit(0)
    for child in children:
        bad |= os.waitpid(child, 0)[1] != 0
    sys.exit(1 if bad else 0)


main()
