#!/usr/bin/env python3
"""Writes sampler_torch.txt: the indices of PyTorch's DistributedSampler, not shuffled.

Run with Debian's python3-torch (1.13): tests/data/make_sampler_golden.py > tests/data/sampler_torch.txt
"""
import torch
from torch.utils.data.distributed import DistributedSampler

SAMPLES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 23)
RANKS = (1, 2, 3, 4, 5, 8)

print(f"# DistributedSampler of torch {torch.__version__}, shuffle=False")
print("# samples ranks drop_last rank count index...")
for n in SAMPLES:
    for ranks in RANKS:
        for drop_last in (False, True):
            for rank in range(ranks):
                sampler = DistributedSampler(
                    range(n), num_replicas=ranks, rank=rank, shuffle=False, drop_last=drop_last
                )
                # Dropping more than there is leaves nothing; iterating then trips an assertion
                # in some versions, so the count decides.
                indices = list(sampler) if len(sampler) else []
                print(n, ranks, int(drop_last), rank, len(indices), *indices)
