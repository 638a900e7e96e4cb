#!/usr/bin/python3
"""Step time of `lockstep run` against PyTorch DDP over gloo, on this machine.

The same GPT, or with --model resnet the same ResNet for CIFAR-10, from the same weights file on the same samples, one
thread a rank, rank r on CPU r.
Rounds are interleaved (ours, theirs, ours, ...); of a run the median step after the first
`--skip` counts, and the ratio of each round goes into a bootstrap. No ratio is printed unless
the losses of the first 20 steps agree to 1e-3, nor where PyTorch runs on the reference BLAS.

    bench/ddp.py [--ranks 1,2] [--rounds 8] [--steps 40] [--channels 256] ...
"""
import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile

import sides

HERE = os.path.dirname(os.path.abspath(__file__))
AGREE = 1e-3
AGREE_STEPS = 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def shape(a):
    if a.model == "resnet":
        return {"layers": a.layers, "channels": a.channels}
    return {k: getattr(a, k) for k in ("layers", "heads", "channels", "context")}


def model_options(a):
    if a.model == "resnet":
        return ["--model", "resnet18", "--image", "32", "--vocab", "10"]
    return ["--model", "gpt", "--vocab", "256"]


def write_data(a, path):
    g = random.Random(7)
    with open(path, "wb") as f:
        if a.model == "resnet":  # records of CIFAR-10: a label, and pixels that depend on it
            for _ in range(512):
                label = g.randrange(10)
                f.write(bytes([label]) + bytes(min(255, 10 * label + g.randrange(160)) for _ in range(3072)))
        else:
            words = [bytes(g.choices(b"etaoinshrdlu", k=g.randint(2, 8))) for _ in range(200)]
            f.write(b" ".join(g.choices(words, k=60000)))


def ours(a, ranks, weights, data, out, export=None, steps=None):
    command = [a.lockstep, "run", "-n", str(ranks), *model_options(a)]
    for key, value in shape(a).items():
        command += [f"--{key}", str(value)]
    command += ["--data", data, "--no-shuffle", "--drop-last", "--warmup", "0", "--no-trace"]
    command += ["--steps", str(steps or a.steps), "--local-batch", str(a.local_batch)]
    command += ["--learning-rate", str(a.learning_rate), "--weight-decay", str(a.weight_decay)]
    command += ["--out", out]
    command += ["--export", export] if export else ["--import", weights]
    with open(out + ".log", "w") as log:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=log, timeout=600)
    for folder, _, files in os.walk(out):
        if "result.json" in files:
            with open(os.path.join(folder, "result.json")) as f:
                result = json.load(f)
            return result["step_s"], result["loss"]
    raise SystemExit("lockstep run left no result.json")


def theirs(a, ranks, weights, data):
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks))
    env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    command = ["/usr/bin/python3", os.path.join(HERE, "ddp_torch.py"), "--model", a.model]
    for key, value in shape(a).items():
        command += [f"--{key}", str(value)]
    command += ["--steps", str(a.steps), "--local-batch", str(a.local_batch), "--weights", weights]
    command += ["--data", data, "--learning-rate", str(a.learning_rate)]
    command += ["--weight-decay", str(a.weight_decay)]
    cpus = sorted(os.sched_getaffinity(0))
    processes = []
    for rank in range(ranks):
        pin = ["taskset", "-c", str(cpus[rank])] if ranks <= len(cpus) else []
        processes.append(
            subprocess.Popen(
                pin + command, env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank)), stdout=subprocess.PIPE, text=True
            )
        )
    outputs = [p.communicate(timeout=600)[0] for p in processes]
    if any(p.returncode for p in processes):
        raise SystemExit("the PyTorch side failed")
    about, *lines = outputs[0].splitlines()
    rows = [line.split(",") for line in lines]
    return [float(r[1]) for r in rows], [float(r[2]) for r in rows], json.loads(about)


def interval(values, level=0.95, resamples=4000):
    """Percentile bootstrap of the mean."""
    g = random.Random(1)
    means = sorted(statistics.fmean(g.choices(values, k=len(values))) for _ in range(resamples))
    cut = (1 - level) / 2
    return means[int(cut * resamples)], means[int((1 - cut) * resamples) - 1]


def compare(a, ranks, weights, data, folder):
    ratios, mine, other = [], [], []
    for round_ in range(a.rounds):
        out = os.path.join(folder, f"k{ranks}-{round_}")
        step_a, loss_a = ours(a, ranks, weights, data, out)
        step_b, loss_b, about = theirs(a, ranks, weights, data)
        worst = max(abs(x - y) for x, y in zip(loss_a[:AGREE_STEPS], loss_b[:AGREE_STEPS]))
        if not worst <= AGREE:
            raise SystemExit(f"{ranks} ranks: the losses differ by {worst:.2e}: no ratio")
        mine.append(statistics.median(step_a[a.skip :]))
        other.append(statistics.median(step_b[a.skip :]))
        ratios.append(mine[-1] / other[-1])
    lo, hi = interval(ratios)
    ratio = f"{statistics.fmean(ratios):6.3f}  {lo:6.3f} .. {hi:.3f}"
    if sides.why_no_ratio(about):
        ratio = f"{'none':>6s}  {'':15s}"
    print(
        f"{ranks:5d}  {1e3 * statistics.median(mine):9.2f}  {1e3 * statistics.median(other):11.2f}"
        f"  {ratio}  {worst:.1e}",
        flush=True,
    )
    return about


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--lockstep", default=os.path.join(HERE, "..", "build", "lockstep"))
    a.add_argument("--ranks", default="1,2")
    a.add_argument("--model", default="gpt", choices=("gpt", "resnet"))
    for name, value in (("rounds", 8), ("steps", 40), ("skip", 5), ("heads", 4), ("context", 128)):
        a.add_argument("--" + name, type=int, default=value)
    for name, value in (("layers", "4, of a ResNet 18"), ("channels", "256, of a ResNet 64"), ("local-batch", "4, of a ResNet 16")):
        a.add_argument("--" + name, type=int, help=value)
    a.add_argument("--learning-rate", type=float, help="1e-3, of a ResNet 1e-5: AdamW's first steps amplify rounding")
    a.add_argument("--weight-decay", type=float, default=0.1)
    a = a.parse_args()
    for name, gpt, resnet in (("layers", 4, 18), ("channels", 256, 64), ("local_batch", 4, 16), ("learning_rate", 1e-3, 1e-5)):
        if getattr(a, name) is None:
            setattr(a, name, resnet if a.model == "resnet" else gpt)
    if a.steps < AGREE_STEPS or a.steps <= a.skip:
        sys.exit("too few steps")
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        write_data(a, data)
        weights = os.path.join(folder, "weights")
        ours(a, 1, None, data, os.path.join(folder, "export"), export=weights, steps=1)
        sizes = ", ".join(f"{k} {v}" for k, v in shape(a).items())
        print(f"{a.model}: {sizes}, local batch {a.local_batch}; {a.rounds} interleaved rounds of {a.steps} steps")
        print("ranks  ours, ms  PyTorch, ms   ratio  95 % bootstrap   loss difference")
        about = None
        for ranks in (int(x) for x in a.ranks.split(",")):
            about = compare(a, ranks, weights, data, folder)
        print(sides.our_text(a.lockstep))
        print(sides.torch_text(about))
        why = sides.why_no_ratio(about)
        if why:
            sys.exit(f"ddp: {why}")


if __name__ == "__main__":
    main()
