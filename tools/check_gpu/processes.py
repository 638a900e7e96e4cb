"""Processes with a time limit. Every wait ends, also that for a process that a kill does not end."""
import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

KILL_S = 5  # a killed process that is still there then waits within the kernel, as for the GPU's driver
WATCH_S = 0.5  # between two looks at what a process has written

# A process group is killed as one; where possible it stays in our session, so that it ends with the session.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


class Processes:
    """The processes that run now, started by any thread."""

    def __init__(self):
        self.running, self.ended = set(), False

    def start(self, command, **more):
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, **more, **OWN_GROUP)
        self.running.add(p)
        if self.ended:  # end_all did not see it
            kill_group(p)
        return p

    def wait(self, p, until, watch=None):
        """Return the exit code, or None at the time `until`. watch() is called now and then."""
        while True:
            left = max(until - time.monotonic(), 0)
            try:
                return p.wait(timeout=min(left, WATCH_S) if watch else left)
            except subprocess.TimeoutExpired:
                if watch:
                    watch()
                if time.monotonic() >= until:
                    return None

    def end(self, p):
        """Kill every process of the group, also those whose parent ended first; return whether p has ended."""
        kill_group(p)
        self.running.discard(p)
        return self.wait(p, time.monotonic() + KILL_S) is not None

    def end_all(self):
        """Kill what runs and whatever a thread may start from now on; the threads wait for them."""
        self.ended = True
        for p in list(self.running):
            kill_group(p)

    def first_line(self, *command, timeout_s=20):
        """Return the first line that a command prints, or None if it fails or says nothing in time."""
        with tempfile.TemporaryFile("w+") as said:
            try:
                p = self.start(command, stdout=said, stderr=subprocess.DEVNULL)
            except OSError:
                return None
            code = self.wait(p, time.monotonic() + timeout_s)
            self.end(p)
            said.seek(0)
            return (said.read().strip().splitlines() or [None])[0] if code == 0 else None


def kill_group(p):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGKILL)


def computed_s(p):
    """Return the processor's seconds that the group of a running process has used: a hang uses few."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as f:
            fields = f.read().rsplit(")", 1)[1].split()  # behind the name: proc(5) counts it as the second
            if int(fields[2]) == p.pid:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
