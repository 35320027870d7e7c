#!/usr/bin/env python3
"""unlimited.py adds|tiny [--pairs N] [--build DIR]: what the default takes where there is no limit,
over the same under 16 MiB.

Model. The work is collecting-work's `adds`: 1000 times x + 1 on arrays of 2 MiB, or a million times
on arrays of 4 KiB (tiny), each of which replaces the one before and is found dead by collections
alone. A pair is a process of each way, which do all of it in one turn, one after the other; the
order changes from pair to pair. What counts is the turn's processor time, of all threads. Prints
each way's median and "figure R": the median of the pairs' ratios. Exit 77: a build without
bdwgc."""

import argparse
import statistics
import subprocess
import sys

WORK = {"adds": (1000, 2 << 20), "tiny": (1000000, 4 << 10)}  # arrays, and their bytes
LIMITED = "16MiB"


def turn(build, units, size, limit):
    """The figures of one process's only turn."""
    command = [f"{build}/bench/collecting-work", "adds", "default", "--bytes", str(size)]
    command += ["--limit", limit] if limit else []
    done = subprocess.run(command, input=f"{units}\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    line = done.stdout.splitlines()[1]
    return {name: int(value) for name, value in (word.split("=") for word in line.split())}


def say(way, turns):
    """One line of medians."""
    median = {name: statistics.median(t[name] for t in turns) for name in turns[0]}
    print(
        f"{way:9} {median['processor_ns'] / 1e6:8.1f} ms of processor time"
        f" {median['collections']:8.0f} collections {median['pauses_ns'] / 1e6:7.1f} ms of pauses"
        f" {median['peak_backed_bytes'] / 2**20:8.1f} MiB backed at most"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=WORK)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--build", default="build-release")
    args = parser.parse_args()
    units, size = WORK[args.work]
    ways = {None: [], LIMITED: []}
    for pair in range(args.pairs):
        for limit in sorted(ways, key=str, reverse=pair % 2 == 1):
            ways[limit].append(turn(args.build, units, size, limit))
    say("no limit", ways[None])
    say(LIMITED, ways[LIMITED])
    ratios = [
        a["processor_ns"] / b["processor_ns"] for a, b in zip(ways[None], ways[LIMITED])
    ]
    print(f"figure {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
