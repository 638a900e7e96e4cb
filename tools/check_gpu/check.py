"""What every part uses: the state of a run, commands within the part's time."""
import collections
import glob
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

from check_gpu.processes import Processes, computed_s
from check_gpu.setups import SETUPS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAIL = 3000  # characters kept of a failed part's output


class Stop(Exception):
    """A part ends early: a reason, then (optional) its figures. Its status in the result file is the class's."""

    status = ""

    def reason(self):
        return str(self.args[0])

    def figures(self):
        return self.args[1] if len(self.args) > 1 else None


class Failed(Stop):
    """What the part checks is wrong, or took more than the part's own time."""

    status = "fail"


class Skipped(Stop):
    """The part cannot run here."""

    status = "skipped"


class NotRun(Stop):
    """The part could run here, and did not, or was cut off before its own time had passed."""

    status = "not run"


class Ended(BaseException):
    """check-gpu itself is being ended: by which signal."""


# Of a command: exit code (None: it was killed), output, and the Stop that tells what is wrong, or None.
Done = collections.namedtuple("Done", "code output why")


class Check:
    """State of one run: options, work folder, machine, results so far. Parts run programs through it."""

    def __init__(self, a):
        self.a, self.setup = a, SETUPS["quick" if a.quick else a.device]
        self.build = os.path.abspath(os.path.join(a.from_, "build") if a.from_ else a.build)
        self.counts = a.device == "cuda" and not a.quick  # the limits of performance hold
        self.began, self.whole_at = time.monotonic(), 0.0
        self.machine, self.commit, self.built = {}, "", True
        self.rows, self.row = {}, {}  # of the result file; the row of the part that runs
        self.earlier, self.earlier_logs, self.table = [], {}, []  # of earlier checks; figures with their verdicts
        self.said = []  # the lines on standard output
        self.env = dict(os.environ, PYTHONUNBUFFERED="1")
        self.work = os.path.abspath(a.keep) if a.keep else tempfile.mkdtemp(prefix="lockstep-check-gpu-")
        os.makedirs(self.work, exist_ok=True)
        self.part, self.part_at, self.limit_s, self.limit_at, self.cut, self.log = "", 0.0, 0.0, 0.0, False, None
        self.processes, self.lock, self.write = Processes(), threading.RLock(), lambda: None

    def program(self, name):
        return os.path.join(self.build, name)

    def path(self, name):
        return os.path.join(self.work, f"{self.part}-{name}")

    def say(self, line):
        self.said.append(line)
        print(line, flush=True)

    def limit(self, name, usual):
        """Return the seconds of a part, or of a suite ("suites/records"), as the options have them."""
        return self.a.limits.get(name, self.a.limits.get("all", usual))

    def begin(self, part, limit_s, left_s):
        """Begin a part, which has limit_s seconds, or is cut where the whole has fewer left."""
        self.part, self.part_at, self.limit_s = part, time.monotonic(), limit_s
        self.limit_at, self.cut = self.part_at + min(limit_s, left_s), left_s < limit_s

    def late(self, still, start=None, own_s=None):
        """Return the Stop of something whose time has ended: it had its own seconds from `start` on, the part's if none
        are given, or was cut off before. still: what has not ended."""
        start, own_s, now = start or self.part_at, own_s or self.limit_s, time.monotonic()
        if now >= start + 0.99 * own_s and not self.processes.ended:  # what a start takes is not counted
            return Failed(f"did not end within its own {own_s:.0f} s: {still}")
        return NotRun(f"cut off after {now - start:.0f} s of its {own_s:.0f} s: {still}")

    def attempt(self, *command, own_s=None, until=None, good=(0,), watch=None):
        """Run a command and kill it with its children when its time ends: own_s seconds or the rest of the part's, and in
        any case at the time `until` and at the part's end. It runs in the work folder, so that the sources that job files
        name are short. Return Done."""
        name, start = os.path.basename(command[0]), time.monotonic()
        end_at = min(self.limit_at, until or self.limit_at, start + (own_s or self.limit_s))
        if self.processes.ended or start >= end_at:
            return Done(None, "", self.late(f"{name} was not started", start if own_s else None, own_s))
        code, why, output = None, None, ""
        with tempfile.TemporaryFile(dir=self.work) as own:  # several may run at a time
            p = self.processes.start(command, stdout=own, stderr=subprocess.STDOUT, env=self.env, cwd=self.work)
            try:
                code = self.processes.wait(p, end_at, watch)
                if code is None:
                    why = self.late(f"{name} had computed for {computed_s(p):.1f} s", start if own_s else None, own_s)
            finally:
                if not self.processes.end(p):
                    why = why and type(why)(f"{why.reason()}, and no kill ends it")
                own.seek(0)
                output = own.read().decode(errors="replace")
                self.log.write(f"$ {' '.join(command)}\n{output}".encode())  # one write: from any thread
                self.log.flush()
        if code is not None and code not in good and self.processes.ended:
            why = self.late("check-gpu was ended", start if own_s else None, own_s)
        elif code is not None and code not in good:
            said = output.strip().splitlines() or ["nothing said"]
            why = Failed(f"{name} ended with {code}: {said[-1][:200]}")
        return Done(code, output, why)

    def run(self, *command, **more):
        """Run a command as attempt; return exit code and output, or raise what is wrong."""
        done = self.attempt(*command, **more)
        if done.why:
            raise done.why
        return done.code, done.output

    def progress(self, figures):
        """Write what the part has found so far: when this script is killed, no more is lost than what comes later."""
        self.row["figures"] = figures
        self.write()

    def end(self, number, _frame):
        """End: a handler of signals. Every command is killed, and the main thread writes what there is."""
        for n in ENDING:
            signal.signal(n, signal.SIG_IGN)
        self.processes.end_all()
        raise Ended(signal.Signals(number).name)

    def lockstep(self, *words):
        return self.run(self.program("lockstep"), *words)

    def batch(self):
        """Return how many samples of GPT-2 124M fit into the GPU's memory with every program."""
        memory = self.machine.get("memory_bytes") or 80e9
        return self.setup.batch if memory >= 40e9 else max(self.setup.batch // (2 if memory >= 20e9 else 4), 1)

    def train(self, name, *words, model=None):
        """Run `lockstep run` on the device; return its folder and result.json."""
        words = [*self.setup.options, "--model", model or self.setup.big, *words, "--out", f"{self.part}-{name}"]
        self.lockstep("run", *words)
        with open(glob.glob(os.path.join(self.path(name), "*", "result.json"))[0]) as f:
            return self.path(name), json.load(f)

    def file(self, suffix):
        return os.path.join(os.path.abspath(self.a.out), f"gpu-{self.machine['name']}-{self.machine['date']}.{suffix}")


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
