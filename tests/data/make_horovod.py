#!/usr/bin/env python3
"""Make the timelines in tests/fuzz/corpus/horovod, as horovod/common/timeline.cc writes them.

Four ranks train; a step takes 100 ms, us below. Four gradients are asked for 40, 50, 60 and 70 ms
into it; the first two are fused, and the last two. Rank 2 comes 5 ms after the others in the first
two steps; from the third on the tensors are in Horovod's cache. The job is killed in its sixth.
"hierarchical.json" has one tensor, reduced in three transfers.
Usage: make_horovod.py FOLDER
"""
import json
import pathlib
import sys

SIZES = [[1000, 512], [512], [64, 3, 7, 7], []]


class Timeline:
    def __init__(self):
        self.lines, self.pids = [], {}
        self.meta(0, "process_name", start_time_since_epoch_in_micros=1700000000000000)
        self.meta(0, "process_sort_index", sort_index=0)

    def meta(self, pid, kind, **args):
        self.lines.append({"name": kind, "ph": "M", "pid": pid, "args": args})

    def event(self, tensor, ph, ts, name=None, **args):
        if tensor not in self.pids:
            self.pids[tensor] = len(self.pids) + 1
            self.meta(self.pids[tensor], "process_name", name=tensor)
            self.meta(self.pids[tensor], "process_sort_index", sort_index=self.pids[tensor])
        e = {"ph": ph}
        if name is not None:
            e["name"] = name
        e.update(ts=ts, pid=self.pids[tensor])
        if ph == "X":
            e["dur"] = 0
        if args:
            e["args"] = args
        self.lines.append(e)

    def cycle(self, ts):
        self.lines.append({"ph": "i", "name": "CYCLE_START", "ts": ts, "s": "g"})

    def negotiate(self, tensor, ts, kind, ticks):
        self.event(tensor, "B", ts, "NEGOTIATE_" + kind)
        for rank, at in ticks:
            self.event(tensor, "X", at, str(rank))
        self.event(tensor, "E", max([at for _, at in ticks], default=ts + 2000) + 1)

    def write(self, path, end):
        path.write_text("[\n" + ",\n".join(map(json.dumps, self.lines)) + end)


def name(i):
    return f"DistributedOptimizer.allreduce.layer{i}.weight"


def asked(t, step, tensors, at):
    for i in tensors:
        # Requests of a cycle come one behind the other; rank 2's a few cycles later.
        late = [(r, at + 3 * r) for r in (0, 1, 3)] + [(2, at + 5000)] if step < 2 else []
        t.negotiate(name(i), at, "ALLREDUCE", late)
        at += 10000


def fused(t, tensors, at, duration, cut=False):
    for k, i in enumerate(tensors):
        t.event(name(i), "B", at + k, "ALLREDUCE")
    for activity, start, end in (("MEMCPY_IN_FUSION_BUFFER", 100, 200),
                                 ("NCCL_ALLREDUCE", 200, 200 + duration),
                                 ("MEMCPY_OUT_FUSION_BUFFER", 200 + duration, 300 + duration)):
        for k, i in enumerate(tensors):
            t.event(name(i), "B", at + start + k, activity)
        if cut:
            return
        for k, i in enumerate(tensors):
            t.event(name(i), "E", at + end + k)
    for k, i in enumerate(tensors):
        t.event(name(i), "E", at + 301 + duration + k, dtype="float32", shape=str(SIZES[i]))


def main():
    folder = pathlib.Path(sys.argv[1])
    t = Timeline()
    t.negotiate("broadcast.layer0.weight", 100, "BROADCAST", [(r, 101 + r) for r in range(4)])
    t.event("broadcast.layer0.weight", "B", 200, "BROADCAST")
    t.event("broadcast.layer0.weight", "B", 210, "MPI_BCAST")
    t.event("broadcast.layer0.weight", "E", 900)
    t.event("broadcast.layer0.weight", "E", 910, dtype="int64", shape="[2]")
    for step in range(6):
        begin = 100000 * (step + 1)
        t.cycle(begin)
        asked(t, step, (0, 1), begin + 40000)
        fused(t, (0, 1), begin + 56000, 8000)
        asked(t, step, (2, 3), begin + 60000)
        fused(t, (2, 3), begin + 76000, 6000, cut=step == 5)
    t.write(folder / "killed.json", ',\n{"ph": "E", "ts": 67')

    t = Timeline()
    t.negotiate(name(0), 1000, "ADASUM", [(1, 1001), (0, 4000)])
    t.event(name(0), "B", 4100, "ADASUM")
    for activity, start, end in (("QUEUE", 4110, 4120), ("NCCL_REDUCESCATTER", 4120, 5000),
                                 ("MEMCPY_IN_HOST_BUFFER", 5000, 5100),
                                 ("MPI_ALLREDUCE", 5100, 7000),
                                 ("MEMCPY_OUT_HOST_BUFFER", 7000, 7100),
                                 ("NCCL_ALLGATHER", 7100, 7600)):
        t.event(name(0), "B", start, activity)
        t.event(name(0), "E", end)
    t.event(name(0), "E", 7700, dtype="float16", shape="[1000, 512]")
    t.write(folder / "hierarchical.json", "]")


main()
