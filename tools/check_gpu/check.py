"""What every part uses: the state of a run, commands with a time limit."""
import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from check_gpu.setups import SETUPS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAIL = 3000  # characters kept of a failed part's output


class Failed(Exception):
    """A part failed: a reason, then (optional) its figures."""


class Skipped(Exception):
    """A part cannot run here: the reason."""


class NotRun(Exception):
    """A part could run here, and has not: the reason."""


class Check:
    """State of one run: options, work folder, machine, results so far. Parts run programs through it."""

    def __init__(self, a):
        self.a, self.setup = a, SETUPS["quick" if a.quick else a.device]
        self.build = os.path.abspath(os.path.join(a.from_, "build") if a.from_ else a.build)
        self.counts = a.device == "cuda" and not a.quick  # the limits of performance hold
        self.began = time.monotonic()
        self.machine, self.records, self.built = {}, [], True
        self.earlier, self.table = None, []  # parts of an earlier check; figures with their verdicts
        self.env = dict(os.environ, PYTHONUNBUFFERED="1")
        self.work = os.path.abspath(a.keep) if a.keep else tempfile.mkdtemp(prefix="lockstep-check-gpu-")
        os.makedirs(self.work, exist_ok=True)
        self.limit_s, self.limit_at, self.log, self.part = 0.0, 0.0, None, ""
        self.unused_s = 0.0  # seconds that the build left
        self.running = set()

    def program(self, name):
        return os.path.join(self.build, name)

    def path(self, name):
        return os.path.join(self.work, f"{self.part}-{name}")

    def run(self, *command, good=(0,)):
        """Return exit code and output of a command, which is killed with its children when the part's time ends. It
        runs in the work folder, so that the sources that job files name are short."""
        with tempfile.TemporaryFile(dir=self.work) as own:  # several may run at a time
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=own, stderr=subprocess.STDOUT,
                                 env=self.env, cwd=self.work, **OWN_GROUP)
            self.running.add(p)
            try:
                code = p.wait(timeout=max(self.limit_at - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                raise Failed(f"{os.path.basename(command[0])} did not end within the part's {self.limit_s:.0f} s")
            finally:
                end_group(p)
                self.running.discard(p)
                own.seek(0)
                output = own.read().decode(errors="replace")
                self.log.write(f"$ {' '.join(command)}\n{output}".encode())  # one write: from any thread
                self.log.flush()
        if code not in good:
            said = output.strip().splitlines() or ["nothing said"]
            raise Failed(f"{os.path.basename(command[0])} ended with {code}: {said[-1][:200]}")
        return code, output

    def end(self):
        """Kill every command, of any thread, and whatever a thread may start meanwhile."""
        self.limit_at = 0.0
        for p in list(self.running):
            kill_group(p)  # the thread that started it waits for it
        sys.exit(1)

    def lockstep(self, *words):
        return self.run(self.program("lockstep"), *words)

    def batch(self):
        """Return how many samples of GPT-2 124M fit into the GPU's memory with every program."""
        memory = self.machine.get("memory_bytes", 80e9)
        return self.setup.batch if memory >= 40e9 else max(self.setup.batch // (2 if memory >= 20e9 else 4), 1)

    def train(self, name, *words, model=None):
        """Run `lockstep run` on the device; return its folder and result.json."""
        words = [*self.setup.options, "--model", model or self.setup.big, *words, "--out", f"{self.part}-{name}"]
        self.lockstep("run", *words)
        with open(glob.glob(os.path.join(self.path(name), "*", "result.json"))[0]) as f:
            return self.path(name), json.load(f)

    def file(self, suffix):
        return os.path.join(os.path.abspath(self.a.out), f"gpu-{self.machine['name']}-{self.machine['date']}.{suffix}")


# A process group is killed as one; where possible it stays in our session, so that it ends with the session.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


def kill_group(p):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGKILL)


def end_group(p):
    """Kill every process of the group, also those whose parent ended first."""
    kill_group(p)
    p.wait()
