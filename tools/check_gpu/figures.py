"""The figures that a person looks for first, each with its limit and verdict: the table at the end of a check."""
import collections
import operator

# value(figures of the part) returns a number, or a number, the variant that it belongs to, and why it is no result (or
# None); None where the figures lack it. limit: a relation and a bound, or None. always: the limit also holds for a small
# model and without a GPU.
Figure = collections.namedtuple("Figure", "name part value limit always", defaults=[None, False])
RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


def worst_verified(f):
    return max(v["verify_max_error"] / v["verify_allowed"] for v in f.values())


def of_records(key):
    return lambda f: f["records"][key]


def fastest(f):
    """Return our fastest variant's tokens/s over those of PyTorch's fastest, both names, and what is missing to a result."""
    compared = {k.split(" / ")[0] for k in f["ratio"]}
    ours = max(compared, key=lambda name: f["tokens_per_s"][name]["value"])
    name = min((k for k in f["ratio"] if k.startswith(ours + " / ")), key=lambda k: f["ratio"][k]["value"])
    v = f["ratio"][name]
    few = None if v["lo"] is not None else f"{v['n']} round{'s' if v['n'] > 1 else ''}, no interval"
    return v["value"], name, few


def graph_ratio(f):
    dtype = list(f)[-1]
    return f[dtype]["step_s"] / f[dtype]["step_s_without"], dtype, None


def attention_ratio(f):
    """Return the time of cuDNN's attention, forward and backward, over that of our own kernels, at GPT-2 124M's size."""
    ms = {(r["op"], r["shape"]): r["ms"] for r in f["kernels"] if r["dtype"] == "bfloat16" and "ms" in r}
    own, cudnn = (sum(ms[f"attention_{way}", by] for way in ("forward", "backward")) for by in ("own", "cudnn"))
    return cudnn / own


FIGURES = [
    Figure("verified training: largest error over the allowed one", "ddp", worst_verified, ("<=", 1), True),
    Figure("losses: largest relative difference from PyTorch's", "losses", lambda f: max(f["difference"].values()), ("<=", 1e-3), True),
    Figure("kernels of known length: largest error of their records' lengths", "suites", of_records("largest_error"), ("<=", 0.01), True),
    Figure("GPU records dropped", "records", lambda f: f["dropped"], ("<=", 0), True),
    Figure("GPT-2 124M, tokens/s over PyTorch's, the fastest of each, not compiled", "torch", fastest, (">=", 1)),
    Figure("what recording costs a step of GPT-2 124M, upper 95 % bound", "overhead", lambda f: max(r["hi"] for r in f["overhead"]), ("<", 0.01)),
    Figure("GPT-2 124M, tokens/s over PyTorch's, compiled", "compile", fastest),
    Figure("GPT-2 124M: a step, ms", "job", lambda f: 1e3 * f["step_s"]),
    Figure("cuDNN's attention over our own, time of forward and backward", "kernels", attention_ratio),
    Figure("a step as a CUDA graph over one without", "graph", graph_ratio),
    Figure("kernels that do nothing: from one to the next, ns", "suites", of_records("null_kernel_ns")),
    Figure("the same while recorded, ns", "suites", of_records("null_kernel_recorded_ns")),
    Figure("the GPU's times on the host's clock: stated error, ns", "records", lambda f: f["clock_error_ns"]),
    Figure("calibrated: Tflop/s", "calibrate", lambda f: 1e-12 * f["device"]["flops"]["value"]),
    Figure("calibrated: memory, GB/s", "calibrate", lambda f: 1e-9 * f["device"]["memory_bandwidth"]["value"]),
]


def row(figure, part, counts):
    """Return a figure's row of the table. part: its part's row of the result, or None. counts: limits hold."""
    value = of = doubt = None
    status = part["status"] if part else "not run"
    try:
        value = figure.value(part["figures"]) if part else None
    except (KeyError, TypeError, ValueError, IndexError):  # the part did not get so far
        status = "missing" if status == "pass" else status
    if isinstance(value, tuple):
        value, of, doubt = value
    verdict = status if value is None else ""
    if value is not None and figure.limit and (counts or figure.always):
        relation, bound = figure.limit
        verdict = "met" if RELATIONS[relation](value, bound) else "NOT MET"
    if value is not None and status != "pass":
        doubt = f"{status}: {doubt or 'not all of it'}"
    return {"name": figure.name, "value": value, "of": of, "limit": " ".join(str(x) for x in figure.limit or ()), "verdict": doubt or verdict}


def table(parts, counts):
    by_name = {p["name"]: p for p in parts}
    return [row(f, by_name.get(f.part), counts) for f in FIGURES]
