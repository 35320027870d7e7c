"""torch_pluggable.py [LIBRARY [PROGRAM...]]: PyTorch on libtidepool's hook beside PyTorch's own allocator with expandable segments and
the least that a pluggable one can do (least_allocator.c). LIBRARY: build-release/libtidepool.so unless given. Programs:
  empty  microseconds of torch.empty(1000) on the GPU, and of its end: the median of rounds
  gpt2   peak MiB that the process has of the GPU beyond what it has at the start: training steps of a GPT-2 on batches of other lengths
  graph  the same of a network on graphs of other sizes
Each run is a process of its own, since an allocator is chosen once. One JSON object, and lines "figure NAME VALUE": ours over
PyTorch's (empty: ours, in microseconds). Some 90 s on a GPU. Exit 0, 1 failed, 77 skipped: PyTorch or a GPU is not here."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("empty", "gpt2", "graph")


def choose(allocator, library):
    import torch

    names = {"tide": ("tide_torch_malloc", "tide_torch_free"), "least": ("least_malloc", "least_free")}
    if allocator in names:
        torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(library, *names[allocator]))
    return torch


def empty(torch):
    device = torch.device("cuda")

    def round_of(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            torch.empty(1000, device=device)
        return (time.perf_counter_ns() - start) / n / 1000

    round_of(2000)
    return {"us": statistics.median(round_of(5000) for _ in range(31))}


class Peak:
    """Of the GPU's memory in use; looked at where a step has most."""

    def __init__(self, torch):
        self.torch = torch
        torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")  # the library's handle and workspace are no part of it
        torch.cuda.synchronize()
        self.start = self.used()
        self.most = 0

    def used(self):
        free, total = self.torch.cuda.mem_get_info()
        return total - free

    def look(self):
        self.most = max(self.most, self.used() - self.start)


def train(torch, model, batches, loss_of):
    peak = Peak(torch)
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    start = time.perf_counter()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        peak.look()
        loss.backward()
        peak.look()
        optimizer.step()
        peak.look()
        loss.item()
    return {"mib": peak.most / 2**20, "seconds": time.perf_counter() - start}


def gpt2(torch):
    nn, functional = torch.nn, torch.nn.functional
    words, width, layers, heads, longest, batch = 50257, 768, 8, 12, 1024, 8

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, heads, width // heads).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
            scores = (q @ k.transpose(2, 3)) * (width // heads) ** -0.5
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            x = x + self.out((scores.masked_fill(future, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(b, n, width))
            return x + self.down(functional.gelu(self.up(self.behind(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.last = nn.LayerNorm(width)

        def forward(self, x):
            h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return self.last(h) @ self.words.weight.T

    def batches():
        generator = torch.Generator().manual_seed(1)
        for _ in range(40):
            n = int(torch.randint(64, longest + 1, (1,), generator=generator))
            yield torch.randint(0, words, (batch, n), generator=generator)

    def loss_of(model, batch):
        x = batch.cuda()
        return functional.cross_entropy(model(x)[:, :-1].reshape(-1, words), x[:, 1:].reshape(-1))

    torch.manual_seed(1)
    return train(torch, Model(), batches(), loss_of)


def graph(torch):
    nn = torch.nn
    width, layers = 128, 4

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
            self.updates = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))

        def forward(self, x, source, target):
            for message, update in zip(self.messages, self.updates):
                m = torch.relu(message(torch.cat([x[source], x[target]], 1)))
                sums = torch.zeros_like(x).index_add(0, target, m)
                x = torch.relu(update(torch.cat([x, sums], 1)))
            return x

    def batches():
        generator = torch.Generator().manual_seed(2)
        for _ in range(60):
            n = int(torch.randint(2000, 60001, (1,), generator=generator))
            edges = n * int(torch.randint(3, 13, (1,), generator=generator))
            ends = torch.randint(0, n, (2, edges), generator=generator)
            yield torch.randn(n, width, generator=generator), ends

    def loss_of(model, batch):
        x, ends = batch[0].cuda(), batch[1].cuda()
        return (model(x, ends[0], ends[1]) - x).square().mean()

    torch.manual_seed(2)
    return train(torch, Model(), batches(), loss_of)


def run(program, allocator, library):
    environment = dict(os.environ)
    environment.pop("PYTORCH_ALLOC_CONF", None)
    environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True" if allocator == "torch" else ""
    out = subprocess.run([sys.executable, __file__, "--one", program, allocator, library], capture_output=True, text=True, env=environment)
    if out.returncode:
        sys.exit("%s on %s: %s" % (program, allocator, out.stderr[-2000:]))
    return json.loads(out.stdout.splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--one"]:
        program, allocator, library = sys.argv[2:]
        print(json.dumps(globals()[program](choose(allocator, library))))
        return 0
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as e:
        print("torch_pluggable.py: skipped: %s" % e, file=sys.stderr)
        return 77
    library = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build-release/libtidepool.so")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        least = folder + "/least.so"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "least_allocator.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", least, source, "-ldl", "-lpthread"], check=True)
        libraries = {"tide": library, "torch": "", "least": least}
        for program in sys.argv[2:] or PROGRAMS:
            allocators = ("torch", "tide", "least") if program == "empty" else ("torch", "tide")
            figures[program] = {a: run(program, a, libraries[a]) for a in allocators}
    print(json.dumps(figures))
    for program, of in figures.items():
        if program == "empty":
            print("figure empty %.3f" % of["tide"]["us"])
        else:
            print("figure %s %.4f" % (program, of["tide"]["mib"] / of["torch"]["mib"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
