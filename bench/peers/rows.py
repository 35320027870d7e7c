"""rows.py [sweep]: PyTorch on what `tide-bench rows` times, eager and by torch.compile; with `sweep` on what `tide-bench sweep`
does: microseconds of a call (of 20 with one wait, the median of 21 rounds), or GB/s. One JSON object with tide-bench's names;
those of torch.compile end in _compiled, of which the sweep has few lengths, as each is compiled for seconds. Exit 0, 1 failed,
77 skipped: PyTorch or a GPU is not here."""
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)
CALLS, ISSUES, ROUNDS, ELEMENTS = 20, 256, 21, 1 << 25
LENGTHS = [7, 32, 33, 100, 256, 1000, 1023, 4096, 4097, 16384, 50257, 131072, 1 << 20, 1 << 25]
COMPILED_LENGTHS = [33, 4097, 131072, 1 << 25]


def timed(run, calls, wait):
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    queued = time.perf_counter_ns()
    torch.cuda.synchronize()
    return ((time.perf_counter_ns() if wait else queued) - start) / 1000 / calls


def measure(run, rounds=ROUNDS, calls=CALLS, wait=True):
    for _ in range(2):
        timed(run, calls, wait)
    return statistics.median(timed(run, calls, wait) for _ in range(rounds))


def softmax(x):
    return torch.softmax(x, -1)


def logsumexp(x):
    return torch.logsumexp(x, -1)


def rms_norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def layer_norm(x, g, b):
    return F.layer_norm(x, x.shape[-1:], g, b)


def rows():
    x, g, b = (torch.randn(*s, device="cuda") for s in ((8192, 4096), (4096,), (4096,)))
    small = torch.randn(32, 32, device="cuda")
    figures = {}
    for name, fn, args in (("softmax", softmax, (x,)), ("logsumexp", logsumexp, (x,)), ("rms_norm", rms_norm, (x,)),
                           ("layer_norm", layer_norm, (x, g, b)), ("argmax_rows", lambda x: x.argmax(1), (x,))):
        figures[name] = measure(lambda: fn(*args))
        compiled = torch.compile(fn, dynamic=False)
        figures[name + "_compiled"] = measure(lambda: compiled(*args))
    figures["copy"] = measure(x.clone)
    figures["softmax_small_issue"] = measure(lambda: softmax(small), calls=ISSUES, wait=False)
    return figures


def moments(x):
    return torch.var_mean(x, 1, correction=0)


def families():
    """name, function, type, whether the axis goes across memory, the greatest length that counts, arrays moved, whether it takes
    weights"""
    f32, f16, bf16, every, few = torch.float32, torch.float16, torch.bfloat16, 1 << 25, 131072
    return [("sum_f32", lambda x: x.sum(1), f32, False, every, 1, False), ("sum_f16", lambda x: x.sum(1), f16, False, every, 1, False),
            ("sum_columns_f32", lambda x: x.sum(0), f32, True, every, 1, False), ("moments_f32", moments, f32, False, few, 1, False),
            ("softmax_f32", softmax, f32, False, few, 2, False), ("softmax_bf16", softmax, bf16, False, few, 2, False),
            ("softmax_columns_f32", lambda x: torch.softmax(x, 0), f32, True, 4097, 2, False),
            ("layer_norm_f32", layer_norm, f32, False, few, 2, True)]


def sweep():
    figures = {}
    for name, fn, dtype, columns, kept, passes, weights in families():
        speeds = []
        for length in LENGTHS:
            others = ELEMENTS // length
            shape = (length, others) if columns else (others, length)
            args = [torch.randn(shape, device="cuda").to(dtype)]
            args += [torch.randn(shape[1], device="cuda") for _ in range(2)] if weights else []
            speed = lambda f: args[0].numel() * args[0].element_size() * passes / measure(lambda: f(*args), rounds=3) / 1000
            figures["%s_%d" % (name, length)] = speed(fn)
            speeds += [figures["%s_%d" % (name, length)]] if length <= kept else []
            if name in ("sum_f32", "softmax_f32", "layer_norm_f32") and length in COMPILED_LENGTHS:
                torch._dynamo.reset()
                figures["%s_%d_compiled" % (name, length)] = speed(torch.compile(fn, dynamic=False))
        figures[name + "_worst"] = min(speeds) / max(speeds)
    return figures


def main():
    torch.manual_seed(1)
    figures = sweep() if sys.argv[1:] == ["sweep"] else rows()
    print(json.dumps(dict(figures, peer="torch " + torch.__version__)))


if __name__ == "__main__":
    main()
