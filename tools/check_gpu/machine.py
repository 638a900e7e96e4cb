"""Facts about the machine, and the parts that build for it and look for its libraries."""
import contextlib
import ctypes
import datetime
import glob
import json
import os
import re
import subprocess
import threading

from check_gpu.check import ROOT, Failed, Skipped


def gpu_name():
    """Return the driver's name of GPU 0, or None without GPU or driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, device, name = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(256)
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    if cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceGetName(name, 256, device):
        return None
    return name.value.decode()


def hold_context():
    """Hold the context of GPU 0 until this script ends: without one the driver sets the GPU up anew for every program,
    which takes a second or more. Return why that cannot be, or None."""
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    error = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    return f"cuDevicePrimaryCtxRetain: error {error}" if error else None


# The first is opened by every program.
LARGE = ["libcublasLt.so*", "libcudnn*.so*", "libnccl.so*", "libcupti.so*", "libtorch_c*.so"]


def read_ahead(python):
    """Read the large libraries once, in the background: on a bare machine they lie on a disk that takes seconds for each,
    which would count in the part that is first to open one."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    folders = [*os.environ.get("LOCKSTEP_LIBRARY_PATH", "").split(":"), f"{home}/lib64", f"{home}/extras/CUPTI/lib64", *python_folders(python)]
    files = [os.path.realpath(p) for n in LARGE for f in folders if f for p in glob.glob(os.path.join(f, n))]

    def read():
        for path in dict.fromkeys(files):  # each once, in order
            with contextlib.suppress(OSError), open(path, "rb") as f:
                while f.read(1 << 24):
                    pass

    threading.Thread(target=read, daemon=True).start()


def python_folders(python):
    """Return the folders of NVIDIA's libraries among a Python's packages."""
    show = "import sys; print('\\n'.join(sys.path))"
    done = subprocess.run([python, "-c", show], stdout=subprocess.PIPE, text=True, check=False)
    places = [p for p in done.stdout.splitlines() if p]
    return [f for p in places for d in ("nvidia/*/lib", "torch/lib") for f in sorted(glob.glob(os.path.join(p, d)))]


def first_line(*command, timeout_s=20):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def make_executable(folder):
    """Make the programs executable again, where an archive or a copy lost the bits."""
    for path in glob.glob(os.path.join(folder, "*")) + glob.glob(os.path.join(folder, "bench", "*")):
        if os.path.isfile(path) and not os.access(path, os.X_OK):
            os.chmod(path, 0o755)


def describe(c, gpu):
    """Fill c.machine with name, date, processor, driver and PyTorch."""
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^NVIDIA ", "", gpu or "cpu").lower()).strip("-")
    with open("/proc/cpuinfo") as f:
        model = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    query = "driver_version,clocks.max.sm,clocks.max.mem,power.limit,persistence_mode"
    c.machine.update(name=slug, gpu=gpu, date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                     cpu=model[1] if model else None, cpus=os.cpu_count())
    if gpu:
        read_ahead(c.a.python)
        c.machine["no_context_held"] = hold_context()
        c.machine["nvidia_smi"] = first_line("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
        # No part's time counts this: the first import on a machine reads gigabytes from its disk.
        c.machine["torch"] = first_line(c.a.python, "-c", "import torch; print(torch.__version__)", timeout_s=90)


def commit(c):
    """Return the commit of the programs, from the bundle's file or from git."""
    try:
        with open(os.path.join(c.a.from_ or ROOT, "COMMIT")) as f:
            return " ".join(f.read().split()) or "unknown"
    except OSError:
        changed = first_line("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
        return (first_line("git", "-C", ROOT, "rev-parse", "HEAD") or "unknown") + (" changed" if changed else "")


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
    for folder in python_folders(c.a.python):
        for name, needle in (("nccl", "libnccl.so*"), ("cupti", "libcupti.so*"), ("cublaslt", "libcublasLt.so*"), ("cudnn", "libcudnn.so*")):
            if "missing" in libraries[name] and glob.glob(os.path.join(folder, needle)):
                folders.add(folder)
                lost.append(name)
    if folders:
        told = [f for f in [c.env.get("LOCKSTEP_LIBRARY_PATH")] if f]
        c.env["LOCKSTEP_LIBRARY_PATH"] = ":".join(told + sorted(folders))
        raise Failed(f"not found, though Python has them: {', '.join(lost)} (the parts below are told where)")
    return {"libraries": libraries}, ", ".join(n for n, v in libraries.items() if "path" in v)
