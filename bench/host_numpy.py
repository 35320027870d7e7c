#!/usr/bin/env python3
"""host_numpy.py [PROGRAM one|all] [--turns N] [--build DIR]: the programs of examples/c/numpy on the
host device beside NumPy, and beside numexpr where it has what the program is about.

Model. Ours are two processes (host_programs.c), one with a single thread and one with all; the
others are functions of this one, which does what the pages say, on the arrays' sizes of
host_programs.c. A round is each side once, in an order that turns; the first one is not counted. A
program's figure is the median over the rounds of our time over NumPy's, of the wall's clock (the
device's work included): what slows the machine in a round slows both. Where others use the machine
--processor tells more of a single thread. numexpr is given one thread
and all. Prints a line for each program, with medians in ms; of the named one also "figure R".
SciPy stands in for what NumPy lacks (erfc). Exit 77: NumPy or SciPy is not here."""

import argparse
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here is a matrix product
try:
    import numpy as np
    from scipy.special import erfc
except ImportError as e:
    print(e)
    sys.exit(77)
try:
    import numexpr as ne
except ImportError:
    ne = None

# ---- NumPy: the pages of examples/c/numpy ----


def black_scholes(evaluate=None):
    s, k, r, v, t = np.linspace(50, 150, 1000001), 100.0, 0.05, 0.2, 1.0
    if evaluate:
        d1 = evaluate("(log(s / k) + (r + v*v/2) * t) / (v * sqrt(t))")
        d2 = evaluate("d1 - v * sqrt(t)")
        q = -np.sqrt(0.5)
        a, b = erfc(evaluate("d1 * q")), erfc(evaluate("d2 * q"))
        # 1 - erfc is not exact for what is far out of the money; so the negated ones are computed
        c, d = erfc(evaluate("-d1 * q")), erfc(evaluate("-d2 * q"))
        call = evaluate("0.5 * (s * a - k * exp(-r*t) * b)")
        put = evaluate("0.5 * (k * exp(-r*t) * d - s * c)")
        off = evaluate("abs(call - put - (s - k*exp(-r*t)))").max()
    else:
        def cdf(x):
            return 0.5 * erfc(-x / np.sqrt(2))

        d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
        d2 = d1 - v * np.sqrt(t)
        call = s * cdf(d1) - k * np.exp(-r * t) * cdf(d2)
        put = k * np.exp(-r * t) * cdf(-d2) - s * cdf(-d1)
        off = np.abs(call - put - (s - k * np.exp(-r * t))).max()
    assert off < 1e-9
    return call[500000]


def kmeans(evaluate=None):
    rng = np.random.default_rng(1)
    true = np.array([[0, 0], [8, 0], [0, 8], [8, 8]])
    n = 400000
    x = true[np.arange(n) % 4] + rng.standard_normal((n, 2))
    centre = x[:4]
    for _ in range(10):
        if evaluate:
            wide = x[:, None]
            near = evaluate("sum((wide - centre)**2, axis=2)").argmin(1)
        else:
            near = ((x[:, None] - centre) ** 2).sum(2).argmin(1)
        centre = np.stack([x[near == k].mean(0) for k in range(4)])
    return np.abs(centre - true).max()


def life(evaluate=None):
    def three(a, axis):
        up, down = np.roll(a, 1, axis), np.roll(a, -1, axis)
        return evaluate("up + a + down", casting="unsafe").astype(np.uint8) if evaluate else up + a + down

    def step(g):
        s = three(three(g, 0), 1)
        if evaluate:
            return evaluate("(s == 3) | ((s == 4) & (g == 1))").astype(np.uint8)
        return ((s == 3) | ((s == 4) & (g == 1))).astype(np.uint8)

    g = np.zeros((2048, 2048), np.uint8)
    g[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    for _ in range(32):
        g = step(g)
    return g.sum()


def mandelbrot(evaluate=None):
    y, x = np.mgrid[-1.25:1.25:1000j, -2:0.5:1000j]
    c = x + 1j * y
    z, inside = np.zeros_like(c), np.ones(c.shape, bool)
    with np.errstate(all="ignore"):
        for _ in range(50):
            if evaluate:
                z = evaluate("where(inside, z * z + c, z)")
                inside = evaluate("real(abs(z)) <= 2")
            else:
                z = np.where(inside, z * z + c, z)
                inside = np.abs(z) <= 2
    return inside.mean() * 2.5 * 2.5


def nearest(evaluate=None):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 2))
    label = (x[:, 0] * x[:, 1] > 0).astype(float)
    q = rng.standard_normal((1000, 2))
    if evaluate:
        wide = q[:, None]
        d = evaluate("sum((wide - x)**2, axis=2)")
    else:
        d = ((q[:, None] - x) ** 2).sum(2)
    near = np.argpartition(d, 9, 1)[:, :9]
    vote = label[near].mean(1) > 0.5
    return (vote == (q[:, 0] * q[:, 1] > 0)).mean()


def pagerank(evaluate=None):
    rng = np.random.default_rng(1)
    n, links = 100000, 1000000
    source, target = rng.integers(0, n, links), rng.integers(0, n, links) // 10
    out = np.bincount(source, minlength=n)
    rank = np.full(n, 1 / n)
    for _ in range(20):
        if evaluate:
            share = evaluate("where(out > 0, rank / where(out > 1, out, 1), 0)")
            lost = evaluate("sum(where(out == 0, rank, 0))")
            got = np.bincount(target, share[source], n)
            rank = evaluate("0.15/n + 0.85 * (got + lost/n)")
        else:
            share = np.where(out > 0, rank / np.maximum(out, 1), 0)
            lost = rank[out == 0].sum()
            rank = 0.15 / n + 0.85 * (np.bincount(target, share[source], n) + lost / n)
    assert rank[: n // 10].min() > rank[n // 10 :].max()
    return rank.sum()


def quantiles():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4000000)
    np.histogram(x, 20, (-4, 4))
    low, _, high = np.quantile(x, np.linspace(0.25, 0.75, 3))
    return high - low


def runs():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, 4000000) * np.repeat(np.arange(10), 400000)
    before = np.flatnonzero(np.diff(x))
    edges = np.concatenate([[0], before + 1, [x.size]])
    values, lengths = x[edges[:-1]], np.diff(edges)
    assert (np.repeat(values, lengths) == x).all()
    return values.size


# (NumPy's, numexpr's or None, what two results may differ by: random numbers are each side's own)
PROGRAMS = {
    "black_scholes": (black_scholes, black_scholes, 1e-9),
    "kmeans": (kmeans, kmeans, 0.05),
    "life": (life, life, 0),
    "mandelbrot": (mandelbrot, mandelbrot, 0),
    "nearest": (nearest, nearest, 0.05),
    "pagerank": (pagerank, pagerank, 1e-9),
    "quantiles": (quantiles, None, 0.01),
    "runs": (runs, None, 4000),
}

# ---- turns ----


class Ours:
    """A process of host_programs.c."""

    def __init__(self, build, threads):
        env = dict(os.environ, TIDE_DEVICE="host", OPENBLAS_NUM_THREADS="1")
        if threads:
            env["TIDE_HOST_THREADS"] = str(threads)
        self.process = subprocess.Popen(
            [f"{build}/bench/host-programs"],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, name):
        """The result, and ms of the wall's clock and of processors."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.wait() or 1)
        result, wall, processor = line.split()
        return float(result), (int(wall) / 1e6, int(processor) / 1e6)


def theirs(function, threads=None):
    """The same of a function of this process."""
    if threads:
        ne.set_num_threads(threads)
    wall, processor = time.perf_counter_ns(), time.process_time_ns()
    result = function(ne.evaluate) if threads else function()
    wall, processor = time.perf_counter_ns() - wall, time.process_time_ns() - processor
    return float(result), (wall / 1e6, processor / 1e6)


def sides(name, one, every, cores):
    """By name: who takes a turn."""
    function, expression, _ = PROGRAMS[name]
    found = {
        "one": lambda: one.turn(name),
        "all": lambda: every.turn(name),
        "numpy": lambda: theirs(function),
    }
    if ne and expression:
        found["numexpr one"] = lambda: theirs(expression, 1)
        found["numexpr all"] = lambda: theirs(expression, cores)
    return found


def measure(name, players, turns, clock):
    """By side: ms of each round, of the clock of that number."""
    took = {side: [] for side in players}
    for turn in range(turns + 1):
        results = {}
        order = list(players)
        for side in order[turn % len(order) :] + order[: turn % len(order)]:
            results[side], ms = players[side]()
            if turn:
                took[side].append(ms[clock])
        if any(abs(r - results["numpy"]) > PROGRAMS[name][2] for r in results.values()):
            sys.exit(f"{name}: the results differ: {results}")
    return took


def ratio(took, ours, other):
    return statistics.median(a / b for a, b in zip(took[ours], took[other]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", choices=PROGRAMS)
    parser.add_argument("threads", nargs="?", choices=("one", "all"), default="one")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--processor", action="store_true", help="time of processors, not the wall's")
    parser.add_argument("--build", default="build-release")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    one, every = Ours(args.build, 1), Ours(args.build, None)
    print(f"{'ms, and ours over theirs':14}  ({cores} processors)")
    for name in [args.program] if args.program else PROGRAMS:
        took = measure(name, sides(name, one, every, cores), args.turns, int(args.processor))
        line = [f"{name:14}"]
        line += [f"{side} {statistics.median(ms):.1f}" for side, ms in took.items()]
        for threads in "one", "all":
            line.append(f"{threads}/numpy {ratio(took, threads, 'numpy'):.3f}")
            if "numexpr one" in took:
                line.append(f"{threads}/numexpr {ratio(took, threads, 'numexpr ' + threads):.3f}")
        print("  ".join(line), flush=True)
    if args.program:
        print(f"figure {ratio(took, args.threads, 'numpy'):.3f}")


if __name__ == "__main__":
    main()
