#!/usr/bin/python3
"""GPT training step of PyTorch DDP over gloo, to compare with `lockstep run`.

The same model (weights read from a file that `lockstep run --export` wrote), the same tokens
(sample i of the data file starts at byte i * context; rank r reads samples r, r + K, ...), the same
optimizer, one thread a rank. Started once a rank with torchrun's variables. Rank 0 prints one line
a step: step,seconds,loss (loss is the mean over ranks).
"""
import argparse
import json
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(channels)
        self.attn = nn.ModuleDict(
            {"c_attn": nn.Linear(channels, 3 * channels), "c_proj": nn.Linear(channels, channels)}
        )
        self.ln_2 = nn.LayerNorm(channels)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(channels, 4 * channels), "c_proj": nn.Linear(4 * channels, channels)}
        )

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.attn["c_attn"](self.ln_1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // self.heads))
        att = F.softmax(att.masked_fill(mask, float("-inf")), dim=-1)
        x = x + self.attn["c_proj"]((att @ v).transpose(1, 2).reshape(b, t, c))
        y = self.mlp["c_fc"](self.ln_2(x))
        # GPT-2's tanh form; torch 1.12 and newer have it as one op.
        return x + self.mlp["c_proj"](F.gelu(y, approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, channels, context, vocab):
        super().__init__()
        self.wte = nn.Embedding(vocab, channels)
        self.wpe = nn.Embedding(context, channels)
        self.h = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(channels)
        # No buffer: gloo cannot broadcast bool.
        self.mask = torch.triu(torch.ones(context, context, dtype=torch.bool), 1)

    def forward(self, inputs, targets):
        x = self.wte(inputs) + self.wpe(torch.arange(inputs.shape[1]))
        for block in self.h:
            x = block(x, self.mask)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def load_weights(model, path):
    """One line of JSON with the names and element counts in order, then float32."""
    with open(path, "rb") as f:
        header = json.loads(f.readline())
        params = dict(model.named_parameters())
        for entry in header["parameters"]:
            data = np.fromfile(f, dtype="<f4", count=entry["elems"])
            with torch.no_grad():
                p = params.pop(entry["name"])
                p.copy_(torch.from_numpy(data).view_as(p))
    if params:
        raise SystemExit(f"{path} lacks {sorted(params)}")


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
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": a.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=a.learning_rate,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
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
        for step in range(a.steps):
            print(f"{step},{seconds[step]:.9f},{mean[step].item() / world:.9f}")


if __name__ == "__main__":
    main()
