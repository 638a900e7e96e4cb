"""The parts of the check, most telling first, and what docs/support.md may claim when they pass."""
import collections

from check_gpu import correctness, machine, recording, speed

WHOLE_S = 530  # for all parts but the build: under nine minutes. Where time is short, the programs are built elsewhere
# A part with limit REST gets what the others left, at least REST_LEAST_S; with less than REST_FULL_S it counts as cut off.
REST, REST_LEAST_S, REST_FULL_S = 0, 60, 150
MORE_ROUNDS_S = 45  # that the part overhead may take of what others left

# run(check) returns figures and a few words, or raises Failed, Skipped or NotRun. limit_s: the most seconds it may take.
# more: with --more only, in another call, which has as much time again.
Part = collections.namedtuple("Part", "name purpose limit_s run needs_gpu more", defaults=[False, False])
PARTS = [
    Part("build", "build the programs for this GPU", 60, machine.build),
    Part("machine", "GPU, memory and libraries", 15, machine.machine, needs_gpu=True),
    Part("nccl", "test_gpu: NCCL, ranks that share the GPU", 40, correctness.nccl, needs_gpu=True),
    Part("suites", "test_gpu: the other suites", sum(correctness.SUITES.values()), correctness.suites, needs_gpu=True),
    Part("ddp", "training, every step verified", 35, correctness.ddp),
    Part("graph", "the step as a CUDA graph: same losses", 25, correctness.graph, needs_gpu=True),
    Part("kernels", "time of each kernel; attention by cuDNN, too", 20, speed.kernels, needs_gpu=True),
    Part("job", "a job file and its forecast", 20, speed.job),
    Part("nvml", "clock and power in the job's trace", 5, recording.nvml, needs_gpu=True),
    Part("losses", "losses equal to PyTorch's", 30, speed.losses),
    Part("torch", "GPT-2 124M: tokens/s beside PyTorch's", 90, speed.torch),
    Part("records", "kernels in the trace, none dropped", 15, recording.records),
    Part("calibrate", "a cluster file", 30, speed.calibrate),
    Part("overhead", "cost of recording a step", 25, recording.overhead),
    Part("shared", "two ranks on one GPU, verified", 40, correctness.shared),
    Part("profile", "a job that nobody changes, recorded", 15, recording.profile, needs_gpu=True),
    Part("gpus", "NCCL between GPUs, verified", 20, correctness.gpus),
    Part("compile", "GPT-2 124M beside torch.compile's", REST, speed.compile, needs_gpu=True),
    Part("fixtures", "PyTorch's traces of this machine, for tests", 90, recording.fixtures, more=True),
    Part("nsys", "NVTX ranges in Nsight Systems", 15, recording.nsys, more=True),
    Part("sanitizer", "attention under compute-sanitizer", 395, correctness.sanitizer, needs_gpu=True, more=True),
]

# Rows of docs/support.md, and the parts (or suites) that must pass before a row may claim a run.
FEATURES = [
    ("CUDA kernels of every op", ["suites/kernels"]),
    (
        "CUDA kernels of networks of images, LARS, LAMB and PowerSGD",
        [f"suites/kernels/{case}" for case in ("pixels", "convolution", "batchnorm", "maxpool", "avgpool", "add_relu", "layerwise", "orthogonalize")],
    ),
    ("attention by cuDNN", ["suites/cudnn"]),
    ("training on a GPU, float32 and bfloat16", ["ddp"]),
    ("the step as a CUDA graph", ["graph"]),
    ("NCCL, ranks that share a GPU", ["nccl", "shared"]),
    ("NCCL between GPUs", ["gpus"]),
    ("CUPTI records: kernels, copies", ["suites/records", "records"]),
    ("a GPU's clock, power and throttling by NVML", ["nvml"]),
    ("NVTX ranges in Nsight Systems", ["nsys"]),
    ("cost of recording on a GPU", ["overhead"]),
    ("`profile` on a GPU: kernels by the preload library", ["profile"]),
    ("`calibrate` on a GPU", ["calibrate"]),
    ("GPT-2 124M beside PyTorch's", ["losses", "torch"]),
    ("a GPU's job file and its forecast", ["job"]),
]
