#!/usr/bin/env python3
"""Pieces of tools/check_gpu and of bench/gpu_torch.py that need neither a GPU nor PyTorch: what a limit cuts off, which row
of two stays, which rows of a program that failed are kept.  tests/tools/check_gpu_units.py FOLDER"""
import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "bench")]

from check_gpu import check, correctness, figures, logs, processes, report, speed  # noqa: E402 (found by the line above)

LONG_S, SHORT_S = 3000, 0.2
FOLDER = sys.argv.pop(1)


def new_check(own_s, left_s=LONG_S, **limits):
    """A check in the middle of a part that has own_s seconds, and the whole left_s."""
    a = argparse.Namespace(quick=True, device="cuda", from_=FOLDER, keep=os.path.join(FOLDER, "work"), limits=limits, out=FOLDER)
    c = check.Check(a)
    c.machine.update(name="x", date="2030-01-31", gpu="NVIDIA X1")
    c.begin("part", own_s, left_s)
    c.log = io.BytesIO()
    return c


def program(path, text):
    path = os.path.join(FOLDER, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


class Limits(unittest.TestCase):
    def test_a_part_that_had_all_its_time_fails(self):
        why = new_check(SHORT_S).attempt("sleep", str(LONG_S)).why
        self.assertIsInstance(why, check.Failed)
        self.assertIn("did not end within its own 0 s: sleep had computed for 0.", why.reason())

    def test_a_part_that_is_cut_off_was_not_run(self):
        why = new_check(45, SHORT_S).attempt("sleep", str(LONG_S)).why
        self.assertIsInstance(why, check.NotRun)
        self.assertRegex(why.reason(), r"^cut off after \d+ s of its 45 s: sleep")

    def test_suites_have_times_of_their_own(self):
        c = new_check(LONG_S)
        self.assertIsInstance(c.attempt("sleep", str(LONG_S), own_s=SHORT_S).why, check.Failed)
        began_late = c.attempt("sleep", str(LONG_S), own_s=LONG_S, until=time.monotonic() + SHORT_S).why
        self.assertIsInstance(began_late, check.NotRun)

    def test_a_process_that_no_kill_ends_is_left(self):
        killed, kill_s = [], processes.KILL_S
        kill, processes.kill_group, processes.KILL_S = processes.kill_group, killed.append, SHORT_S
        try:
            why = new_check(SHORT_S).attempt("sleep", str(LONG_S)).why
        finally:
            processes.kill_group, processes.KILL_S = kill, kill_s
            kill(killed[0])
            killed[0].wait()
        self.assertIn("no kill ends it", why.reason())

    def test_suites_in_the_order_of_what_they_tell(self):
        program("build/test_gpu", "#!/bin/sh\ncase $1 in\n--list) echo odd calibrate nccl kernels/a records kernels/b;;\n"
                "kernels/b) exit 1;;\n*) echo \"suite $1: 1 checks, 0 failed\";;\nesac\n")
        c, written = new_check(LONG_S, all=LONG_S), []
        c.write = lambda: written.append(c.row)
        with self.assertRaises(check.Failed) as raised:
            correctness.suites(c)
        f = raised.exception.figures()
        ran = [line.split()[-1] for line in c.log.getvalue().decode().splitlines() if line.startswith("$")]
        self.assertEqual((ran[0], set(ran[1:3]), ran[3:]), ("--list", {"kernels/a", "kernels/b"}, ["records", "calibrate", "odd"]))
        self.assertEqual({name: v["status"] for name, v in f.items() if v["status"] != "pass"}, {"kernels/b": "fail"})
        self.assertGreaterEqual(len(written), 5)  # after every suite


class Kernels(unittest.TestCase):
    ROWS = ("# NVIDIA X1\nmatmul_forward             16384x768x50257         bfloat16  refused: no algorithm (status 15)\n"
            "attention_forward          own                     bfloat16     0.5000    100.00    1000.0\n"
            "attention_backward         own                     bfloat16     1.5000    100.00    1000.0\n"
            "attention_forward          cudnn                   bfloat16     0.4000    100.00    1000.0\n"
            "attention_backward         cudnn                   bfloat16     0.6000    100.00    1000.0\n")

    def test_rows_are_kept_when_the_program_fails(self):
        program("build/bench/kernels_cuda", f"#!/bin/sh\ncat << 'EOF'\n{self.ROWS}EOF\necho an illegal address >&2\nexit 1\n")
        with self.assertRaises(check.Failed) as raised:
            speed.kernels(new_check(LONG_S))
        self.assertEqual(len(raised.exception.figures()["kernels"]), 5)
        self.assertIn("ended with 1: an illegal address (4 rows, 1 refused before)", raised.exception.reason())

    def test_a_refused_product_is_a_row(self):
        program("build/bench/kernels_cuda", f"#!/bin/sh\ncat << 'EOF'\n{self.ROWS}EOF\n")
        f, text = speed.kernels(new_check(LONG_S))
        self.assertEqual(text, "4 rows, 1 refused")
        self.assertEqual(f["kernels"][0], {"op": "matmul_forward", "shape": "16384x768x50257", "dtype": "bfloat16",
                                           "refused": "no algorithm (status 15)"})
        self.assertEqual(figures.attention_ratio(f), 0.5)


class Results(unittest.TestCase):
    def test_which_row_stays(self):
        for now, earlier, stays in (("pass", "fail", "now"), ("fail", "pass", "now"), ("skipped", "pass", "earlier"),
                                    ("not run", "fail", "earlier"), ("not run", "skipped", "earlier"), ("skipped", "not run", "now")):
            rows = [[{"name": "ddp", "status": status, "of": of}] for status, of in ((now, "now"), (earlier, "earlier"))]
            self.assertEqual(report.together(*rows)[0]["of"], stays, f"{now} after {earlier}")
        cut = {"name": "suites", "status": "not run", "figures": {"kernels/a": {"status": "pass"}}}
        kept = report.together([{"name": "suites", "status": "not run"}, {"name": "machine", "status": "pass"}], [cut])
        self.assertEqual([row["name"] for row in kept], ["machine", "suites"])
        self.assertIs(kept[1], cut)

    def test_what_cannot_be_merged(self):
        now = {**report.SCHEMA, "commit": "one", "device": "cuda", "quick": False, "machine": {"gpu": "NVIDIA X1"}}
        row = {"name": "ddp", "status": "pass"}
        for change, says in (({"machine": {"gpu": "NVIDIA X2"}}, "it is of NVIDIA X2, and here is NVIDIA X1"),
                             ({"commit": "two"}, "its commit is two"), ({"device": "cpu"}, "its device is cpu"), ({"parts": 3}, "no result")):
            path = os.path.join(FOLDER, "then.json")
            with open(path, "w") as f:
                json.dump({**now, "parts": [row], **change}, f)
            with self.assertRaisesRegex(report.Unfit, says):
                report.read(path, now)
        with self.assertRaisesRegex(report.Unfit, "does not tell"), open(path, "w") as f:
            json.dump({**now, "commit": "one changed", "parts": [row]}, f)
            f.flush()
            report.read(path, {**now, "commit": "one changed"})

    def test_two_rounds_are_no_result(self):
        ratio = {"value": 1.05, "lo": None, "hi": None, "n": 2}
        f = {"ratio": {"ours / a": ratio}, "tokens_per_s": {"ours": {"value": 1.0}}}
        for status, verdict in (("pass", "2 rounds, no interval"), ("not run", "not run: 2 rounds, no interval"),
                                ("fail", "fail: 2 rounds, no interval")):
            row = next(r for r in figures.table([{"name": "torch", "status": status, "figures": f}], True) if r["limit"] == ">= 1")
            self.assertEqual((row["value"], row["verdict"]), (1.05, verdict))
        ratio.update(lo=1.04, hi=1.06, n=3)
        row = next(r for r in figures.table([{"name": "torch", "status": "pass", "figures": f}], True) if r["limit"] == ">= 1")
        self.assertEqual(row["verdict"], "met")

    def test_logs_are_bounded(self):
        data = logs.shortened(b"first" + bytes(1 << 20) + b"last")
        self.assertLess(len(data), logs.HEAD + logs.END + 100)
        self.assertTrue(data.startswith(b"first") and data.endswith(b"last") and b" bytes left out " in data)


# A PyTorch that answers at once and, in the block of $HANGS, not at all.
TORCH = """#!/usr/bin/env python3
import json, os, sys, time
if os.environ["HANGS"] == "none":
    sys.exit(print(json.dumps({"missing": "no PyTorch"})))
print(json.dumps({"torch": "0", "blas": "a BLAS", "threads": 1, "vectors": "none", "mkldnn": False, "reference_blas": False}), flush=True)
for i, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if i == int(os.environ["HANGS"]):
        open(os.environ["MARK"], "w").close()
        time.sleep(%d)
    print(json.dumps({"loss": [1.0] * (asked["warmup"] + asked["steps"]), "seconds": 2.0}), flush=True)
""" % LONG_S
LOCKSTEP = """#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "--version":
    sys.exit(print("lockstep 0"))
folder = os.path.join(sys.argv[sys.argv.index("--out") + 1], "run")
os.makedirs(folder)
with open(os.path.join(folder, "result.json"), "w") as f:
    json.dump({"loss": [1.0] * 25, "counted_s": 1.0}, f)
"""


class Torch(unittest.TestCase):
    def start(self, hangs, *words):
        self.out, self.mark = os.path.join(FOLDER, "torch.json"), os.path.join(FOLDER, "mark")
        for path in (self.out, self.mark):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        command = [sys.executable, os.path.join(ROOT, "bench", "gpu_torch.py"), "--device", "cpu", "--json", self.out, "--theirs", "a,b",
                   "--python", program("bin/torch", TORCH), "--lockstep", program("bin/lockstep", LOCKSTEP), *words]
        return subprocess.Popen(command, env=dict(os.environ, HANGS=str(hangs), MARK=self.mark), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def figures(self):
        with open(self.out) as f:
            return json.load(f)

    def test_a_kill_leaves_the_rounds_done(self):
        p = self.start(5)  # a b, b a, a b: the last one
        while not os.path.exists(self.mark) and p.poll() is None:
            time.sleep(0.02)
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        f = self.figures()
        self.assertEqual(f["ratio"]["ours / a"], {"value": 2.0, "lo": 2.0, "hi": 2.0, "n": 3})
        self.assertEqual(f["ratio"]["ours / b"], {"value": 2.0, "lo": None, "hi": None, "n": 2})
        self.assertEqual(f["incomplete"], "round 3 of 4, b: not ended")

    def test_the_limit_cuts_off_what_hangs(self):
        p = self.start(0, "--limit", "3")
        said = p.communicate()[0]
        self.assertEqual((p.returncode, os.path.exists(self.out)), (75, False), said)
        self.assertIn("no ratio within 3 s", said)

    def test_no_pytorch(self):
        p = self.start("none")
        said = p.communicate()[0]
        self.assertEqual(p.returncode, 77, said)
        self.assertIn("torch: no PyTorch", said)

    def test_all_rounds(self):
        p = self.start(-1, "--rounds", "3")
        said = p.communicate()[0]
        self.assertEqual(p.returncode, 0, said)
        self.assertIn("ratio ours / b: 2.000, 95 % 2.000 to 2.000, 3 rounds", said)
        self.assertIsNone(self.figures()["incomplete"])


if __name__ == "__main__":
    unittest.main()
