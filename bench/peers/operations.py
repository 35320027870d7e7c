"""operations.py: PyTorch on the operations of `tide-bench operations`: microseconds of each, from a quiet device until its results
are there, the median of 21. One JSON object with the figures' names as tide-bench has them. Exit 0, 1 failed, 77 skipped: PyTorch
or a GPU is not here."""
import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)
ROUNDS = 21
MI = 1 << 20


def once(run):
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    kept = run()
    torch.cuda.synchronize()
    took = (time.perf_counter_ns() - start) / 1000
    del kept
    return took


def measure(run):
    for _ in range(3):
        once(run)
    return statistics.median(once(run) for _ in range(ROUNDS))


def index_add(ordered):
    a = torch.zeros(100000, 64, device="cuda")
    b = torch.randint(0, 100000, (1000000,), device="cuda")
    c = torch.randn(1000000, 64, device="cuda")

    def run():
        torch.use_deterministic_algorithms(ordered)
        a.index_add_(0, b, c)
        torch.use_deterministic_algorithms(False)

    return run


def on(make, run):
    x = make()
    return lambda: run(x)


def main():
    torch.manual_seed(1)
    line = lambda n: (lambda: torch.randn(n, device="cuda"))
    rows = lambda m, n: (lambda: torch.randn(m, n, device="cuda"))
    masked = lambda: (lambda x: (x, x > 0))(torch.randn(16 * MI, device="cuda"))
    operations = {
        "sort": lambda: on(line(16 * MI), lambda x: torch.sort(x, stable=True)),
        "sort_rows": lambda: on(rows(MI // 16, 256), lambda x: torch.sort(x, stable=True)),
        "cumsum_f32": lambda: on(line(64 * MI), lambda x: torch.cumsum(x, 0)),
        "cumsum_i32": lambda: on(lambda: torch.randint(0, 100, (64 * MI,), device="cuda", dtype=torch.int32), lambda x: torch.cumsum(x, 0)),
        "nonzero": lambda: on(masked, lambda x: torch.nonzero(x[1])),
        "masked_select": lambda: on(masked, lambda x: torch.masked_select(x[0], x[1])),
        "topk": lambda: on(rows(8192, 4096), lambda x: torch.topk(x, 10)),
        "index_add": lambda: index_add(False),
        "index_add_ordered": lambda: index_add(True),
        "unique": lambda: on(lambda: torch.randint(0, 100000, (1000000,), device="cuda"), torch.unique),
        "quantile": lambda: on(line(4 * MI), lambda x: torch.quantile(x, 0.3)),
        "upload": lambda: on(lambda: torch.ones(64 * MI), lambda x: x.cuda()),
    }
    figures = {}
    for name, make in operations.items():
        figures[name] = measure(make())
    print(json.dumps(dict(figures, peer="torch " + torch.__version__)))


if __name__ == "__main__":
    main()
