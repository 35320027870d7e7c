"""instructions.py: what collecting costs in instructions: callgrind counts the same work, freed
by hand and collected, divided by what they were for, so that the parts sum to the difference.

Model. A side (collecting-work) does so many units of work twice, and in another run three times:
what the second run counts beyond the first is what that many units cost once all is warm. Of the
calling thread: collections, deaths and the policy's questions are its work; other threads compute,
and wait by spinning. A part begins at certain functions (ROOTS): all that is called from there is
the part's, until a function where another part begins. A function that several parts call is
divided among them as the instructions that it took when called from each.
What must stay true: every instruction is in one part, or divided among parts, so that nothing is
lost; what the host does while it waits for the device has no part in the difference.
"""
import collections
import os
import re
import shutil
import subprocess
import tempfile

PROGRAM, WAITING = "the program", "waiting for the device"
# Where a part begins, by the functions' names.
ROOTS = {
    "tracing, in bdwgc": ["GC_gcollect"],
    "finding the dead": ["on_event"],
    "cells of arrays": ["tidei_boehm_cell"],
    "deaths and drains": ["tidei_drain", "tide_free"],
    "policy, and rounds": ["tidei_gc_ask", "tidei_gc_ask_host", "tidei_gc_collect"],
    "climbing": ["tidei_climb"],
    "the benchmark": ["hear_event", "read_all", "loop_ns", "tidy", "choose"],
    WAITING: ["tidei_stream_wait", "tidei_streams_wait_all"],
}
PARTS = [PROGRAM, *ROOTS]
OF = {name: part for part, names in ROOTS.items() for name in names}
UNITS = {"dense": 8 * 147, "adds": 200, "small": 1000}  # dense: 8 epochs
# As the processor's time of a step is there: few elements, many steps; the limit is as far above
# what lives as the usual one.
SIZES = {"dense": ["--rows", "2352", "--features", "64", "--batch", "16", "--limit", "2MiB"],
         "adds": ["--bytes", "65536", "--limit", "512KiB"], "small": ["--limit", "16MiB"]}
# valgrind leaves little room for addresses, and counts each byte that an instruction of the C
# library sets or copies as one.
ENVIRONMENT = {"TIDE_DEVICE": "host", "TIDE_HOST_DEVICE_MEMORY": "1GiB",
               "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=0x40000000:"
                                 "glibc.cpu.x86_rep_stosb_threshold=0x40000000"}
TOP = 12  # functions that are named


class Failed(Exception):
    pass


class Profile:
    """What one run cost: by function, and by who called it."""

    def __init__(self):
        self.events = []
        self.own = collections.defaultdict(collections.Counter)  # function: {event: cost}
        self.calls = collections.defaultdict(collections.Counter)  # callee: {caller: instructions}

    def minus(self, other):
        rest = Profile()
        rest.events = self.events
        for name in self.own:
            for event in self.events:
                rest.own[name][event] = self.own[name][event] - other.own[name][event]
        for callee, callers in self.calls.items():
            for caller, cost in callers.items():
                rest.calls[callee][caller] = max(0, cost - other.calls[callee][caller])
        return rest


def base_name(name, library):
    """Without what the compiler and callgrind add: copies of a function, and recursion. What a
    library does not name is one function of its own."""
    if name.startswith("0x") or name == "???":
        return "unnamed, in " + library
    return re.sub(r"('\d+|\.(isra|part|constprop|cold|lto_priv)(\.\d+)*)+$", "", name)


def read(lines):
    """A profile, from the lines of callgrind's file without compressed names and positions."""
    p, function, callee = Profile(), None, None
    library = callee_in = ""
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("events: "):
            p.events = line.split()[1:]
        elif line.startswith("ob="):
            library = callee_in = os.path.basename(line[3:])
        elif line.startswith("cob="):
            callee_in = os.path.basename(line[4:])
        elif line.startswith("fn="):
            function = base_name(line[3:], library)
        elif line.startswith("cfn="):
            callee = base_name(line[4:], callee_in)
            callee_in = library
        elif line[:1].isdigit() and function:
            costs = [int(n) for n in line.split()[1:]]
            if callee:
                if callee != function:
                    p.calls[callee][function] += costs[0] if costs else 0
                callee = None
            else:
                p.own[function].update(dict(zip(p.events, costs)))
    return p


def shares(profile):
    """{function: {part: share}}: which part a function's own instructions are of."""
    names = set(profile.own) | set(profile.calls)
    of = {name: {OF.get(name, PROGRAM): 1.0} for name in names}
    free = [name for name in names if name not in OF and sum(profile.calls[name].values())]
    for _ in range(200):  # until nothing moves; as many rounds as the longest way from a root
        moved = 0.0
        for name in free:
            callers = profile.calls[name]
            total = sum(callers.values())
            new = collections.Counter()
            for caller, cost in callers.items():
                for part, share in of.get(caller, {PROGRAM: 1.0}).items():
                    new[part] += share * cost / total
            moved = max([moved] + [abs(new[part] - of[name].get(part, 0)) for part in PARTS])
            of[name] = new
        if moved < 1e-6:
            break
    return of


def divide(profile):
    """{part: {event: cost}}, which sums to all that the profile has."""
    parts = {part: collections.Counter() for part in PARTS}
    of = shares(profile)
    for name, costs in profile.own.items():
        for part, share in of[name].items():
            for event, cost in costs.items():
                parts[part][event] += share * cost
    return parts


def run(build, work, way, turns, cache):
    """Runs a side under callgrind; its last turn's figures, and the calling thread's profile."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--compress-pos=no",
                   "--compress-strings=no", "--callgrind-out-file=" + out]
        command += ["--cache-sim=yes"] if cache else []
        command += [os.path.join(build, "bench/collecting-work"), work, way] + SIZES[work]
        environment = dict(os.environ, **ENVIRONMENT)
        done = subprocess.run(command, input="%d\n" % UNITS[work] * turns, env=environment,
                              capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise Failed("%s of %s under callgrind: %s" % (way, work, done.stderr.strip()))
        figures = dict(f.split("=") for f in done.stdout.splitlines()[-1].split())
        with open(out + "-01", encoding="utf-8") as f:
            return figures, read(f)


def profile_of(build, work, way, cache):
    fewer = run(build, work, way, 2, cache)[1]
    figures, more = run(build, work, way, 3, cache)
    return figures, more.minus(fewer)


def columns(events):
    """The columns of the table: what is counted, and of which events."""
    all_columns = {"instructions": ["Ir"], "L1 misses": ["I1mr", "D1mr", "D1mw"],
                   "last level's": ["ILmr", "DLmr", "DLmw"]}
    return {name: of for name, of in all_columns.items() if set(of) <= set(events)}


def show_parts(way, hand, other, of):
    """One table: a row for each part, which sum to the last one. Waiting has none."""
    total_by_hand = sum(hand[part][e] for part in PARTS for e in of if part != WAITING)
    rows, total = [], [0, 0]
    for part in PARTS:
        pair = [sum(side[part][e] for e in of) for side in (hand, other)]
        if part != WAITING:
            rows.append((part, *pair))
            total = [t + x for t, x in zip(total, pair)]
    for name, a, b in rows + [("all but waiting", *total)]:
        print("  %-22s %12.0f %12.0f %+12.0f %+8.1f %%" %
              (name, a, b, b - a, 100 * (b - a) / max(1, total_by_hand)))
    return 100 * (total[1] - total[0]) / max(1, total_by_hand)


def show_functions(hand, other):
    """The functions whose own instructions differ most."""
    more = {name: other.own[name]["Ir"] - hand.own[name]["Ir"]
            for name in set(hand.own) | set(other.own)}
    print("  most by function:")
    for name in sorted(more, key=lambda n: (-abs(more[n]), n))[:TOP]:
        print("    %+12.0f %s" % (more[name], name))


def count(work, build, way, cache):
    if not shutil.which("valgrind"):
        raise Failed("valgrind is not here")
    by_hand, hand = profile_of(build, work, "hand", cache)
    figures, other = profile_of(build, work, way, cache)
    print("%s %s: %d units; %s: %s collections, %s climbs" %
          (work, " ".join(SIZES[work]), UNITS[work], way, figures["collections"],
           figures["climbs"]))
    parts = [divide(hand), divide(other)]
    for name, of in columns(other.events).items():
        print("%-24s %12s %12s %12s %10s" % (name, "hand", way, "more", "of hand's"))
        more = show_parts(way, *parts, of)
        if name == "instructions":
            percent = more
    show_functions(hand, other)
    print("collecting early costs %.2f %% over by hand in instructions of the calling thread" %
          percent)
    print("figure %.2f" % percent)
