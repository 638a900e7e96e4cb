"""Facts about the machine, and the parts that build for it and look for its libraries."""
import contextlib
import ctypes
import datetime
import glob
import json
import os
import re
import threading

from check_gpu.check import ROOT, Failed, Skipped

DRIVER_S = 30  # for the driver to set up a GPU
IMPORT_S = 150  # for PyTorch's first import


def within(limit_s, call):
    """Return what a call of the driver returns, or None if it hangs: its thread is left alone."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(limit_s)
    return answers[0] if answers else None


def gpu_name():
    """Return the driver's name of GPU 0, or None without GPU or driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None

    def ask():
        count, device, name = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(256)
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
            return ""
        if cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceGetName(name, 256, device):
            return ""
        return name.value.decode()

    name = within(DRIVER_S, ask)
    if name is None:
        raise OSError(f"the driver does not answer within {DRIVER_S} s")
    return name


def hold_context():
    """Hold the context of GPU 0 until this script ends: without one the driver sets the GPU up anew for every program,
    which takes a second or more. Return why that cannot be, or None."""
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    error = within(DRIVER_S, lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    if error is None:
        return f"cuDevicePrimaryCtxRetain does not return within {DRIVER_S} s"
    return f"cuDevicePrimaryCtxRetain: error {error}" if error else None


# The first is opened by every program.
LARGE = ["libcublasLt.so*", "libcudnn*.so*", "libnccl.so*", "libcupti.so*", "libtorch_c*.so"]


def read_ahead(c):
    """Read the large libraries once and import PyTorch once, in the background of the first parts: on a bare machine they
    lie on a disk that takes seconds for each, which would count in the part that is first to need one."""
    query = "driver_version,clocks.max.sm,clocks.max.mem,power.limit,persistence_mode"
    c.machine["nvidia_smi"] = c.processes.first_line("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    folders = [*os.environ.get("LOCKSTEP_LIBRARY_PATH", "").split(":"), f"{home}/lib64", f"{home}/extras/CUPTI/lib64", *python_folders(c)]
    files = [os.path.realpath(p) for n in LARGE for f in folders if f for p in glob.glob(os.path.join(f, n))]
    for path in dict.fromkeys(files):  # each once, in order
        with contextlib.suppress(OSError), open(path, "rb") as f:
            while f.read(1 << 24):
                pass
    c.machine["torch"] = c.processes.first_line(c.a.python, "-c", "import torch; print(torch.__version__)", timeout_s=IMPORT_S)


def python_folders(c):
    """Return the folders of NVIDIA's libraries among a Python's packages."""
    places = json.loads(c.processes.first_line(c.a.python, "-c", "import json, sys; print(json.dumps(sys.path))") or "[]")
    return [f for p in places if p for d in ("nvidia/*/lib", "torch/lib") for f in sorted(glob.glob(os.path.join(p, d)))]


def make_executable(folder):
    """Make the programs executable again, where an archive or a copy lost the bits."""
    for path in glob.glob(os.path.join(folder, "*")) + glob.glob(os.path.join(folder, "bench", "*")):
        if os.path.isfile(path) and not os.access(path, os.X_OK):
            os.chmod(path, 0o755)


def describe(c, gpu):
    """Fill c.machine with name, date and processor; driver and PyTorch follow from the background."""
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^NVIDIA ", "", gpu or "cpu").lower()).strip("-")
    with open("/proc/cpuinfo") as f:
        model = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    c.machine.update(name=slug, gpu=gpu, date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                     cpu=model[1] if model else None, cpus=os.cpu_count(), no_context_held=None, nvidia_smi=None, torch=None)
    c.commit = commit(c)
    if gpu:
        threading.Thread(target=read_ahead, args=(c,), daemon=True).start()
        c.machine["no_context_held"] = hold_context()


def commit(c):
    """Return the commit of the programs, from the bundle's file or from git."""
    try:
        with open(os.path.join(c.a.from_ or ROOT, "COMMIT")) as f:
            return " ".join(f.read().split()) or "unknown"
    except OSError:
        git = ("git", "-C", ROOT)
        changed = c.processes.first_line(*git, "status", "--porcelain", "--untracked-files=no")
        return (c.processes.first_line(*git, "rev-parse", "HEAD") or "unknown") + (" changed" if changed else "")


def build(c):
    if c.a.from_ or c.a.device == "cpu":
        raise Skipped(f"built elsewhere: {c.a.from_ or c.a.build}")
    jobs = str(os.cpu_count() or 1)
    try:
        c.run("make", "-C", ROOT, "-j", jobs, f"BUILD={c.build}", "gpu-programs")
    except Failed as e:
        c.built = False
        raise Failed(f"{e} (too slow: make gpu-programs first; no zlib or check here: make gpu-bundle elsewhere, then --from)")
    return {}, "for this GPU"


def machine(c):
    """Ask the program for GPU and libraries; fail where Python has a library that it does not find."""
    _, output = c.run(c.program("bench/machine_cuda"))
    c.machine.update(json.loads(output))
    libraries = c.machine["libraries"]
    folders, lost = set(), []
    for folder in python_folders(c):
        for name, needle in (("nccl", "libnccl.so*"), ("cupti", "libcupti.so*"), ("cublaslt", "libcublasLt.so*"), ("cudnn", "libcudnn.so*")):
            if "missing" in libraries[name] and glob.glob(os.path.join(folder, needle)):
                folders.add(folder)
                lost.append(name)
    if folders:
        told = [f for f in [c.env.get("LOCKSTEP_LIBRARY_PATH")] if f]
        c.env["LOCKSTEP_LIBRARY_PATH"] = ":".join(told + sorted(folders))
        raise Failed(f"not found, though Python has them: {', '.join(lost)} (the parts below are told where)")
    return {"libraries": libraries}, ", ".join(n for n, v in libraries.items() if "path" in v)
