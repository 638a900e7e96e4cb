#!/usr/bin/env python3
"""Runs a tutorial as a reader would: tutorial.py FILE.md FOLDER LOCKSTEP

Runs the commands of each block marked ```sh in one shell, in FOLDER, where `bench` is the checkout's. Each line must end with 0, or as a
comment behind it says ("# exits 3"; "# exits 0 or 1"). A block marked ```text has lines that the commands before it printed, whole or their
beginnings, in this order. Exits 1 and says what failed.
"""
import os
import re
import subprocess
import sys

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
EXITS = re.compile(r"# exits ([0-9 or]+)$")
SECONDS = 120  # of a block


def commands(block):
    """Return the commands of a block, each with the exit codes that it may have; a here-document is part of its line."""
    lines, out = iter(block.splitlines()), []
    for line in lines:
        said = EXITS.search(line)
        text = line
        if line.endswith("<<END"):
            for more in lines:
                text += "\n" + more
                if more == "END":
                    break
        out.append((text, [int(c) for c in re.findall(r"\d+", said[1])] if said else [0]))
    return out


def main():
    source, folder, program = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        blocks = BLOCK.findall(f.read())
    os.symlink(os.path.abspath("bench"), os.path.join(folder, "bench"))
    env = dict(os.environ, PATH=os.path.dirname(os.path.abspath(program)) + os.pathsep + os.environ["PATH"])
    printed, ran = "", 0
    for kind, text in blocks:
        if kind == "sh":
            printed = ""
            for line, codes in commands(text):
                r = subprocess.run(["sh", "-c", line], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   timeout=SECONDS)
                printed += r.stdout
                ran += 1
                if r.returncode not in codes:
                    sys.exit(f"{source}: exit {r.returncode}, expected {codes}: {line}\n{r.stdout}")
            continue
        at = 0
        flat = " ".join(printed.split())
        for line in text.splitlines():
            found = flat.find(" ".join(line.split()), at)
            if found < 0:
                sys.exit(f"{source}: no '{line}' in what was printed:\n{printed}")
            at = found
    if not ran:
        sys.exit(f"{source}: no command")


main()
