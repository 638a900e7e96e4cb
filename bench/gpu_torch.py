#!/usr/bin/env python3
"""`lockstep run` against PyTorch on one device: the losses, and tokens a second.

The same GPT-2 from the same weights file on the same tokens (bench/torch_gpt2.py), the same
optimizer, one rank. Blocks of steps are interleaved: in every round each of our variants and each
of PyTorch's runs one block, in an order that turns around from round to round. A block's figure is
the tokens of its counted steps over the time from the end of the warm-up to the end of the last
step, as the host's clock has it and with the device synchronised at both: `counted_s` of our
result.json, and the same of PyTorch's loop, whose tokens lie on the device beforehand. What comes
between steps counts on both sides. A ratio is ours over theirs, block for block of a round; its
interval is Student's over rounds, from three on.

A variant whose losses of the first steps do not agree within --agree, relative, gets no ratio.
The file of --json is written after every block, so that a kill leaves what was done; until the last
it says what is missing ("incomplete"). No round begins that would not end within --limit seconds,
and a block that has not ended by then is cut off.
Exit 0, 1 (no ratio at all, or a run of ours failed), 75 (the limit came before a ratio), 77 (no
PyTorch, or it has no such device, or nothing of it ran, or on the CPU it runs on the reference BLAS).

    bench/gpu_torch.py --device cuda --dtype bfloat16 --json FILE
    bench/gpu_torch.py --device cpu --dtype float32 --model gpt-nano --theirs float32 --rounds 1
"""
import argparse
import contextlib
import glob
import json
import math
import os
import select
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
KILL_S = 5  # a killed process that is still there then is left alone
TOO_LATE = 75


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Late(Exception):
    """--limit seconds have passed."""


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
    a.add_argument("--limit", type=float, default=1e9, help="seconds that this may take")
    a.add_argument("--json", help="write the figures here")
    return a.parse_args()


# ---- Processes, which end by the limit ----


def left_s(a):
    return max(a.limit - (time.monotonic() - BEGAN), 0)


def end(process):
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_S)


def call(a, command):
    """Run a command; return its exit code and what it said on standard error."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        try:
            code = process.wait(timeout=left_s(a))
        except subprocess.TimeoutExpired:
            raise Late from None
        finally:
            end(process)
        said.seek(0)
        return code, said.read()


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
        self.a, self.got = a, b""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self.process.stdin.close()
            self.process.wait(timeout=min(left_s(self.a), KILL_S))
        end(self.process)

    def answer(self):
        """Return what its next line says."""
        out = self.process.stdout.fileno()
        while b"\n" not in self.got:
            if not select.select([out], [], [], left_s(self.a))[0]:
                raise Late
            more = os.read(out, 1 << 16)
            if not more:
                raise Failed(f"PyTorch's process ended with {self.process.wait(timeout=KILL_S)}")
            self.got += more
        line, _, self.got = self.got.partition(b"\n")
        return json.loads(line)

    def block(self, variant):
        asked = {"variant": variant, "warmup": self.a.warmup, "steps": self.a.steps}
        with contextlib.suppress(BrokenPipeError):  # the answer says that it ended
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
        return self.answer()


def run(a, out, *more):
    """result.json of one `lockstep run`."""
    command = [a.lockstep, "run", "--model", "gpt", "--device", a.device, "--comm", "self"]
    for key, value in zip(SHAPE, MODELS[a.model]):
        command += [f"--{key}", str(value)]
    if a.device != "cpu":
        command += ["--dtype", a.dtype]
    command += ["--samples", str(SAMPLES), "--no-shuffle", "--local-batch", str(a.local_batch), "--no-trace"]
    command += ["--learning-rate", str(a.learning_rate), "--weight-decay", str(a.weight_decay), "--out", out]
    code, said = call(a, command + list(more))
    if code:
        raise Failed(f"lockstep run ended with {code}: {' '.join(said[-600:].split())}")
    with open(glob.glob(os.path.join(out, "*", "result.json"))[0]) as f:
        return json.load(f)


def ours(a, out, weights, options):
    try:
        r = run(a, out, "--import", weights, "--warmup", str(a.warmup), "--steps", str(a.steps), *options)
    except Failed as e:
        return {"error": str(e)}
    return {"loss": r["loss"], "seconds": r["counted_s"]}


# ---- All blocks ----


class Blocks:
    """The blocks of all variants, round by round; a variant that fails is left out from then on, with its error."""

    def __init__(self, a):
        self.mine = {"ours": []}
        self.mine.update({f"ours {more}": more.split(",") for more in a.ours.split()})
        self.theirs = a.theirs.split(",")
        self.of = {name: [] for name in [*self.mine, *self.theirs]}
        self.errors, self.took = {}, {}
        self.missing = "no block has ended"  # to the end of the comparison, or None

    def names(self):
        return [name for name in self.of if name not in self.errors]

    def add(self, name, block, seconds):
        # A first block compiles or loads; the shortest of a variant says what the next one takes.
        self.took[name] = min(self.took.get(name, 1e9), seconds)
        if "error" in block:
            self.errors[name] = block["error"]
        else:
            self.of[name].append(block)


def measure(a, folder, weights, theirs, blocks, write):
    """Add all blocks and write what there is after each."""
    for round_ in range(a.rounds):
        names = blocks.names()
        if round_ and left_s(a) < sum(blocks.took[name] for name in names):
            say(f"{round_} of {a.rounds} rounds in {a.limit:.0f} s")
            break
        for name in names if round_ % 2 == 0 else names[::-1]:
            blocks.missing = f"round {round_ + 1} of {a.rounds}, {name}: not ended"
            write()
            start, out = time.monotonic(), os.path.join(folder, f"{list(blocks.of).index(name)}-{round_}")
            block = ours(a, out, weights, blocks.mine[name]) if name in blocks.mine else theirs.block(name)
            if name == "ours" and "error" in block:
                raise Failed(block["error"])
            blocks.add(name, block, time.monotonic() - start)
    blocks.missing = None


# Student's t, two-sided 95 %, by degrees of freedom: few rounds are few, which a bootstrap would not say.
T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]


def interval(values):
    """Mean and its 95 % interval; none of one or two values, whose interval says nothing (two: 9 standard deviations)."""
    n, mean = len(values), statistics.fmean(values)
    if n < 3:
        return {"value": mean, "lo": None, "hi": None, "n": n}
    half = T95[min(n - 1, len(T95)) - 1] * statistics.stdev(values) / math.sqrt(n)
    return {"value": mean, "lo": mean - half, "hi": mean + half, "n": n}


def spread(v, form):
    """Return an interval in words."""
    return f"{form % v['lo']} to {form % v['hi']}" if v["lo"] is not None else f"{v['n']} round{'s' if v['n'] > 1 else ''}, no interval"


def worst_difference(a, x, y):
    pairs = list(zip(x["loss"], y["loss"]))[: a.agree_steps]
    return max(abs(p - q) / abs(q) if p == p and q == q else float("inf") for p, q in pairs)


def sum_up(a, blocks, about):
    """The figures, or None as long as one side has none. A variant whose losses are others than ours gets no ratio; the
    first of PyTorch's is ours' measure. A ratio is of blocks of the same round."""
    tokens = a.steps * a.local_batch * MODELS[a.model][3]
    names, errors = [name for name in blocks.names() if blocks.of[name]], dict(blocks.errors)
    their_names = [name for name in names if name in blocks.theirs]
    if not their_names or "ours" not in names:
        return None
    speed = {name: [tokens / b["seconds"] for b in blocks.of[name]] for name in names}
    result = {"model": a.model, "device": a.device, "dtype": a.dtype, "local_batch": a.local_batch,
              "context": MODELS[a.model][3], "warmup": a.warmup, "steps": a.steps, **about,
              "losses": {"bound": a.agree, "steps": min(a.agree_steps, a.warmup + a.steps), "difference": {}},
              "incomplete": blocks.missing,
              "tokens_per_s": {name: interval(values) for name, values in speed.items()},
              "ratio": {}, "errors": errors}
    for name in names:
        reference = blocks.of["ours" if name in their_names else their_names[0]]
        worst = max(worst_difference(a, x, y) for x, y in zip(blocks.of[name], reference))
        result["losses"]["difference"][name] = worst
        if not worst <= a.agree:
            errors[name] = f"losses differ by {worst:.1e}, more than {a.agree:g}: no ratio"
    for mine in (name for name in names if name not in their_names and name not in errors):
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
    if result["incomplete"]:
        print(f"incomplete: {result['incomplete']}")
    for name, v in result["ratio"].items():
        print(f"ratio {name}: {v['value']:.3f} ({spread(v, '%.3f')})" if v["lo"] is None else
              f"ratio {name}: {v['value']:.3f}, 95 % {spread(v, '%.3f')}, {v['n']} rounds")


def write(a, result):
    if a.json and result:
        with open(a.json + ".new", "w") as f:
            json.dump(result, f, indent=2)
            f.write("\n")
        os.replace(a.json + ".new", a.json)


def compare(a, folder):
    weights, blocks, result, late = os.path.join(folder, "weights"), Blocks(a), None, False
    with Theirs(a, weights) as theirs:  # it imports PyTorch while our run writes the weights
        run(a, os.path.join(folder, "export"), "--steps", "1", "--warmup", "0", "--export", weights)
        about = {**theirs.answer(), "ours": sides.our_text(a.lockstep)}
        if "missing" in about:
            raise Skipped(f"{a.python}: {about['missing']}")
        if a.device == "cpu" and sides.why_no_ratio(about):
            raise Skipped(sides.why_no_ratio(about))
        try:
            measure(a, folder, weights, theirs, blocks, lambda: write(a, sum_up(a, blocks, about)))
        except Late:
            late = True
        finally:
            result = sum_up(a, blocks, about)
            write(a, result)
    if not result and late:
        raise Late(blocks.missing)
    if not result:
        raise Skipped(f"none of PyTorch's variants ran: {blocks.errors}")
    show(result)
    if not result["ratio"]:
        raise Failed(f"no ratio: {result['errors']}")


def main():
    a = parse()
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare(a, folder)
    except Skipped as e:
        say(f"skipped: {e}")
        return 77
    except Late as e:
        say(f"no ratio within {a.limit:.0f} s{': ' if str(e) else ''}{e}")
        return TOO_LATE
    except Failed as e:
        say(str(e))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
