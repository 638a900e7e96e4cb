"""Which software each side of a comparison with PyTorch computes with: BLAS, threads, vector instructions, versions.

A ratio against a PyTorch that multiplies matrices with the reference BLAS says nothing about PyTorch, so the
comparisons give none there.
"""
import ctypes
import os
import re
import subprocess

REFERENCE = "reference BLAS"
# Which library a file is, in the order of trying: OpenBLAS also comes as .../openblas-pthread/libblas.so.3.
LIBRARIES = (
    (r"libmkl_", "MKL"),
    (r"openblas", "OpenBLAS"),
    (r"libblis|/blis", "BLIS"),
    (r"libatlas|/atlas/", "ATLAS"),
    (r"libblas\.so|libcblas\.so", REFERENCE),
)


class Symbol(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("at", ctypes.c_void_p)]


def mapped_files():
    with open("/proc/self/maps") as f:
        return sorted({words[5].strip() for words in (line.split(None, 5) for line in f) if len(words) > 5})


def blas_file():
    """File that PyTorch's sgemm_ comes from, links resolved: other libraries may have loaded another BLAS beside it."""
    library = next((f for f in mapped_files() if "libtorch_cpu" in f), None)
    if library is None:
        return None
    found = Symbol()
    try:
        sgemm = ctypes.cast(ctypes.CDLL(library).sgemm_, ctypes.c_void_p)
    except AttributeError:
        return None
    if not ctypes.CDLL(None).dladdr(sgemm, ctypes.byref(found)) or not found.file:
        return None
    return os.path.realpath(found.file.decode())


def openblas_text(path):
    try:
        get = ctypes.CDLL(path).openblas_get_config
    except (OSError, AttributeError):
        return f"OpenBLAS ({os.path.basename(os.path.dirname(path))})"
    get.restype = ctypes.c_char_p
    return get().decode().strip()


def torch_side():
    """About this process's PyTorch."""
    import torch

    path = blas_file()
    name = next((name for pattern, name in LIBRARIES if re.search(pattern, path or "")), None)
    if name is None and torch.backends.mkl.is_available():
        name = "MKL"  # linked into PyTorch's own library
    config = torch.__config__.show()
    vectors = re.search(r"CPU capability usage: (\S+)", config)
    return {
        "torch": torch.__version__,
        "blas": openblas_text(path) if name == "OpenBLAS" else name or "unknown BLAS",
        "threads": torch.get_num_threads(),
        "vectors": vectors.group(1) if vectors else "unknown",
        "mkldnn": torch.backends.mkldnn.is_available(),
        "reference_blas": name == REFERENCE,
    }


def torch_text(side):
    return (f"PyTorch {side['torch']}: {side['blas']}{', oneDNN' if side['mkldnn'] else ''}, "
            f"vector instructions: {side['vectors']}, {side['threads']} thread{'s' if side['threads'] != 1 else ''} a rank")


def our_text(lockstep, threads=1):
    lines = subprocess.run([lockstep, "--version"], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    math = next((line[len("math: "):] for line in lines if line.startswith("math: ")), "unknown BLAS")
    return f"ours: {lines[0]}: {math}, {threads} thread{'s' if threads != 1 else ''} a rank"


def why_no_ratio(side):
    """A reason to give no ratio against this PyTorch on a CPU, or None."""
    if side["reference_blas"]:
        return f"PyTorch {side['torch']} runs on the reference BLAS here (install libopenblas0): no ratio"
    if side["blas"] == "unknown BLAS":
        return f"no telling which BLAS PyTorch {side['torch']} runs on here: no ratio"
    return None


if __name__ == "__main__":
    print(torch_text(torch_side()))
