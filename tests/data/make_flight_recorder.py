#!/usr/bin/env python3
"""Make the dumps in tests/fuzz/corpus/flight_recorder, in the layout of FlightRecorderDetail.hpp.

Four ranks train; rank 3 wrote no dump, and rank 1 has not joined all-reduce 7, which ranks 0 and 2
wait for. The first two entries are lost. The file of rank 0 has the opcodes of PyTorch's own
pickler, that of rank 1 those of Python's, that of rank 2 is JSON.
Usage: make_flight_recorder.py FOLDER
"""
import json
import pathlib
import pickle
import struct
import sys

FRAMES = [{"name": "all_reduce", "filename": "torch/distributed/distributed_c10d.py", "line": 2806},
          {"name": "<module>", "filename": "train.py", "line": 40}]


def entry(record, sequence, name, elements, dtype="Float", **more):
    sizes, dtypes = [[n] for n in elements], [dtype for _ in elements]
    return {"frames": list(FRAMES), "record_id": record, "pg_id": 0,
            "process_group": ("0", "default_pg"), "collective_seq_id": sequence, "p2p_seq_id": 0,
            "op_id": record + 1, "profiling_name": name,
            "time_created_ns": 1700000000000000000 + record * 4000000, "duration_ms": 1.5,
            "input_sizes": sizes, "input_dtypes": dtypes, "output_sizes": sizes,
            "output_dtypes": dtypes, "state": "completed", "time_discovered_started_ns": 7,
            "time_discovered_completed_ns": 8, "retired": True, "timeout_ms": 600000,
            "is_p2p": False, **more}


def dump(rank):
    entries = [entry(2, 3, "nccl:all_reduce", [2049000]),
               entry(3, 4, "nccl:all_reduce", [7875584]),
               entry(4, 5, "nccl:_all_gather_base", [1000], "BFloat16", state="scheduled"),
               entry(5, 5, "nccl:_all_gather_base", [30], "BFloat16", state="scheduled"),
               entry(6, 5, "nccl:coalesced", []),
               entry(7, 5, "nccl:send 0->1", [64], "Long", is_p2p=True, p2p_seq_id=1),
               entry(8, 6, "nccl:all_reduce_barrier", [1])]
    if rank != 1:
        entries += [entry(9, 7, "nccl:all_reduce", [2049000], state="started", retired=False),
                    entry(10, 8, "nccl:all_reduce", [7875584], state="scheduled", retired=False)]
        for e in entries[-2:]:
            del e["duration_ms"]
            e["time_discovered_completed_ns"] = None
    newest = entries[-1]["collective_seq_id"]
    return {"version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
                          "1": {"name": "1", "desc": "undefined", "ranks": "[0, 1]"}},
            "nccl_version": "2.26.2",
            "pg_status": {"0": {"last_enqueued_collective": newest,
                                "last_started_collective": 7, "last_completed_collective": 6}},
            "entries": entries}


class TorchPickler:
    """The opcodes of torch/csrc/jit/serialization/pickler.cpp."""

    def __init__(self):
        self.out, self.strings, self.shared, self.puts = bytearray(b"\x80\x02"), {}, {}, 0

    def put(self):
        self.out += (b"q" + bytes([self.puts]) if self.puts < 256
                     else b"r" + struct.pack("<I", self.puts))
        self.puts += 1
        return self.puts - 1

    def get(self, number):
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def push(self, v):
        if isinstance(v, dict) and any(v is f for f in FRAMES) and id(v) in self.shared:
            self.get(self.shared[id(v)])
        elif v is None or isinstance(v, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[v]
        elif isinstance(v, int):
            self.out += (b"K" + bytes([v]) if v < 256 else b"M" + struct.pack("<H", v)
                         if v < 65536 else b"J" + struct.pack("<i", v) if v < 1 << 31
                         else b"\x8a\x08" + struct.pack("<q", v))
        elif isinstance(v, float):
            self.out += b"G" + struct.pack(">d", v)
        elif isinstance(v, str):
            if v in self.strings:
                return self.get(self.strings[v])
            self.out += b"X" + struct.pack("<I", len(v)) + v.encode()
            self.strings[v] = self.put()
        elif isinstance(v, tuple):
            for item in v:
                self.push(item)
            self.out += b"\x86"
        else:
            self.container(v)

    def container(self, v):
        self.out += b"](" if isinstance(v, list) else b"}("
        for item in v:
            self.push(item)
            if isinstance(v, dict):
                self.push(v[item])
        self.out += b"e" if isinstance(v, list) else b"u"
        if any(v is f for f in FRAMES):
            self.shared[id(v)] = self.put()


def main():
    folder = pathlib.Path(sys.argv[1])
    torch = TorchPickler()
    torch.push(dump(0))
    (folder / "nccl_trace_rank_0").write_bytes(bytes(torch.out) + b".")
    (folder / "nccl_trace_rank_1").write_bytes(pickle.dumps(dump(1), protocol=5))
    (folder / "nccl_trace_rank_2.json").write_text(
        json.dumps(dump(2), sort_keys=True, separators=(",", ":")))


main()
