"""layouts.py layouts|layout-sweep: PyTorch on what `tide-bench layouts` and `tide-bench layout-sweep` do: microseconds of a call (of
20 with one wait, the median of 21 rounds), or GB/s and 1e9 elements/s. One JSON object with tide-bench's names; those of
torch.compile end in _compiled. Exit 0, 1 failed, 77 skipped: PyTorch or a GPU is not here."""
import json
import math
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)
CALLS, ROUNDS, MI = 20, 21, 1 << 20
BYTES, TABLE, PAIRS, SECTOR = 128 * MI, 16 * MI, 256 * MI, 32


def timed(run):
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - start) / 1000 / CALLS


def measure(run, rounds=ROUNDS):
    for _ in range(2):
        timed(run)
    return statistics.median(timed(run) for _ in range(rounds))


def numbers(dtype, *shape):
    return torch.randint(-9, 10, shape, device="cuda", dtype=torch.int8).to(dtype)


def places(n, length):
    return torch.randint(0, length, (n,), device="cuda")


def squares(x, y):
    return ((x - y) ** 2).sum(2)


def distances(x, y):
    return torch.sqrt(squares(x, y))


def stencil(x):
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


def layouts():
    f32, n = torch.float32, 64 * MI
    x, y, plane = numbers(f32, 2048, 1, 64), numbers(f32, 1, 2048, 64), numbers(f32, 4096, 4096)
    table, at = numbers(f32, 100000, 64), places(1000000, 100000)
    figures = {}
    for name, fn, args in (("distances", distances, (x, y)), ("distances_without_root", squares, (x, y)), ("stencil", stencil, (plane,))):
        figures[name] = measure(lambda: fn(*args), 5)
        if fn is squares:
            continue  # compiling takes seconds
        compiled = torch.compile(fn, dynamic=False)
        figures[name + "_compiled"] = measure(lambda: compiled(*args))
    figures["uniform"] = measure(lambda: torch.rand(n, device="cuda"))
    figures["normal"] = measure(lambda: torch.randn(n, device="cuda"))
    figures["uniform_f64"] = measure(lambda: torch.rand(n, device="cuda", dtype=torch.float64))
    figures["normal_f64"] = measure(lambda: torch.randn(n, device="cuda", dtype=torch.float64))
    figures["integers_i32"] = measure(lambda: torch.randint(0, 100, (n,), device="cuda", dtype=torch.int32))
    figures["integers_i8"] = measure(lambda: torch.randint(0, 100, (n,), device="cuda", dtype=torch.int8))
    figures["take_rows"] = measure(lambda: table[at])
    return figures


def views(dtype, size, n):
    rows = max(BYTES // (n * size), 1)
    x, y = numbers(dtype, rows, n + 1), numbers(dtype, rows, n + 1)
    return (lambda: x[:, 1:] + y[:, :-1]), rows * (3 * n + 2) * size


def take(dtype, size, n):
    row = n * size
    x, at = numbers(dtype, TABLE // row, n), places(BYTES // row, TABLE // row)
    return (lambda: x.index_select(0, at)), BYTES // row * (row + max(row, SECTOR) + 8)


def take_columns(dtype, size, n):
    rows = BYTES // (n * size) // 8
    x, at = numbers(dtype, rows, 1000), places(n, 1000)
    return (lambda: x.index_select(1, at)), rows * n * 2 * size


def pairs(dtype, size, n):
    side = int(math.sqrt(PAIRS / n))
    x, y = numbers(dtype, side, 1, n), numbers(dtype, 1, side, n)
    return (lambda: squares(x, y)), side * side * n


def layout_sweep():
    lengths, taken, folded = [3, 33, 100, 257, 1000, 4095, 65537], [1, 3, 16, 64, 1000, 1001], [16, 64, 100, 256, 1024, 4096]
    types = {"f32": (torch.float32, 4), "f64": (torch.float64, 8), "f16": (torch.float16, 2), "i8": (torch.int8, 1)}
    families = [("views", views, t, lengths + [BYTES // types[t][1] + 1]) for t in ("f32", "f64", "f16", "i8")]
    families += [("take", take, t, taken) for t in ("f32", "f64", "f16", "i8")]
    families += [("take_columns", take_columns, "f32", [64, 250, 1000, 1001])]
    families += [("pairs", pairs, t, folded) for t in ("f32", "f64", "f16")]
    figures = {}
    for kind, make, t, over in families:
        name, speeds = kind + "_" + t, []
        for n in over:
            run, amount = make(*types[t], n)
            speeds.append(amount / measure(run, 3) / 1000)
            figures["%s_%d" % (name, n)] = speeds[-1]
            del run
        figures[name + "_worst"] = min(speeds) / max(speeds)
    return figures


def main():
    torch.manual_seed(1)
    figures = layout_sweep() if sys.argv[1:] == ["layout-sweep"] else layouts()
    print(json.dumps(dict(figures, peer="torch " + torch.__version__)))


if __name__ == "__main__":
    main()
