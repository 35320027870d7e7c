/* test_emulate.c: the emulation that other programs judge CUDA text by: warps, atomics, and blocks
** of any size. */
#include "tests/doubles/emulate.h"

enum { THREADS = 96, BLOCKS = 3 };
typedef struct params {
    unsigned *out;
} params;

static const char text[] = "struct tide_p { unsigned *out; };\n"
                           "static void tide_k(const tide_p p) {\n"
                           "    __shared__ unsigned sums[3];\n"
                           "    unsigned t = threadIdx.x, l = t % 32, x = t, *o = p.out + 8 * "
                           "(blockIdx.x * blockDim.x + t);\n"
                           "    for (unsigned d = 1; d < 32; d *= 2) {\n"
                           "        unsigned y = __shfl_up_sync(~0u, x, d);\n"
                           "        if (l >= d) x += y;\n"
                           "    }\n"
                           "    if (l == 31) sums[t / 32] = x;\n"
                           "    __syncthreads();\n"
                           "    o[0] = x;\n"
                           "    o[1] = sums[(t / 32 + 1) % 3];\n"
                           "    o[2] = __ballot_sync(~0u, t % 3 == 0);\n"
                           "    o[3] = __match_any_sync(~0u, t % 5);\n"
                           "    o[4] = __shfl_xor_sync(~0u, t, 1);\n"
                           "    if (l < 7) o[5] = __shfl_sync(0x7f, t, 6);\n"
                           "    else o[5] = __shfl_down_sync(~0x7fu, t, 1);\n"
                           "    o[6] = atomicAdd(p.out + 7, 1u);\n"
                           "}\n";

static void check_thread(const unsigned *o, unsigned t) {
    unsigned l = t % 32, first = t - l, thirds = 0, fifths = 0, next = (t / 32 + 1) % 3 * 32;
    for (unsigned i = 0; i < 32; i++) {
        thirds |= (unsigned)((first + i) % 3 == 0) << i;
        fifths |= (unsigned)((first + i) % 5 == t % 5) << i;
    }
    assert_int_equal(o[0], (first + t) * (l + 1) / 2);
    assert_int_equal(o[1], (next + next + 31) * 16);
    assert_int_equal(o[2], thirds);
    assert_int_equal(o[3], fifths);
    assert_int_equal(o[4], t ^ 1);
    assert_int_equal(o[5], l < 7 ? first + 6 : l == 31 ? t : t + 1);
}

static void warps_and_blocks_do_what_a_gpus_do(void **state) {
    static unsigned out[8 * THREADS * BLOCKS + 8], seen[THREADS * BLOCKS];
    emu_module m = {0};
    (void)state;
    if (!emu_compiler()) skip();
    emu_add(&m, text, 0);
    emu_build(&m);
    void (*kernel)(const void *);
    *(void **)&kernel = dlsym(m.library, "emu_run_0");
    for (int backwards = 0; backwards < 2; backwards++) {
        memset(out, 0, sizeof out);
        memset(seen, 0, sizeof seen);
        params p = {out};
        emu_run_grid(&m, kernel, (const unsigned[]){BLOCKS, 1, 1}, THREADS, &p, true, backwards);
        for (unsigned i = 0; i < THREADS * BLOCKS; i++) {
            check_thread(&out[8 * i], i % THREADS);
            seen[out[8 * i + 6]]++;
        }
        for (unsigned i = 0; i < THREADS * BLOCKS; i++) assert_int_equal(seen[i], 1);
    }
    emu_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warps_and_blocks_do_what_a_gpus_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
