#!/usr/bin/env python3
"""`lockstep run` against PyTorch on one device: the losses, and tokens a second.

The same GPT-2 from the same weights file on the same tokens (bench/torch_gpt2.py), the same
optimizer, one rank. Blocks of steps are interleaved: in every round each of our variants and each
of PyTorch's runs one block, in an order that turns around from round to round. A block's figure is
the tokens of its counted steps over the time from the end of the warm-up to the end of the last
step, as the host's clock has it and with the device synchronised at both: `counted_s` of our
result.json, and the same of PyTorch's loop, whose tokens lie on the device beforehand. What comes
between steps counts on both sides. A ratio is ours over theirs, block for block of a round; its
interval is Student's over rounds.

A variant whose losses of the first steps do not agree within --agree, relative, gets no ratio.
Exit 0, 1 (no ratio at all, or a run of ours failed), 77 (no PyTorch, or it has no such device, or
nothing of it ran, or on the CPU it runs on the reference BLAS).

    bench/gpu_torch.py --device cuda --dtype bfloat16 --json FILE
    bench/gpu_torch.py --device cpu --dtype float32 --model gpt-nano --theirs float32 --rounds 1
"""
import argparse
import contextlib
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import sides

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = ("layers", "heads", "channels", "context", "vocab")
MODELS = {  # of runtime/model/model.c
    "gpt-nano": (3, 3, 48, 64, 256),
    "gpt-mini": (6, 6, 192, 256, 256),
    "gpt2-124m": (12, 12, 768, 1024, 50257),
}
SAMPLES = 65536
BEGAN = time.monotonic()


CHECK = """
import sys
try:
    import torch
except Exception as e:
    sys.exit(f"no PyTorch: {e}")
if sys.argv[1] != "cpu" and not torch.cuda.is_available():
    sys.exit(f"PyTorch {torch.__version__}, built for CUDA {torch.version.cuda}, sees no GPU")
"""


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def say(text):
    print(f"gpu_torch: {text}", file=sys.stderr, flush=True)


def parse():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--lockstep", default=os.path.join(HERE, "..", "build", "lockstep"))
    a.add_argument("--python", default=sys.executable, help="that has PyTorch")
    a.add_argument("--device", default="cuda")
    a.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="of ours")
    a.add_argument("--ours", default="", help="more of our variants: options of run, those of one joined by ','; by ' '")
    a.add_argument("--theirs", default="autocast,bfloat16,autocast+ddp", help="PyTorch's variants")
    a.add_argument("--model", default="gpt2-124m", choices=MODELS)
    for name, value in (("rounds", 4), ("warmup", 5), ("steps", 20), ("local-batch", 16), ("agree-steps", 20)):
        a.add_argument("--" + name, type=int, default=value)
    a.add_argument("--agree", type=float, default=1e-2, help="largest relative difference of losses")
    a.add_argument("--learning-rate", type=float, default=1e-4)
    a.add_argument("--weight-decay", type=float, default=0.1)
    a.add_argument("--limit", type=float, default=1e9, help="seconds after which no round begins")
    a.add_argument("--json", help="write the figures here")
    return a.parse_args()


# ---- One block of steps ----


class Theirs:
    """A process that stays: importing PyTorch and compiling happen once."""

    def __init__(self, a, weights):
        command = [a.python, os.path.join(HERE, "torch_gpt2.py"), "--device", a.device, "--weights", weights]
        for key, value in zip(SHAPE, MODELS[a.model]):
            command += [f"--{key}", str(value)]
        command += ["--samples", str(SAMPLES), "--local-batch", str(a.local_batch)]
        command += ["--learning-rate", str(a.learning_rate), "--weight-decay", str(a.weight_decay)]
        command += ["--threads", "1"] if a.device == "cpu" else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"PyTorch's process ended with {self.process.wait()}")
        return json.loads(line)

    def block(self, a, variant):
        asked = {"variant": variant, "warmup": a.warmup, "steps": a.steps}
        with contextlib.suppress(BrokenPipeError):  # the answer says that it ended
            print(json.dumps(asked), file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def run(a, out, *more):
    """result.json of one `lockstep run`."""
    command = [a.lockstep, "run", "--model", "gpt", "--device", a.device, "--comm", "self"]
    for key, value in zip(SHAPE, MODELS[a.model]):
        command += [f"--{key}", str(value)]
    if a.device != "cpu":
        command += ["--dtype", a.dtype]
    command += ["--samples", str(SAMPLES), "--no-shuffle", "--local-batch", str(a.local_batch), "--no-trace"]
    command += ["--learning-rate", str(a.learning_rate), "--weight-decay", str(a.weight_decay), "--out", out]
    done = subprocess.run(command + list(more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(f"lockstep run ended with {done.returncode}: {' '.join(done.stderr[-600:].split())}")
    with open(glob.glob(os.path.join(out, "*", "result.json"))[0]) as f:
        return json.load(f)


def ours(a, out, weights, options):
    try:
        r = run(a, out, "--import", weights, "--warmup", str(a.warmup), "--steps", str(a.steps), *options)
    except Failed as e:
        return {"error": str(e)}
    return {"loss": r["loss"], "seconds": r["counted_s"]}


# ---- All blocks ----


def measure(a, folder, weights, theirs):
    """{variant: [block of every round]}; a variant that fails is left out, with its error."""
    mine = {"ours": []}
    mine.update({f"ours {more}": more.split(",") for more in a.ours.split()})
    names = list(mine) + a.theirs.split(",")
    blocks, errors, took = {name: [] for name in names}, {}, {}
    for round_ in range(a.rounds):
        # A first block compiles or loads; the shortest of a variant says what the next one takes.
        if round_ and time.monotonic() - BEGAN + sum(took[name] for name in names) > a.limit:
            say(f"{round_} of {a.rounds} rounds in {a.limit:.0f} s")
            break
        for name in names if round_ % 2 == 0 else names[::-1]:
            start, out = time.monotonic(), os.path.join(folder, f"{names.index(name)}-{round_}")
            block = ours(a, out, weights, mine[name]) if name in mine else theirs.block(a, name)
            if name == "ours" and "error" in block:
                raise Failed(block["error"])
            blocks[name].append(block)
            took[name] = min(took.get(name, 1e9), time.monotonic() - start)
            if "error" in block:
                errors[name] = block["error"]
        names = [name for name in names if name not in errors]
    return {name: blocks[name] for name in names}, errors


# Student's t, two-sided 95 %, by degrees of freedom: few rounds are few, which a bootstrap would not say.
T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]


def interval(values):
    """Mean and its 95 % interval; none of a single value."""
    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return {"value": mean, "lo": None, "hi": None, "n": n}
    half = T95[min(n - 1, len(T95)) - 1] * statistics.stdev(values) / math.sqrt(n)
    return {"value": mean, "lo": mean - half, "hi": mean + half, "n": n}


def spread(v, form):
    return f"{form % v['lo']} to {form % v['hi']}" if v["n"] > 1 else "one round"


def worst_difference(a, x, y):
    pairs = list(zip(x["loss"], y["loss"]))[: a.agree_steps]
    return max(abs(p - q) / abs(q) if p == p and q == q else float("inf") for p, q in pairs)


def sum_up(a, blocks, errors, about):
    """The figures. A variant whose losses are others than ours gets no ratio; the first of PyTorch's is ours' measure."""
    tokens = a.steps * a.local_batch * MODELS[a.model][3]
    speed = {name: [tokens / b["seconds"] for b in list_] for name, list_ in blocks.items()}
    their_names = [name for name in blocks if not name.startswith("ours")]
    result = {"model": a.model, "device": a.device, "dtype": a.dtype, "local_batch": a.local_batch,
              "context": MODELS[a.model][3], "warmup": a.warmup, "steps": a.steps, **about,
              "ours": sides.our_text(a.lockstep),
              "losses": {"bound": a.agree, "steps": min(a.agree_steps, a.warmup + a.steps), "difference": {}},
              "tokens_per_s": {name: interval(values) for name, values in speed.items()},
              "ratio": {}, "errors": errors}
    for name in blocks:
        reference = blocks["ours"] if name in their_names else blocks[their_names[0]]
        worst = max(worst_difference(a, x, y) for x, y in zip(blocks[name], reference))
        result["losses"]["difference"][name] = worst
        if not worst <= a.agree:
            errors[name] = f"losses differ by {worst:.1e}, more than {a.agree:g}: no ratio"
    for mine in (name for name in blocks if name not in their_names and name not in errors):
        for name in (name for name in their_names if name not in errors):
            ratios = [x / y for x, y in zip(speed[mine], speed[name])]
            result["ratio"][f"{mine} / {name}"] = interval(ratios)
    return result


def show(result):
    print(f"{result['model']}, {result['dtype']}, {result['local_batch']} x {result['context']} tokens a step, "
          f"PyTorch {result['torch']}")
    print(f"{result['ours']}\n{sides.torch_text(result)}")
    print(f"{'variant':24s} {'tokens/s':>12s}  {'95 % interval':>25s}  loss difference, relative")
    for name, v in result["tokens_per_s"].items():
        difference = result["losses"]["difference"][name]
        print(f"{name:24s} {v['value']:12.0f}  {spread(v, '%.0f'):>25s}  {difference:.1e}")
    for name, error in result["errors"].items():
        print(f"{name:24s} failed: {error}")
    for name, v in result["ratio"].items():
        print(f"ratio {name}: {v['value']:.3f}, 95 % {spread(v, '%.3f')}, {v['n']} rounds")


def compare(a, folder):
    weights = os.path.join(folder, "weights")
    run(a, os.path.join(folder, "export"), "--steps", "1", "--warmup", "0", "--export", weights)
    theirs = Theirs(a, weights)
    try:
        if a.device == "cpu" and sides.why_no_ratio(theirs.about):
            raise Skipped(sides.why_no_ratio(theirs.about))
        blocks, errors = measure(a, folder, weights, theirs)
    finally:
        theirs.end()
    if not any(name in blocks for name in a.theirs.split(",")):
        raise Skipped(f"none of PyTorch's variants ran: {errors}")
    result = sum_up(a, blocks, errors, theirs.about)
    show(result)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(result, f, indent=2)
            f.write("\n")
    if not result["ratio"]:
        raise Failed(f"no ratio: {errors}")


def main():
    a = parse()
    done = subprocess.run([a.python, "-c", CHECK, a.device], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        say(f"skipped: {a.python}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        return 77
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare(a, folder)
    except Skipped as e:
        say(f"skipped: {e}")
        return 77
    except Failed as e:
        say(str(e))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
