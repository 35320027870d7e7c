#!/usr/bin/env python3
"""lua.py FIGURE [LUA]: a figure of the Lua module (lua5.4, lua5.3 or luajit; lua5.4 if none is given).

    undead BYTES    arrays of so many bytes that were dead and not yet found, at most: the most of all Luas
    part            of the time, what Lua's collector takes beside arrays of 1 MiB: the most of all Luas
    climbs          of 10^6 arrays of 4 KiB under 64 MiB, and failures, which count as 11: the most of all Luas
    add LUA         issuing x + y, over what `tide-bench dispatch` says that C's takes (cuda): the median of
                    pairs that take turns
    dense LUA       dense.lua's seconds over dense.c's under 4 GiB: medians of seven each that take turns
    fuse LUA        launches of a fused function of five operations
    ir LUA          instructions of a + b that C does not take (bench/lua_add.lua, small_add.c), under valgrind

What is run is in build-release. Exit 77: it cannot be measured here."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

LUAS = ["lua5.4", "lua5.3", "luajit"]
BUILD = "build-release"


def skip(why):
    print("lua.py: skipped: " + why, file=sys.stderr)
    sys.exit(77)


def output(command, **environment):
    done = subprocess.run(command, env=dict(os.environ, **environment), capture_output=True, text=True,
                          check=False)
    if done.returncode == 77:
        skip(" ".join(command))
    if done.returncode:
        raise SystemExit("lua.py: %s: %s%s" % (" ".join(command), done.stdout, done.stderr))
    return done.stdout


def lua(name, program, *arguments, timed=False):
    """What a program prints under that Lua, with the module of the build."""
    path = os.path.abspath(os.path.join(BUILD, "examples/lua", name, "?.so")) + ";;"
    host = os.path.join(BUILD, "bench/timed-" + name) if timed and name != "luajit" else name
    if not shutil.which(host) and not os.path.exists(host):
        skip(host + " is not here")
    return output([host, program, *map(str, arguments)], LUA_CPATH=path)


def field(text, name):
    words = text.split()
    return float(words[words.index(name) + 1])


def pace(figure, *arguments):
    """The most that any Lua has of a figure of lua_pace.lua's."""
    most = 0
    for name in LUAS:
        text = lua(name, "bench/lua_pace.lua", *arguments, timed=True)
        print(name + ": " + text.strip())
        value = field(text, figure)
        most = max(most, 11 if field(text, "failures") else value)
    return most


def add(name):
    """C's side is a figure of tide-bench's, which is in nanoseconds too."""
    pairs = []
    for _ in range(7):
        ours = field(lua(name, "bench/lua_issue.lua", 31, 256), "add")
        text = output([os.path.join(BUILD, "bench/tide-bench"), "dispatch", "--json"])
        theirs = float(text.split('"tide_add": ')[1].split(",")[0])
        print("%s %.0f ns, C %.0f ns" % (name, ours, theirs))
        pairs.append(ours / theirs)
    return statistics.median(pairs)


def dense(name):
    times = {"lua": [], "c": []}
    arguments = ["--limit", "4GiB", "--epochs", "100", "--quiet", "--summary"]
    for _ in range(7):
        for side in times:
            text = lua(name, "examples/lua/dense.lua", *arguments) if side == "lua" else \
                output([os.path.join(BUILD, "examples/c/dense"), *arguments])
            times[side].append(float(text.split("total_s=")[1].split()[0]))
    for side, values in times.items():
        print("%s: %s" % (name if side == "lua" else "C", " ".join("%.3f" % v for v in values)))
    return statistics.median(times["lua"]) / statistics.median(times["c"])


def instructions(command, count, environment):
    """Of the calling thread: other threads wait by spinning."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        output(["valgrind", "--tool=callgrind", "--separate-threads=yes", "--callgrind-out-file=" + out,
                *command, str(count)], **environment)
        with open(out + "-01", encoding="utf-8") as f:
            return int([line for line in f if line.startswith(("totals:", "summary:"))][-1].split()[1])


def ir(name):
    if not shutil.which("valgrind"):
        skip("valgrind is not here")
    n, each = 10000, {}
    path = {"LUA_CPATH": os.path.abspath(os.path.join(BUILD, "examples/lua", name, "?.so"))}
    for side, command in {"C": [os.path.join(BUILD, "bench/small-add")],
                          name: [name, "bench/lua_add.lua"]}.items():
        once, twice = (instructions(command, k * n, path) for k in (1, 2))
        each[side] = (twice - once) / n
        print("%s: %.0f instructions" % (side, each[side]))
    return each[name] - each["C"]


def main():
    figure, arguments = sys.argv[1], sys.argv[2:]
    if figure == "undead":
        value = pace("undead", arguments[0], 20000 if int(arguments[0]) > 65536 else 200000)
    elif figure == "part":
        value = pace("part", 1048576, 20000)
    elif figure == "climbs":
        value = pace("climbs", 4096, 1000000, "64MiB")
    else:
        name = arguments[0] if arguments else "lua5.4"
        value = {"add": add, "dense": dense, "ir": ir,
                 "fuse": lambda n: field(lua(n, "bench/lua_fuse.lua"), "launches")}[figure](name)
    print("figure %.4g" % value)


if __name__ == "__main__":
    main()
