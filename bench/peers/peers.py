"""peers.py pair|random cupy|rmm-pool|rmm-arena|rmm-async: the pools of CuPy and RMM on the workloads of tide-bench pair and random,
from Python. The loops cost time of their own: `empty` is an iteration that allocates nothing. One JSON object with the
figures' names as tide-bench has them. Exit 0, 1 failed, 2 bad input, 77 skipped: the package is not here."""
import importlib
import json
import statistics
import sys
import time

ROUNDS = 5
MIB = 1 << 20
SIZES = {"256B": 256, "4KiB": 4096, "64KiB": 65536, "1MiB": MIB, "16MiB": 16 * MIB, "256MiB": 256 * MIB, "1GiB": 1024 * MIB}


def cupy_pool():
    cupy = importlib.import_module("cupy")
    pool = cupy.cuda.MemoryPool()
    # A block lives as long as somebody holds it.
    return pool.malloc, lambda block, size: None


def rmm_pool(kind):
    rmm = importlib.import_module("rmm")
    if kind == "rmm-async":
        resource = rmm.mr.CudaAsyncMemoryResource()
    elif kind == "rmm-arena":
        resource = rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), arena_size=32 << 30)
    else:
        resource = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=32 << 30)
    return resource.allocate, resource.deallocate


def timed(fn, n):
    start = time.perf_counter_ns()
    fn(n)
    return (time.perf_counter_ns() - start) / n


def pair(take, give):
    figures = {}

    def pairs(n, size):
        for _ in range(n):
            block = take(size)
            give(block, size)
            del block

    def empty(n):
        for _ in range(n):
            pass

    for name, size in SIZES.items():
        pairs(1, size)
        figures[name] = statistics.median(timed(lambda n: pairs(n, size), 5000) for _ in range(ROUNDS))
    figures["empty"] = statistics.median(timed(empty, 5000) for _ in range(ROUNDS))
    return figures


class Dice:  # as bench/workload.h throws them
    def __init__(self):
        self.seed = 1

    def throw(self):
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return self.seed >> 33

    def uniform(self, most):
        high = self.throw() << 31
        return 1 + (high | self.throw()) % most


def random_steps(n, most):
    """workload_random of bench/workload.h: (bytes, slot); bytes 0 frees. And what lives at the end."""
    dice, steps, live, made, total = Dice(), [], [], 0, 0
    for _ in range(2 * n):
        size = dice.uniform(most)
        wants = not live or dice.throw() % 100 < 73
        if wants and made < n and total + size < 16000 * MIB:
            live.append((size, made))
            steps.append((size, made))
            total += size
            made += 1
        elif live:
            which = dice.throw() % len(live)
            size, slot = live[which]
            total -= size
            steps.append((0, slot))
            live[which] = live[-1]
            live.pop()
    return steps, [(0, slot) for _, slot in live]


def random_set(take, give):
    figures = {}
    for n in (1000, 10000, 100000):
        steps, tail = random_steps(n, 4 * MIB)
        blocks, sizes, ns = [None] * n, [0] * n, []

        def play(steps):
            for size, slot in steps:
                if size:
                    blocks[slot] = take(size)
                    sizes[slot] = size
                else:
                    give(blocks[slot], sizes[slot])
                    blocks[slot] = None

        for r in range(-1, ROUNDS if n < 100000 else 2):
            start = time.perf_counter_ns()
            play(steps)
            if r >= 0:
                ns.append((time.perf_counter_ns() - start) / len(steps))
            play(tail)
        figures["n%d" % n] = statistics.median(ns)
    return figures


def main():
    runs = {"pair": pair, "random": random_set}
    kinds = ("cupy", "rmm-pool", "rmm-arena", "rmm-async")
    if len(sys.argv) != 3 or sys.argv[1] not in runs or sys.argv[2] not in kinds:
        print(__doc__, file=sys.stderr)
        return 2
    kind = sys.argv[2]
    try:
        take, give = cupy_pool() if kind == "cupy" else rmm_pool(kind)
    except ImportError as e:
        print("peers.py: skipped: %s" % e, file=sys.stderr)
        return 77
    print(json.dumps({"bench": sys.argv[1], **runs[sys.argv[1]](take, give)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
