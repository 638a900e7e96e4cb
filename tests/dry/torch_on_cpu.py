"""Python's sitecustomize on the machine that is none: a PyTorch that has a GPU, as far as bench/torch_gpt2.py and
bench/torch_traces.py ask, computes on the CPU and compiles nothing. Changes torch once it is imported."""
import importlib.abc
import importlib.machinery
import sys


def change(torch):
    def here(device):
        return "cpu" if str(device).startswith("cuda") else device

    def moved(to):
        return lambda self, *a, **k: to(self, *(here(x) if isinstance(x, (str, torch.device)) else x for x in a), **k)

    # Its profiler would complain of each event that has no time on the GPU.
    profile, loader = torch.profiler.profile, torch.utils.data.DataLoader
    torch.profiler.profile = lambda activities, **k: profile(activities=activities[:1], **k)
    torch.utils.data.DataLoader = lambda data, pin_memory=False, **k: loader(data, **k)
    autocast, adamw, init = torch.autocast, torch.optim.AdamW, torch.distributed.init_process_group
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.synchronize = torch.cuda.set_device = lambda *a: None
    torch.compile = lambda model: model
    torch.Tensor.to = moved(torch.Tensor.to)
    torch.nn.Module.to = moved(torch.nn.Module.to)
    torch.autocast = lambda device, **k: autocast(here(device), **k)
    torch.optim.AdamW = lambda groups, fused=False, **k: adamw(groups, **k)
    torch.distributed.init_process_group = lambda backend, **k: init("gloo", **k)
    torch.set_num_threads(1)


class Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        change(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec:
            spec.loader = Loader(spec.loader)
        return spec


sys.meta_path.insert(0, Finder())
