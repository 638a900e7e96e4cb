#!/usr/bin/python3
"""Writes bucket_torch113.json: bucket assignments as PyTorch's DDP logs them.

    tests/data/make_bucket_golden.py        (Debian's python3-torch, 1.13.1; under a minute)

Each case is a module with given parameters, wrapped in DistributedDataParallel over gloo with one
rank. Initial buckets: sizes from _get_ddp_logging_data() after construction, tensors from the call
that DDP made. Rebuilt buckets and the gradient-ready order: logging data after three iterations.
"""

import json
import os
import random
import tempfile

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16}
MIB = 1 << 20


def tensors(*rows):
    """rows: (elements, dtype[, repeat])"""
    out = []
    for row in rows:
        out += [(row[0], row[1])] * (row[2] if len(row) > 2 else 1)
    return out


def gpt(layers, channels, vocabulary, context):
    """The gradient list of a GPT-2 shaped model, in registration order."""
    c = channels
    sizes = [vocabulary * c, context * c]
    for _ in range(layers):
        sizes += [c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c]
    return [(n, "float32") for n in sizes + [c, c]]


def shuffled(n, seed):
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order


def cases():
    """name, gradient list, bucket_cap_mb or None, order of use or None, find_unused_parameters"""
    f32, f64, f16 = "float32", "float64", "float16"
    mlp = tensors((784 * 512, f32), (512, f32), (512 * 512, f32), (512, f32), (5120, f32), (10, f32))
    many = tensors((17, f32, 300))
    exact = tensors((MIB // 4, f32), (MIB // 8, f32, 4), (MIB // 4 - 1, f32), (1, f32), (2, f32))
    mixed = tensors((100000, f32), (70000, f64), (300000, f32), (200000, f64), (50, f32), (90000, f16),
                    (7, f64), (600000, f32), (400000, f16), (3, f32))
    rng = random.Random(7)
    ragged = [(rng.choice([1, 10, 1000, 40000, 400000]) + rng.randrange(9), rng.choice([f32, f64]))
              for _ in range(60)]
    yield "one tensor", tensors((10, f32)), None, None, False
    yield "mlp, default cap", mlp, None, None, False
    yield "one huge tensor among small ones", tensors((100, f32, 3), (11 * MIB, f32), (100, f32, 3)), None, None, False
    yield "many tiny tensors, cap below a tensor", many, 60 / MIB, None, False
    yield "exact hits of first limit and cap", exact, 1, None, False
    yield "gpt, default cap", gpt(4, 256, 2000, 128), None, None, False
    yield "gpt, cap 2 MiB", gpt(4, 256, 2000, 128), 2, None, False
    yield "three dtypes, left-over buckets", mixed, 1, None, False
    yield "ragged, two dtypes, shuffled use", ragged, 2, shuffled(len(ragged), 3), False
    yield "mlp, shuffled use, cap 1 MiB", mlp, 1, shuffled(len(mlp), 5), False
    yield "gpt, find_unused_parameters, cap 2 MiB", gpt(4, 256, 2000, 128), 2, None, True
    yield "ragged, find_unused_parameters", ragged, 1, None, True


class Module(torch.nn.Module):
    def __init__(self, rows, order):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(n, dtype=DTYPES[d])) for n, d in rows])
        self.order = order or range(len(rows))

    def forward(self):
        total = torch.zeros((), dtype=torch.float64)
        for i in self.order:
            total = total + self.weights[i].double().sum()
        return total


def numbers(text):
    return [int(x) for x in text.replace(",", " ").split()]


def run(name, rows, cap_mb, order, unused):
    seen = {}
    original = dist._compute_bucket_assignment_by_size

    def spy(*args):
        result = original(*args)
        seen["initial"] = [list(b) for b in reversed(result[0])]
        return result

    dist._compute_bucket_assignment_by_size = spy
    options = {} if cap_mb is None else {"bucket_cap_mb": cap_mb}
    ddp = torch.nn.parallel.DistributedDataParallel(
        Module(rows, order), find_unused_parameters=unused, **options)
    dist._compute_bucket_assignment_by_size = original
    before = ddp._get_ddp_logging_data()
    for _ in range(3):
        ddp().backward()
    after = ddp._get_ddp_logging_data()
    rebuilt = bool(after.get("has_rebuilt_buckets", 0))
    return {
        "name": name,
        "find_unused_parameters": unused,
        "cap_set": cap_mb is not None,
        "cap_bytes": before["bucket_cap_bytes"],
        "elems": [n for n, _ in rows],
        "dtypes": [d for _, d in rows],
        "initial_bytes": numbers(before["bucket_sizes"]),
        "initial": seen["initial"],
        "ready_order": numbers(after["prev_iteration_grad_ready_order_indices"]) if rebuilt else [],
        "rebuilt_bytes": numbers(after["rebuilt_bucket_sizes"]) if rebuilt else [],
        "rebuilt": [numbers(b) for b in after["rebuilt_per_bucket_param_indices"].split(",")]
        if rebuilt else [],
    }


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"),
                                rank=0, world_size=1)
        rows = [run(*case) for case in cases()]
        dist.destroy_process_group()
    with open(os.path.join(HERE, "bucket_torch113.json"), "w") as out:
        out.write('{"torch": %s, "cases": [\n' % json.dumps(torch.__version__))
        out.write(",\n".join(json.dumps(r) for r in rows))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
