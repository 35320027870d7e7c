#!/usr/bin/env python3
"""collecting.py: what collecting costs over freeing by hand: the same work in both ways, in turns of
one process (collecting-work).

Model. A process has a policy and a limit. In its turns by hand each array is freed as it dies, and
the collector is never asked; in its others the policy decides. Turns are some milliseconds long and
come in pairs, of either order at random, over as many units of work; what is compared is the time
of a unit. Both turns have the same memory and the same clock: what differs from process to process
(how the data lie in caches and pages) is the same for both, and what comes and goes (others on the
processor, in its caches, on its memory) is as likely in one turn as in the other. Fixed work, done
before and after each turn, tells the clock's speed (a loop on the processor, a kernel on a GPU),
and a pair whose clocks differ is dropped. bench/pairs.py has the statistics.
There are processes until the overhead is known to --within percent in the time that matters (on a
GPU the wall's, which is the device's too; on a host device the processor's, since others use the
same processors), or until their seconds have passed: --seconds of the first policy at the last
limit, for which everything is, --others of each other policy and limit.
A policy "hand" is by hand too: what is measured of it is the method's own error.

--count counts instructions instead (bench/instructions.py).
Exit 0, 1 failed, 2 bad input, 77 skipped.
"""
import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import time

import instructions
import pairs

DENSE_ROWS = {"cuda": 300000, "host": 15000}  # on a host device: the same share of the limit
USUAL_LIMITS = {"cuda": "1.05x,1.2x,2x,4GiB", "host": "1.05x,1.2x,2x,204.8MiB"}
OTHER_LIMITS = "1.2x,2x,16MiB"  # of the other kinds of work, whose arrays are small
TIMES = ["processor", "wall", "thread"]
PIECES = ["tracing", "finding", "drains"]
BARS = ["time", "within", "climbs"]
# What would change a way behind its name.
OTHERS_CHOICE = ["TIDE_POLICY", "TIDE_LIMIT", "TIDE_SOFT_LIMIT", "TIDE_GC_EARLY", "TIDE_COLLECTOR"]
KEPT_SECONDS = 1800  # figures that another bar may still use
MOST_UNITS = 10**9  # of a turn, whose end is its time's
WARM_TURNS = 20  # that the first, uncounted turn is as long as, ...
WARM_SHARE = 0.1  # ... or this share of the process's time, so that the pool has grown by then


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Side:
    """A process that waits for its turns."""

    def __init__(self, options, way, limit=None, work=None):
        command = [os.path.join(options.build, "bench/collecting-work"), work or options.work, way]
        command += ["--limit", str(limit)] if limit else []
        command += options.sizes if not work else []
        environment = {k: v for k, v in os.environ.items() if k not in OTHERS_CHOICE}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, encoding="utf-8",
                                        env=environment)
        self.device = self._line().strip()

    def _line(self):
        line = self.process.stdout.readline()
        if line:
            return line
        why = self.process.communicate()[1].strip()
        status = self.process.returncode
        raise Skipped(why) if status == 77 else Failed(why or "ended with %d" % status)

    def _turn(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the end of its output says why
        return {name: int(value) for name, value in
                (field.split("=") for field in self._line().split())}

    def by_hand(self, units):
        return self._turn("hand %d" % units)

    def its_way(self, seconds):
        return self._turn("%d %d" % (MOST_UNITS, round(1e9 * seconds)))

    def close(self):
        if self.process.poll() is None:
            self.process.communicate()


def clocks(turn):
    """What was the same work before and after the turn, by name."""
    return {name: turn[name] for name in ("loop_ns", "kernel_ns")}


def each(turn, name):
    return turn[name] / turn["units"]


class Sums:
    """Of one kind of turns."""

    def __init__(self):
        self.sums, self.peak = {}, 0

    def add(self, turn):
        for name, value in turn.items():
            self.sums[name] = self.sums.get(name, 0) + value
        self.peak = max(self.peak, turn["peak_live_bytes"])

    def each(self, name):
        """Of a unit."""
        return self.sums[name] / self.sums["units"]


class Way:
    """What a policy's processes have told of it at one limit."""

    def __init__(self, name):
        self.name = name
        self.logs = {t: [] for t in TIMES}  # of ratios to the times by hand, one a process
        self.mine, self.by_hand = Sums(), Sums()
        self.pairs = self.dropped = 0
        self.loops = []
        self.failure = None

    def add_process(self, turns):
        """turns: pairs, of the policy's and by hand."""
        kept = [(a, b) for a, b in turns if pairs.steady(clocks(a), clocks(b))]
        self.pairs += len(turns)
        self.dropped += len(turns) - len(kept)
        for mine, by_hand in turns:
            self.mine.add(mine)
            self.by_hand.add(by_hand)
            self.loops += [mine["loop_ns"], by_hand["loop_ns"]]
        for t in TIMES if kept else []:
            self.logs[t].append(pairs.trimmed(math.log(each(a, t + "_ns") / each(b, t + "_ns"))
                                              for a, b in kept))


def run_process(options, way, limit, number, until):
    """Pairs until then, at least one."""
    side = Side(options, way.name, limit)
    order, turns = random.Random(number), []
    try:
        left = max(0, until - time.monotonic())
        side.its_way(max(WARM_TURNS * options.turn, WARM_SHARE * left))
        units = side.its_way(options.turn)["units"]
        while not turns or time.monotonic() < until and len(turns) < options.pairs:
            if order.random() < 0.5:
                by_hand = side.by_hand(units)
                mine = side.its_way(options.turn)
            else:
                mine = side.its_way(options.turn)
                by_hand = side.by_hand(mine["units"])
            units = mine["units"]
            turns.append((mine, by_hand))
    finally:
        side.close()
    way.add_process(turns)


def measure(options, way, limit, seconds):
    """Processes of the way at the limit."""
    began, number = time.monotonic(), 0
    while number < options.processes and not pairs.done([way.logs[options.matters]],
                                                        options.within):
        number += 1
        try:
            run_process(options, way, limit, number, began + number * seconds / options.processes)
        except Failed as e:
            way.failure = str(e)
            return


# ---- what is told ----

def told(figure, digits=1):
    if figure is None:
        return "unknown"
    return "%.*f %% +- %.*f" % (digits, figure[0], digits + 1, figure[1])


def overhead_of(way, which):
    return pairs.overhead(way.logs[which]) if way.logs[which] else None


def in_us(sums):
    """What a unit takes: times in us; what is in a pause apart."""
    drains = max(0, sums.each("pauses_ns") - sums.each("traced_ns"))
    return {"processor": sums.each("processor_ns") / 1e3, "wall": sums.each("wall_ns") / 1e3,
            "thread": sums.each("thread_ns") / 1e3, "user": sums.each("user_us"),
            "system": sums.each("system_us"),
            "tracing": (sums.each("traced_ns") - sums.each("finding_ns")) / 1e3,
            "finding": sums.each("finding_ns") / 1e3, "drains": drains / 1e3}


def show_row(name, sums):
    of = in_us(sums)
    print("%-24s %9.2f %8.2f %8.2f %8.2f %8.2f | %7.3f %8.3f %7.3f | %8.3f %8.3f %9.1f" %
          (name, *(of[n] for n in ("processor", "user", "system", "thread", "wall", *PIECES)),
           1e3 * sums.each("collections"), 1e3 * sums.each("climbs"), sums.peak / 2**20))


def show(ways, limit, peak):
    print("\nlimit %s (%.1f MiB, %.2f of what lives at most); us a unit; collections and climbs of "
          "1000" % (limit["text"], limit["bytes"] / 2**20, limit["bytes"] / peak))
    print("%-24s %9s %8s %8s %8s %8s | %7s %8s %7s | %8s %8s %9s" %
          ("way", "processor", "user", "system", "thread", "wall", "tracing", "finding", "drains",
           "coll.", "climbs", "MiB held"))
    for way in ways:
        if way.failure:
            print("%-24s failed: %s" % (way.name, way.failure))
            continue
        show_row(way.name, way.mine)
        show_row("  by hand beside it", way.by_hand)
        loops = sorted(way.loops)
        print("  %s over by hand: processor %s, wall %s, main thread %s; %d processes, %d of %d "
              "pairs dropped; the loop took %.0f to %.0f us" %
              (way.name, *(told(overhead_of(way, t)) for t in TIMES), len(way.logs["wall"]),
               way.dropped, way.pairs, loops[0] / 1e3, loops[-1] / 1e3))
        by_hand, of = in_us(way.by_hand)["processor"], in_us(way.mine)
        parts = ", ".join("%s %.2f" % (name, 100 * of[name] / by_hand) for name in PIECES)
        print("    of that, in %% of the processor time by hand: %s; the rest is what they make "
              "dearer, less what freeing by hand takes" % parts)
    sys.stdout.flush()


def last_lines(way):
    """The figures that everything is for: of the first policy, at the last limit."""
    for which, words in (("processor", "processor time"), ("wall", "wall time")):
        figure = overhead_of(way, which) or (math.nan, math.nan)
        print("collecting early costs %.2f %% over by hand, +- %.2f (%d processes; %s)" %
              (*figure, len(way.logs[which]), words))


def bars_of(results, factors, matters):
    """{bar: figure}: of the first policy: its overhead at the last limit, in the time that matters,
    and how well that is known; its climbs at limits from 1.2x on."""
    first = [ways[0] for ways in results]
    overhead = overhead_of(first[-1], matters)
    failed = any(way.failure for way in first)
    climbs = [way.mine.sums["climbs"] for way, factor in zip(first, factors)
              if factor >= 1.2 - 1e-9 and not failed]
    bars = {"climbs": sum(climbs) if climbs else None}
    if overhead:
        bars.update(time=overhead[0], within=overhead[1])
    return {name: value for name, value in bars.items() if value is not None}


# ---- the command ----

def split_policies(text):
    """At commas that are outside parentheses."""
    return re.findall(r"[^,(]+(?:\([^)]*\))?", text)


def parse_limit(text, peak):
    factor = re.fullmatch(r"([0-9]*\.?[0-9]+)x", text)
    sized = re.fullmatch(r"([0-9]*\.?[0-9]+)(|KiB|MiB|GiB)", text)
    if factor:
        return {"text": text, "bytes": math.ceil(float(factor[1]) * peak)}
    if sized:
        unit = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[sized[2]]
        return {"text": text, "bytes": int(float(sized[1]) * unit)}
    return None


def look(options):
    """What device there is, and how much lives by hand."""
    side = Side(options, "hand")
    turn = side.its_way(WARM_TURNS * options.turn)
    side.close()
    return side.device, turn["peak_live_bytes"]


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], add_help=True)
    p.add_argument("work", nargs="?", default="dense", choices=["dense", "adds", "small"])
    p.add_argument("--policies", default="default,cudajl,never", help="beside by hand; the first "
                   "one is what the last lines are about")
    p.add_argument("--limits", help="bytes, 4GiB, or 1.2x of what lives at most by hand; the last "
                   "one is what the last lines are about")
    p.add_argument("--within", type=float, default=1, help="percent; processes end then")
    p.add_argument("--seconds", type=float, default=90,
                   help="at most, for the first policy at the last limit")
    p.add_argument("--others", type=float, default=15,
                   help="the same, for each other policy and limit")
    p.add_argument("--processes", type=int, default=8, help="that share these seconds")
    p.add_argument("--pairs", type=int, default=10**6, help="of turns in a process, at most")
    p.add_argument("--turn", type=float, default=0.01, help="seconds, at least")
    p.add_argument("--rows", type=int, help="of dense")
    p.add_argument("--build", default="build-release")
    p.add_argument("--count", action="store_true", help="instructions by callgrind, on host")
    p.add_argument("--cache", action="store_true", help="with --count: cache misses too")
    p.add_argument("--bar", choices=BARS, help="end with this figure; one that another bar left "
                   "less than half an hour ago is taken")
    options = p.parse_args(argv)
    if min(options.within, options.seconds, options.others, options.processes, options.pairs,
           options.turn) <= 0:
        p.error("what is counted or measured is above 0")
    options.names = split_policies(options.policies)
    if not options.names:
        p.error("--policies wants the policies beside by hand")
    return p, options


def choose_sizes(options, device):
    kind = "cuda" if device.startswith("cuda") else "host"
    options.matters = "wall" if kind == "cuda" else "processor"
    dense = options.work == "dense"
    rows = options.rows or DENSE_ROWS[kind]
    options.sizes = ["--rows", str(rows)] if dense else []
    options.limits = options.limits or (USUAL_LIMITS[kind] if dense else OTHER_LIMITS)


def time_all(parser, options):
    probe = Side(options, "hand", work="small")
    probe.close()
    choose_sizes(options, probe.device)
    device, peak = look(options)
    limits = [parse_limit(text, peak) for text in options.limits.split(",")]
    if None in limits:
        parser.error("--limits wants bytes, 4GiB or 1.2x, not %r" %
                     options.limits.split(",")[limits.index(None)])
    print("%s on %s\n%.1f MiB live at most" %
          (" ".join([options.work] + options.sizes), device, peak / 2**20))
    results = []
    for limit in limits:
        results.append([Way(name) for name in options.names])
        for way in results[-1]:
            first = limit is limits[-1] and way is results[-1][0]
            measure(options, way, limit["bytes"], options.seconds if first else options.others)
        show(results[-1], limit, peak)
    print()
    last_lines(results[-1][0])
    return bars_of(results, [limit["bytes"] / peak for limit in limits], options.matters)


def end_with(bar, bars):
    if bar not in bars:
        raise Failed("there is no figure %s" % bar)
    print("figure %.4g" % bars[bar])


def main(argv):
    parser, options = parse(argv)
    kept = os.path.join(options.build, "collecting.json")
    if options.bar and os.path.exists(kept) and time.time() - os.path.getmtime(kept) < KEPT_SECONDS:
        with open(kept, encoding="utf-8") as f:
            return end_with(options.bar, json.load(f))
    if options.count:
        return instructions.count(options.work, options.build, options.names[0], options.cache)
    bars = time_all(parser, options)
    if options.bar:
        with open(kept, "w", encoding="utf-8") as f:
            json.dump(bars, f)
        end_with(options.bar, bars)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Skipped as e:
        print("collecting: skipped, %s" % e, file=sys.stderr)
        sys.exit(77)
    except (Failed, instructions.Failed, OSError) as e:
        print("collecting: %s" % e, file=sys.stderr)
        sys.exit(1)
