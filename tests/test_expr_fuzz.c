/* The fuzzer's entry without a fuzzer: its corpus, and random mutations and truncations of it. */
#include "tidetest.h"
#include <dirent.h>
#include "fuzz_expr.c"

enum { INPUTS_MAX = 64, BYTES_MAX = 512 };
static uint8_t inputs[INPUTS_MAX][BYTES_MAX];
static size_t sizes[INPUTS_MAX];
static int ninputs;

static int read_corpus(void **state) {
    char path[1024], file[2048];
    const char *root = getenv("TIDE_TEST_SOURCE");
    (void)state;
    snprintf(path, sizeof path, "%s/tests/corpus/expr", root ? root : ".");
    DIR *d = opendir(path);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)) && ninputs < INPUTS_MAX;) {
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        FILE *f = fopen(file, "rb");
        if (!f) return -1;
        sizes[ninputs] = fread(inputs[ninputs], 1, BYTES_MAX, f);
        fclose(f);
        ninputs++;
    }
    closedir(d);
    return ninputs > 0 ? 0 : -1;
}

static uint64_t random_state = 1;
static size_t below(size_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

static void test_corpus(void **state) {
    (void)state;
    for (int i = 0; i < ninputs; i++) LLVMFuzzerTestOneInput(inputs[i], sizes[i]);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
}

static void test_truncations(void **state) {
    (void)state;
    for (int i = 0; i < ninputs; i++)
        for (size_t n = 0; n < sizes[i]; n++) LLVMFuzzerTestOneInput(inputs[i], n);
}

/* Bytes changed, pieces of the corpus spliced in. */
static size_t mutate(uint8_t *out) {
    static const char tokens[] = "()+-*/%~!<>=&|^,;. 0123456789eixyab_\n\x80\0";
    size_t from = below((size_t)ninputs), n = sizes[from];
    memcpy(out, inputs[from], n);
    for (size_t k = 1 + below(4); k-- > 0 && n > 0;) {
        size_t other = below((size_t)ninputs), at = below(n), begin = below(sizes[other]), length = 1 + below(12);
        switch (below(3)) {
        case 0: out[at] = (uint8_t)tokens[below(sizeof tokens)]; break;
        case 1:
            if (begin + length > sizes[other]) length = sizes[other] - begin;
            if (n + length > BYTES_MAX) break;
            memmove(out + at + length, out + at, n - at);
            memcpy(out + at, inputs[other] + begin, length);
            n += length;
            break;
        default:
            if (at + length > n) length = n - at;
            memmove(out + at, out + at + length, n - at - length);
            n -= length;
        }
    }
    return n;
}

static void test_mutations(void **state) {
    uint8_t input[BYTES_MAX];
    const char *given = getenv("TIDE_TEST_FUZZ");
    int n = given ? atoi(given) : 4000;
    (void)state;
    for (int i = 0; i < n; i++) LLVMFuzzerTestOneInput(input, mutate(input));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, read_corpus, NULL);
}
