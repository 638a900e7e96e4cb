"""Sizes and options of the parts on a GPU, on a CPU (a test of these scripts) and with --quick."""
import collections

# Presets for GPUs by a part of their name; the first that fits.
PRESETS = [
    ("GH200", "gh200-slingshot"),
    ("GB200", "gb200-nvl72"),
    ("B200", "dgx-b200"),
    ("H200", "dgx-h200"),
    ("H100", "dgx-h100"),
    ("A100", "dgx-a100"),
    ("V100", "dgx-1-v100"),
    ("L40S", "pcie-l40s"),
    ("4090", "pcie-rtx4090"),
]

# scaled: types in which the loss is scaled, so that no step is a graph. verified: models with local batch and steps, few
# because the float64 reference of --verify is slow. graph: model and steps. overhead: PAIRS first. torch: the vocabulary padded as in ours, since cuBLAS is slow for odd sizes.
Setup = collections.namedtuple("Setup", "options dtypes scaled verified comm shared big batch steps graph overhead calibrate torch compile")
SETUPS = {
    "cuda": Setup(
        options=["--device", "cuda"],
        dtypes=["float32", "bfloat16"],
        scaled=["float16"],
        verified=[("gpt-nano", 4, 20), ("gpt-micro", 1, 6), ("resnet-small", 2, 4)],
        comm="nccl",
        shared=["--share-gpu"],
        big="gpt2-124m",
        batch=16,
        steps=20,
        graph=("gpt-micro", 20),
        overhead=["20", "--device", "cuda", "--with", "all", "--steps", "40"],
        calibrate=["--device", "cuda", "--budget", "12s"],
        torch=["--theirs", "autocast+pad,autocast+pad+cudnn,autocast+pad+ddp", "--rounds", "8"],
        compile=["--theirs", "autocast+pad+compile", "--rounds", "3"],
    ),
    "cpu": Setup(
        options=[],
        dtypes=[None],
        scaled=[],
        verified=[("gpt-nano", 1, 20)],
        comm="tcp",
        shared=["--no-pin"],
        big="gpt-nano",
        batch=2,
        steps=20,
        graph=None,
        overhead=["2", "--steps", "10"],
        calibrate=["--ranks", "2", "--sizes", "4KiB", "--budget", "0.5s"],
        torch=["--dtype", "float32", "--agree", "1e-4", "--theirs", "float32", "--model", "gpt-nano",
               "--rounds", "2"],
        compile=None,
    ),
}
SETUPS["quick"] = SETUPS["cuda"]._replace(
    verified=[("gpt-nano", 2, 2)],
    big="gpt-nano",
    batch=2,
    steps=6,
    graph=("gpt-nano", 8),
    overhead=["2", "--device", "cuda", "--with", "all", "--steps", "4"],
    calibrate=["--device", "cuda", "--budget", "2s"],
    torch=[*SETUPS["cuda"].torch, "--model", "gpt-nano", "--rounds", "2", "--warmup", "2", "--steps", "4"],
    compile=["--theirs", "autocast+compile", "--rounds", "1", "--model", "gpt-nano", "--warmup", "2", "--steps", "4"],
)
