/* torch.cpp: peer-torch NAME DIR: PyTorch's caching allocator on the workloads of tide-bench pair,
** random, threads and trace, from C++. bench/run.sh builds it against the installed wheel;
** PYTORCH_CUDA_ALLOC_CONF chooses the backend. DIR holds the traces as plain CSV. One JSON object
** with the figures' names as tide-bench has them. Exit 0, 1 failed, 2 bad input. */
#include "bench/workload.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace pool = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;

static const int rounds = 5;

static double now_ns() {
    return std::chrono::duration<double, std::nano>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
static double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}
static void note(double value, const std::string &name) {
    std::printf(", \"%s\": %.6g", name.c_str(), value);
}

/* ---- B1 ---- */

static void pairs(size_t bytes, size_t n, cudaStream_t s) {
    for (size_t i = 0; i < n; i++) pool::raw_delete(pool::raw_alloc_with_stream(bytes, s));
}

static void run_pair(cudaStream_t s) {
    static const struct {
        size_t bytes;
        const char *name;
    } sizes[] = {
        {256, "256B"},        {4096, "4KiB"},         {65536, "64KiB"},         {1u << 20, "1MiB"},
        {16u << 20, "16MiB"}, {256u << 20, "256MiB"}, {size_t(1) << 30, "1GiB"}};
    const size_t n = 20000;
    for (const auto &size : sizes) {
        std::vector<double> ns;
        pairs(size.bytes, 1, s); /* grows */
        for (int r = 0; r < rounds; r++) {
            double start = now_ns();
            pairs(size.bytes, n, s);
            ns.push_back((now_ns() - start) / n);
        }
        note(median(ns), size.name);
    }
}

/* ---- B2 ---- */

static void steps(const workload_step *x, size_t n, std::vector<void *> &at, cudaStream_t s) {
    for (size_t i = 0; i < n; i++) {
        if (x[i].bytes)
            at[x[i].slot] = pool::raw_alloc_with_stream(x[i].bytes, s);
        else
            pool::raw_delete(at[x[i].slot]);
    }
}

static void run_random(cudaStream_t s) {
    for (size_t n : {1000, 10000, 100000}) {
        workload w;
        std::vector<double> ns;
        if (!workload_random(n, size_t(4) << 20, &w)) throw std::bad_alloc();
        std::vector<void *> at(w.slots);
        for (int r = -1; r < rounds; r++) { /* the first one grows */
            double start = now_ns();
            steps(w.steps, w.n, at, s);
            if (r >= 0) ns.push_back((now_ns() - start) / double(w.n));
            steps(w.steps + w.n, w.tail, at, s);
        }
        std::free(w.steps);
        note(median(ns), "n" + std::to_string(n));
    }
}

/* ---- B4 ---- */

static void mixed_pairs(size_t n, cudaStream_t s, uint64_t seed) {
    std::vector<void *> live(1000, nullptr);
    for (size_t i = 0; i < n; i++) {
        void *&x = live[workload_dice(&seed) % live.size()];
        if (x) pool::raw_delete(x);
        x = pool::raw_alloc_with_stream(workload_spread(&seed, 8, 20), s);
    }
    for (void *x : live)
        if (x) pool::raw_delete(x);
}

static double crowd(unsigned n, bool mixed, const std::vector<CUDAStream> &streams) {
    const size_t each = 160000 / n;
    std::vector<std::thread> threads;
    double start = now_ns();
    for (unsigned i = 0; i < n; i++)
        threads.emplace_back([=, &streams] {
            c10::cuda::set_device(0);
            if (mixed)
                mixed_pairs(each, streams[i].stream(), i + 1);
            else
                pairs(65536, each, streams[i].stream());
        });
    for (auto &t : threads) t.join();
    return double(each * n) * 1e9 / (now_ns() - start);
}

static void run_threads() {
    std::vector<CUDAStream> streams;
    for (int i = 0; i < 16; i++) streams.push_back(c10::cuda::getStreamFromPool(false, 0));
    for (unsigned n = 1; n <= 16; n *= 2)
        for (bool mixed : {false, true}) {
            std::vector<double> rate;
            for (int r = -1; r < rounds; r++) {
                double one = crowd(n, mixed, streams);
                if (r >= 0) rate.push_back(one);
            }
            note(median(rate), (mixed ? "mixed_t" : "own_t") + std::to_string(n));
        }
}

/* ---- B5 ---- */

struct event {
    char op;
    size_t block, bytes; /* blocks by number, in the order of their allocation */
};
struct trace {
    std::vector<event> events;
    size_t blocks = 0;
};

static trace read_trace(const std::string &path) {
    trace t;
    std::FILE *f = std::fopen(path.c_str(), "r");
    if (!f) throw std::runtime_error(path + ": cannot be opened");
    std::vector<size_t> number; /* by id */
    char line[256], op;
    uint64_t id, bytes;
    while (std::fgets(line, sizeof line, f)) {
        if (std::sscanf(line, "%c,%" SCNu64 ",%" SCNu64, &op, &id, &bytes) < 1) continue;
        if (op == 'a' && line[1] == ',') {
            if (number.size() <= id) number.resize(id + 1);
            number[id] = t.blocks++;
            t.events.push_back({op, number[id], size_t(bytes)});
        } else if (op == 'f' && line[1] == ',') {
            t.events.push_back({op, number.at(id), 0});
        } else if (op == 's' && line[1] == ',') {
            t.events.push_back({op, 0, 0});
        }
    }
    std::fclose(f);
    return t;
}

struct copy {
    CUDAStream stream;
    std::vector<void *> at;
    std::vector<size_t> bytes;
};

/* Copies that start one after the other and take turns event by event; returns the most bytes that
** lived at one time. */
static size_t play(const trace &t, std::vector<copy> &copies) {
    const size_t n = t.events.size(), k = copies.size();
    size_t live = 0, peak = 0;
    for (size_t turn = 0; turn < n + n * (k - 1) / k; turn++)
        for (size_t j = 0; j < k; j++) {
            size_t i = turn - n * j / k; /* wraps for one that has not started */
            if (i >= n) continue;
            const event &e = t.events[i];
            copy &c = copies[j];
            if (e.op == 's') {
                c.stream.synchronize();
            } else if (e.op == 'a') {
                c.at[e.block] = pool::raw_alloc_with_stream(e.bytes, c.stream.stream());
                live += c.bytes[e.block] = e.bytes;
                peak = std::max(peak, live);
            } else {
                if (c.at[e.block]) pool::raw_delete(c.at[e.block]);
                live -= c.bytes[e.block];
                c.at[e.block] = nullptr;
                c.bytes[e.block] = 0;
            }
        }
    for (copy &c : copies) {
        for (size_t b = 0; b < t.blocks; b++) {
            if (c.at[b]) pool::raw_delete(c.at[b]);
            c.at[b] = nullptr;
            c.bytes[b] = 0;
        }
        c.stream.synchronize();
    }
    return peak;
}

static void run_trace(const std::string &dir) {
    static const struct {
        const char *name, *file;
    } traces[] = {{"gpt2", "gpt2-train-varlen"},
                  {"resnet50", "resnet50-train-varbatch"},
                  {"lstm", "lstm-train-unrolled"},
                  {"linalg", "linalg-mix"}};
    for (const auto &x : traces) {
        trace t = read_trace(dir + "/" + x.file + ".csv");
        for (unsigned k : {1u, 4u}) {
            std::vector<copy> copies;
            std::vector<double> ns;
            size_t peak = 0;
            for (unsigned j = 0; j < k; j++)
                copies.push_back({c10::cuda::getStreamFromPool(false, 0),
                                  std::vector<void *>(t.blocks), std::vector<size_t>(t.blocks)});
            for (int r = -1; r < rounds; r++) {
                if (r == 0) pool::resetPeakStats(0);
                double start = now_ns();
                peak = play(t, copies);
                if (r >= 0) ns.push_back((now_ns() - start) / double(t.events.size() * k));
            }
            const std::string name = std::string(x.name) + "_x" + std::to_string(k);
            note(median(ns), name + "_ns");
            note(double(pool::getDeviceStats(0).reserved_bytes[0].peak) / double(peak),
                 name + "_ratio");
            pool::emptyCache();
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: peer-torch pair|random|threads|trace DIR\n");
        return 2;
    }
    try {
        pool::init(int(c10::cuda::device_count()));
        c10::cuda::set_device(0);
        cudaStream_t s = c10::cuda::getStreamFromPool(false, 0).stream();
        std::printf("{\"bench\": \"%s\"", argv[1]);
        if (!std::strcmp(argv[1], "pair"))
            run_pair(s);
        else if (!std::strcmp(argv[1], "random"))
            run_random(s);
        else if (!std::strcmp(argv[1], "threads"))
            run_threads();
        else if (!std::strcmp(argv[1], "trace"))
            run_trace(argv[2]);
        else
            return 2;
        std::printf("}\n");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "peer-torch: %s\n", e.what());
        return 1;
    }
    return 0;
}
