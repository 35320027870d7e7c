#!/usr/bin/env python3
"""collecting.py: what collecting costs over freeing by hand: the same work in pairs of processes.

Model. A way is `hand` (each array is freed as it dies, the collector is never asked) or a policy.
For each limit, a pair is one process of each way (collecting-work), which take turns of the same
number of units (bench/pairs.py has the order and the statistics). A turn is measured in the
process that has it: wall and processor time, and what of it went to collections, apart. Fixed
work, done before and after each turn, tells the clock's speed (a loop on the processor, a kernel
on a GPU), and a block of turns in which it was another for one way than for the other is dropped.
There are pairs until the overhead of every way is known to --within percent in the time that
matters (on a GPU the wall's, which is the device's too; on a host device the processor's, since
others use the same processors), or until --seconds have passed for this limit.

--count counts instructions instead (bench/instructions.py).
Exit 0, 1 failed, 2 bad input, 77 skipped.
"""
import argparse
import json
import math
import os
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


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Side:
    """A process of one way, which waits for its turn."""

    def __init__(self, options, way, limit=None, work=None):
        command = [os.path.join(options.build, "bench/collecting-work"), work or options.work, way]
        command += ["--limit", str(limit)] if limit else []
        if not work:
            command += options.sizes
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

    def turn(self, units):
        try:
            self.process.stdin.write("%d\n" % units)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the end of its output says why
        return {name: int(value) for name, value in
                (field.split("=") for field in self._line().split())}

    def close(self):
        if self.process.poll() is None:
            self.process.communicate()


class Clocks:
    """How fast the clocks are: what each turn's loop took, and on a GPU a kernel beside it."""

    def __init__(self, options, device):
        self.kernel = None
        if device.startswith("cuda"):
            self.kernel = Side(options, "hand", work="kernel")
            self.kernel.turn(1)  # compiles it

    def around(self, side, units):
        """A turn, with the clocks that it had."""
        before = self.kernel.turn(1)["wall_ns"] if self.kernel else 0
        figures = side.turn(units)
        figures["clocks"] = {"loop": figures["loop_ns"]}
        if self.kernel:
            figures["clocks"]["kernel"] = (before + self.kernel.turn(1)["wall_ns"]) / 2
        return figures

    def close(self):
        if self.kernel:
            self.kernel.close()


def in_ms(turn):
    """A turn's figures as they are told: times in ms, what is in a pause apart."""
    drains = max(0, turn["pauses_ns"] - turn["traced_ns"])
    return {"processor": turn["processor_ns"] / 1e6, "wall": turn["wall_ns"] / 1e6,
            "thread": turn["thread_ns"] / 1e6, "user": turn["user_us"] / 1e3,
            "system": turn["system_us"] / 1e3,
            "tracing": (turn["traced_ns"] - turn["finding_ns"]) / 1e6,
            "finding": turn["finding_ns"] / 1e6, "drains": drains / 1e6,
            "collections": turn["collections"], "climbs": turn["climbs"],
            "peak": turn["peak_backed_bytes"]}


class Way:
    """What the pairs have told of a way at one limit."""

    def __init__(self, name):
        self.name = name
        self.logs = {t: [] for t in TIMES}  # of ratios to the times by hand, one a pair
        self.turns = []
        self.blocks = self.dropped = 0
        self.loops = []
        self.failure = None

    def add_pair(self, mine, by_hand):
        """mine, by_hand: for each block two turns."""
        kept = [(a, b) for a, b in zip(mine, by_hand) if pairs.steady(mean_clocks(a),
                                                                      mean_clocks(b))]
        self.blocks += len(mine)
        self.dropped += len(mine) - len(kept)
        self.turns += [in_ms(turn) for block in mine for turn in block]
        self.loops += [turn["loop_ns"] for block in mine for turn in block]
        if kept and mine is not by_hand:
            for t in TIMES:
                cost = [sum(turn[t + "_ns"] for block in side for turn in block)
                        for side in zip(*kept)]
                self.logs[t].append(math.log(cost[0] / cost[1]))

    def mean(self, name):
        return sum(turn[name] for turn in self.turns) / len(self.turns)


def mean_clocks(block):
    return {name: sum(turn["clocks"][name] for turn in block) / len(block)
            for name in block[0]["clocks"]}


def close_all(sides):
    for side in sides.values():
        side.close()


def open_sides(options, ways, limit, units):
    """A process of each way, warm; one that fails is noted with its way."""
    sides = {}
    for name, way in ways.items():
        if way.failure:
            continue
        try:
            side = Side(options, name, limit)
            sides[name] = side
            side.turn(units)
        except Failed as e:
            sides.pop(name, None)
            way.failure = str(e)
    if "hand" not in sides:
        close_all(sides)
        raise Failed("by hand at a limit of %s: %s" % (limit, ways["hand"].failure))
    return sides


def run_pair(options, ways, limit, clocks, pair, units):
    sides = open_sides(options, ways, limit, units)
    turns = {name: [] for name in sides}
    try:
        for _ in range(options.blocks):
            for name in turns:
                turns[name].append([])
            for name in pairs.block(list(sides), pair):
                turns[name][-1].append(clocks.around(sides[name], units))
    except Failed as e:
        if name == "hand":
            raise
        ways[name].failure = str(e)
        return
    finally:
        close_all(sides)
    for name in turns:
        ways[name].add_pair(turns[name], turns["hand"])


def known(options, ways):
    logs = [way.logs[options.matters] for way in ways.values()
            if way.name != "hand" and not way.failure]
    return pairs.done(logs, options.within)


def measure(options, names, limit, clocks, units):
    """The ways at one limit."""
    ways = {name: Way(name) for name in ["hand"] + names}
    began, pair = time.monotonic(), 0
    while not known(options, ways):
        if pair and time.monotonic() - began > options.seconds or pair == options.pairs:
            break
        run_pair(options, ways, limit, clocks, pair, units)
        pair += 1
    return ways


# ---- what is told ----

def told(figure, digits=1):
    if figure is None:
        return "unknown"
    return "%.*f %% +- %.*f" % (digits, figure[0], digits + 1, figure[1])


def overhead_of(way, which):
    return pairs.overhead(way.logs[which]) if way.logs[which] else None


def show(ways, limit, peak):
    print("\nlimit %s (%.1f MiB, %.2f of what lives at most); ms a turn" %
          (limit["text"], limit["bytes"] / 2**20, limit["bytes"] / peak))
    print("%-24s %9s %8s %8s %8s %8s | %7s %8s %7s | %6s %6s %9s" %
          ("way", "processor", "user", "system", "thread", "wall", "tracing", "finding", "drains",
           "coll.", "climbs", "MiB held"))
    for way in ways.values():
        if way.failure:
            print("%-24s failed: %s" % (way.name, way.failure))
            continue
        print("%-24s %9.2f %8.2f %8.2f %8.2f %8.2f | %7.3f %8.3f %7.3f | %6.1f %6.1f %9.1f" %
              (way.name, *(way.mean(n) for n in ("processor", "user", "system", "thread", "wall",
                                                 "tracing", "finding", "drains", "collections",
                                                 "climbs")), way.mean("peak") / 2**20))
    for way in ways.values():
        if way.name == "hand" or way.failure:
            continue
        loops = sorted(way.loops)
        print("  %s over by hand: processor %s, wall %s, main thread %s; %d pairs, %d of %d "
              "blocks dropped; the loop took %.0f to %.0f us" %
              (way.name, *(told(overhead_of(way, t)) for t in TIMES), len(way.logs["wall"]),
               way.dropped, way.blocks, loops[0] / 1e3, loops[-1] / 1e3))
        parts = ", ".join("%s %.2f" % (name, 100 * way.mean(name) / ways["hand"].mean("processor"))
                          for name in PIECES)
        print("    of that, in %% of the processor time by hand: %s; the rest is what they make "
              "dearer, less what freeing by hand takes" % parts)
    sys.stdout.flush()


def last_lines(way):
    """The figures that everything is for: of the first policy, at the last limit."""
    for which, words in (("processor", "processor time"), ("wall", "wall time")):
        figure = overhead_of(way, which) or (math.nan, math.nan)
        print("collecting early costs %.2f %% over by hand, +- %.2f (%d pairs; %s)" %
              (*figure, len(way.logs[which]), words))


def bars_of(results, factors, matters):
    """{bar: figure}: of the first policy: its overhead at the last limit, in the time that matters,
    and how well that is known; its climbs at limits from 1.2x on."""
    overhead = overhead_of(list(results[-1].values())[1], matters)
    climbs = [sum(turn["climbs"] for turn in list(ways.values())[1].turns)
              for ways, factor in zip(results, factors) if factor >= 1.2 - 1e-9]
    failures = sum(1 for ways in results if list(ways.values())[1].failure)
    bars = {"climbs": sum(climbs) if climbs and not failures else None}
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
    """What device there is, how much lives by hand, and how many units take --turn seconds."""
    side = Side(options, "hand")
    first = side.turn(1)
    again = side.turn(1)
    side.close()
    units = max(1, round(options.turn / (again["wall_ns"] / 1e9)))
    return side.device, max(first["peak_live_bytes"], again["peak_live_bytes"]), units


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], add_help=True)
    p.add_argument("work", nargs="?", default="dense", choices=["dense", "adds", "small"])
    p.add_argument("--policies", default="default,cudajl,never", help="beside by hand; the first "
                   "one is what the last lines are about")
    p.add_argument("--limits", help="bytes, 4GiB, or 1.2x of what lives at most by hand; the last "
                   "one is what the last lines are about")
    p.add_argument("--within", type=float, default=1, help="percent; pairs end then")
    p.add_argument("--seconds", type=float, default=90, help="for each limit, at most")
    p.add_argument("--pairs", type=int, default=1000, help="for each limit, at most")
    p.add_argument("--blocks", type=int, default=4, help="of turns, in a pair")
    p.add_argument("--turn", type=float, default=0.1, help="seconds")
    p.add_argument("--rows", type=int, help="of dense")
    p.add_argument("--build", default="build-release")
    p.add_argument("--count", action="store_true", help="instructions by callgrind, on host")
    p.add_argument("--cache", action="store_true", help="with --count: cache misses too")
    p.add_argument("--bar", choices=BARS, help="end with this figure; one that another bar left "
                   "less than half an hour ago is taken")
    options = p.parse_args(argv)
    if min(options.within, options.seconds, options.turn, options.blocks, options.pairs) <= 0:
        p.error("what is counted or measured is above 0")
    options.names = split_policies(options.policies)
    if not options.names or "hand" in options.names:
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
    options.sizes = []
    probe = Side(options, "hand", work="small")
    probe.close()
    choose_sizes(options, probe.device)
    device, peak, units = look(options)
    limits = [parse_limit(text, peak) for text in options.limits.split(",")]
    if None in limits:
        parser.error("--limits wants bytes, 4GiB or 1.2x, not %r" %
                     options.limits.split(",")[limits.index(None)])
    print("%s on %s\n%d units a turn, %.1f MiB live at most" %
          (" ".join([options.work] + options.sizes), device, units, peak / 2**20))
    clocks = Clocks(options, device)
    results = []
    try:
        for limit in limits:
            results.append(measure(options, options.names, limit["bytes"], clocks, units))
            show(results[-1], limit, peak)
    finally:
        clocks.close()
    print()
    last_lines(list(results[-1].values())[1])
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
