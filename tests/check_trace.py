#!/usr/bin/env python3
"""Checks traces strictly against what Kineto's own writer emits (libkineto/src/output_json.cpp).

    tests/check_trace.py FILE...        .json or .json.gz; exit 1 at the first violation

Independent of lockstep: nothing here knows its "lockstep" object or its "lk_" keys. One liberty is
granted: pid may be a rank instead of a device number, so that several ranks fit into one file.

Also what two analyses of HTA need (HolisticTraceAnalysis, breakdown_analysis.py and communication_analysis.py, read, not
run): get_temporal_breakdown tells communication, memory and computation by the names of kernels, and asserts that the
time of all kernels is no less than that of computation; get_comm_comp_overlap divides by the time of communication.
"""

import gzip
import json
import re
import sys

HEADER = ["schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
          "distributedInfo", "traceEvents", "traceName"]
CATEGORIES = {
    "cpu_op", "user_annotation", "gpu_user_annotation", "gpu_memcpy", "gpu_memset", "kernel",
    "cuda_runtime", "cuda_driver", "cpu_instant_event", "python_function", "overhead", "cuda_sync",
    "cuda_event", "collective_comm", "Trace", "counter"}
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
LAUNCHERS = {"cuda_runtime", "cuda_driver"}
METADATA = {"process_name": ("name", str), "process_labels": ("labels", str),
            "process_sort_index": ("sort_index", int), "thread_name": ("name", str),
            "thread_sort_index": ("sort_index", int)}
DTYPES = {"Float", "Half", "BFloat16", "Byte", "Int", "Long", "Double"}
COLLECTIVE = {"Collective name": str, "In msg nelems": int, "Out msg nelems": int,
              "Group size": int, "dtype": str}
# How HTA sorts kernels by name: the first that matches; what is left is computation, but for NEITHER.
COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
NEITHER = re.compile(r".*(Memcpy|Memset|dma|Sync|cuda.*LaunchKernel)|Stream Wait Event|runFunction|job_exe")
TIME = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]{3}\Z")


class Violation(Exception):
    pass


class Decimal(str):
    """A JSON number with a point, as its text."""


def require(condition, where, text):
    if not condition:
        raise Violation("%s: %s" % (where, text))


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_a(v, kind):
    return is_int(v) if kind is int else isinstance(v, kind)


def object_without_duplicates(pairs):
    keys = [k for k, _ in pairs]
    require(len(keys) == len(set(keys)), "file", "duplicate key in %s" % keys)
    return dict(pairs)


def refuse_constant(text):
    raise Violation("file: %s is not JSON" % text)


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        text = f.read().decode("utf-8")
    return json.loads(text, parse_float=Decimal, parse_constant=refuse_constant,
                      object_pairs_hook=object_without_duplicates)


def nanoseconds(v, where):
    """Microseconds with exactly three decimals, as integer ns."""
    require(isinstance(v, Decimal) and TIME.match(v), where, "%r has not three decimals" % (v,))
    return int(v.replace(".", ""))


def sort_of(name):
    return ("communication" if COMMUNICATION.match(name) else "memory" if MEMORY.match(name) else
            "nothing that HTA counts" if NEITHER.match(name) else "computation")


def union(spans):
    """The time that spans cover, by HTA's rule. A span may end before it starts, where times were rounded."""
    total, start, end, last = 0, None, None, None
    for a, b in sorted(spans):
        if last is None or a > last:
            total += end - start if last is not None else 0
            start, end, last = a, b, b if last is None else max(last, b)
        else:
            end, last = max(end, b), max(last, b)
    return total + (end - start if last is not None else 0)


def check_header(t):
    require(isinstance(t, dict), "file", "not an object")
    for key in HEADER:
        require(key in t, "header", "%s is missing" % key)
    order = [k for k in t if k in HEADER]
    require(order[-2:] == ["traceEvents", "traceName"], "header", "order %s" % order)
    require(t["schemaVersion"] == 1 and is_int(t["schemaVersion"]), "schemaVersion", "not 1")
    require(t["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit", "unknown")
    require(is_int(t["baseTimeNanoseconds"]) and 0 <= t["baseTimeNanoseconds"] < 2**63,
            "baseTimeNanoseconds", "not an int64")
    require(isinstance(t["traceName"], str) and t["traceName"], "traceName", "no text")
    require(isinstance(t["deviceProperties"], list), "deviceProperties", "no array")
    for i, d in enumerate(t["deviceProperties"]):
        where = "deviceProperties[%d]" % i
        require(isinstance(d, dict), where, "no object")
        require(is_int(d.get("id")) and d["id"] >= 0, where, "id")
        require(isinstance(d.get("name"), str), where, "name")


def check_distributed(d):
    require(isinstance(d, dict), "distributedInfo", "no object")
    require(isinstance(d.get("backend"), str), "distributedInfo", "backend")
    require(is_int(d.get("world_size")) and d["world_size"] >= 1, "distributedInfo", "world_size")
    require(is_int(d.get("rank")) and 0 <= d["rank"] < d["world_size"], "distributedInfo", "rank")
    groups = d.get("pg_config")
    require(isinstance(groups, list) and d.get("pg_count") == len(groups), "distributedInfo",
            "pg_count is not the length of pg_config")
    for g in groups:
        for key in ("pg_name", "pg_desc", "backend_config"):
            require(isinstance(g.get(key), str), "pg_config", key)
        require(isinstance(g.get("ranks"), list) and g.get("pg_size") == len(g["ranks"]),
                "pg_config", "pg_size is not the number of ranks")
        require(all(is_int(r) and 0 <= r < d["world_size"] for r in g["ranks"]), "pg_config",
                "ranks")


def check_common(e, where):
    require(isinstance(e, dict), where, "no object")
    require(e.get("ph") in ("X", "i", "M", "C", "s", "f"), where, "ph %r" % e.get("ph"))
    require(isinstance(e.get("name"), str) and e["name"], where, "name")
    for key in ("pid", "tid"):
        require(is_int(e.get(key)) or isinstance(e.get(key), str), where, key)
    if e["ph"] in ("X", "i"):
        require(e.get("cat") in CATEGORIES, where, "cat %r" % e.get("cat"))
    if "args" in e:
        require(isinstance(e["args"], dict), where, "args")


def check_metadata(e, where):
    require(e["name"] in METADATA, where, "metadata %s" % e["name"])
    key, kind = METADATA[e["name"]]
    require(set(e.get("args", {})) == {key} and is_a(e["args"][key], kind), where,
            "args of %s" % e["name"])


def check_counter(e, where):
    require(e.get("args"), where, "a counter without a value")
    for v in e["args"].values():
        require(is_int(v) or isinstance(v, (Decimal, str)), where, "value %r" % (v,))


def check_collective(args, where):
    present = [k for k in COLLECTIVE if k in args]
    if not present:
        return
    require(len(present) == len(COLLECTIVE), where, "only %s of the collective's args" % present)
    for key, kind in COLLECTIVE.items():
        require(is_a(args[key], kind), where, key)
    require(args["dtype"] in DTYPES, where, "dtype %s" % args["dtype"])
    require(args["Group size"] >= 1, where, "Group size")
    require(args["In msg nelems"] >= 0 and args["Out msg nelems"] >= 0, where, "nelems")


class Checker:
    def __init__(self):
        self.launches = {}
        self.launched = {}
        self.tracks = {}
        self.steps = {}
        self.processes = set()
        self.used = set()
        self.annotated, self.moving = {}, {}  # by pid and size: collectives that only annotate; their kernels
        self.work = {}  # by pid: start, end and sort of what runs on its device
        self.joint = {}  # by pid: the largest group of its collectives

    def event(self, e, where):
        check_common(e, where)
        ts = nanoseconds(e.get("ts"), where + ".ts")
        if e["ph"] == "M":
            check_metadata(e, where)
            if e["name"] == "process_name":
                self.processes.add(e["pid"])
            return
        self.used.add(e["pid"])
        if e["ph"] == "C":
            check_counter(e, where)
        elif e["ph"] == "i":
            require(e.get("s") in ("t", "p", "g"), where, "scope")
            require("dur" not in e, where, "an instant with a duration")
        elif e["ph"] == "X":
            self.complete(e, ts, where)

    def complete(self, e, ts, where):
        dur = nanoseconds(e.get("dur"), where + ".dur")
        args = e.get("args", {})
        require(dur >= 0, where, "negative dur")
        self.tracks.setdefault((e["pid"], e["tid"]), []).append((ts, ts + dur, where))
        if e["cat"] in ON_DEVICE:
            for key in ("device", "stream", "correlation"):
                require(is_int(args.get(key)) and args[key] >= 0, where, "args.%s" % key)
            require(args["stream"] == e["tid"], where, "args.stream is not tid")
            require(args["correlation"] not in self.launched, where, "correlation twice")
            self.launched[args["correlation"]] = (e["pid"], where)
            self.device_work(e, ts, ts + dur, where)
        if e["cat"] == "gpu_user_annotation":
            require("stream" not in args, where, "args.stream, by which HTA takes it for a kernel")
            self.count(self.annotated, e["pid"], args)
        self.joint[e["pid"]] = max(self.joint.get(e["pid"], 0), args.get("Group size", 0))
        if e["cat"] in LAUNCHERS and "correlation" in args:
            require(is_int(args["correlation"]), where, "args.correlation")
            require(args["correlation"] not in self.launches, where, "two launches, one correlation")
            self.launches[args["correlation"]] = (e["pid"], ts)
        match = re.match(r"ProfilerStep#([0-9]+)\Z", e["name"])
        if match and e["cat"] == "user_annotation":
            steps = self.steps.setdefault(e["pid"], {})
            require(int(match.group(1)) not in steps, where, "%s twice" % e["name"])
            steps[int(match.group(1))] = (ts, ts + dur)

    def device_work(self, e, start, end, where):
        args, sort = e.get("args", {}), sort_of(e["name"])
        self.work.setdefault(e["pid"], []).append((start, end, sort))
        if e["cat"] != "kernel":
            require(sort == "memory", where, "%s '%s' is %s" % (e["cat"], e["name"], sort))
            return
        check_collective(args, where)
        require(sort == ("communication" if "Collective name" in args else sort) and
                sort in ("communication", "computation"), where, "kernel '%s' is %s" % (e["name"], sort))
        if not e["name"].startswith("nccl:"):  # that is a collective itself
            self.count(self.moving, e["pid"], args)

    def breakdown(self, pid, work):
        """HTA takes times in whole microseconds, rounded inwards."""
        def covered(sort):
            return union((-(-a // 1000), b // 1000) for a, b, s in work if sort in (s, None))
        if self.joint.get(pid, 0) > 1:
            require(covered("communication") > 0, "pid %s" % pid, "no time of communication")
            require(covered(None) >= covered("computation"), "pid %s" % pid,
                    "less time of all kernels than of computation")

    def finish(self):
        for correlation, (pid, where) in self.launched.items():
            require(correlation in self.launches, where, "no launch")
            require(self.launches[correlation][0] == pid, where, "launched by another process")
        require(self.used <= self.processes, "traceEvents",
                "no process_name for pid %s" % sorted(map(str, self.used - self.processes)))
        for pid, steps in self.steps.items():
            ordered = [steps[n] for n in sorted(steps)]
            for a, b in zip(ordered, ordered[1:]):
                require(a[1] <= b[0], "pid %s" % pid, "steps overlap")
        for track, spans in self.tracks.items():
            self.nested(track, spans)
        for pid, work in self.work.items():
            self.breakdown(pid, work)
        for key, n in self.annotated.items():  # HTA and TraceLens add up kernels alone
            require(self.moving.get(key, 0) >= n, "pid %s" % key[0], "collectives without a kernel")

    @staticmethod
    def count(of, pid, args):
        if "Collective name" in args:
            key = pid, args["In msg nelems"]
            of[key] = of.get(key, 0) + 1

    @staticmethod
    def nested(track, spans):
        """Ranges of one track contain each other or are apart: viewers draw stacks."""
        open_ends = []
        for start, end, where in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            require(not open_ends or end <= open_ends[-1], where,
                    "overlaps another span of pid %s, tid %s" % track)
            open_ends.append(end)


def check(path):
    t = load(path)
    check_header(t)
    check_distributed(t["distributedInfo"])
    require(isinstance(t["traceEvents"], list), "traceEvents", "no array")
    checker = Checker()
    for i, e in enumerate(t["traceEvents"]):
        checker.event(e, "traceEvents[%d]" % i)
    checker.finish()
    return len(t["traceEvents"])


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    for path in paths:
        try:
            print("%s: %d events, ok" % (path, check(path)))
        except (Violation, ValueError, OSError, EOFError) as e:
            print("%s: %s" % (path, e), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
