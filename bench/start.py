#!/usr/bin/env python3
"""start.py first|again|host [--rounds N] [--build DIR]: what README's ten lines take as a program.

Model. A round is three processes, one after the other: the least that uses a GPU (peers/context.c),
the ten lines (ten.c) with a folder for kernels that is not there yet, and the same once more, which
finds its kernels. A process's time is from its start to its end, loading and leaving included.
Prints the medians, with the steps of the ten lines. Ends with "figure F": `first`: seconds of the
first run; `again`: of the second over the least; `host`: ms of the ten lines on the host device,
which compile nothing. Exit 77: no GPU."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time


def run(command, **env):
    """Seconds of a process, and of the steps that it tells: since the one before."""
    start = time.monotonic_ns()
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    end = time.monotonic_ns()
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    steps, last = {}, start
    told = [line.split() for line in done.stderr.splitlines()]
    for name, at in [(t[0], int(t[1])) for t in told if len(t) == 2] + [("exit", end)]:
        steps[name] = (at - last) / 1e9
        last = at
    return (end - start) / 1e9, steps


def say(name, runs):
    """One line of medians, in ms."""
    steps = ", ".join(
        f"{step} {1e3 * statistics.median(r[1][step] for r in runs):.1f}" for step in runs[0][1]
    )
    print(f"{name:8} {1e3 * statistics.median(r[0] for r in runs):7.1f} ms: {steps}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=["first", "again", "host"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--build", default="build-release")
    args = parser.parse_args()
    ten = f"{args.build}/bench/ten"
    if args.figure == "host":
        runs = [run(ten, TIDE_DEVICE="host") for _ in range(args.rounds)]
        say("host", runs)
        print(f"figure {1e3 * statistics.median(r[0] for r in runs):.1f}")
        return
    least, first, again = [], [], []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            env = {"TIDE_CACHE_DIR": f"{folder}/kernels", "TIDE_DEVICE": "cuda"}
            least.append(run(f"{args.build}/bench/peer-context"))
            first.append(run(ten, **env))
            again.append(run(ten, **env))
    say("least", least)
    say("first", first)
    say("again", again)
    ratios = [a[0] / b[0] for a, b in zip(again, least)]
    seconds = statistics.median(r[0] for r in first)
    print(f"figure {seconds if args.figure == 'first' else statistics.median(ratios):.3f}")


main()
