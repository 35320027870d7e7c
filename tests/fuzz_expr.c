/* fuzz_expr.c: an entry for libFuzzer over the front end: parser, typing, plans. test_expr_fuzz.c replays it without one.
**
**   clang -g -fsanitize=fuzzer,address,undefined ... tests/fuzz_expr.c -o fuzz_expr && ./fuzz_expr tests/corpus/expr
**
** The input is a text, up to its end or the first NUL; what follows the NUL picks the operands' types. What must hold: no
** crash, no leak; an error has a place in the text; every program of a plan is valid (tidei_program_shared asserts it). */
#include "arrays/expr/front.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_expr: %s: %s\n", what, tide_last_error()->message);
    abort();
}

static void *fuzz_alloc(void *user, size_t bytes) { return (void)user, malloc(bytes); }
static void fuzz_free(void *user, void *p) { (void)user, free(p); }

/* One pass for each set of results that a program can hold. */
static void make_groups(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p) {
    const tidei_pass *pass;
    for (unsigned first = 0; first < ast->nresults; first++) {
        unsigned set = 0;
        for (unsigned i = 0; i < ast->nresults; i++)
            if (!p->results[i].is_stored && p->results[i].bundle == p->results[first].bundle) set |= 1u << i;
        if (p->results[first].is_stored) continue;
        for (int k = 0; k < 2; k++, set = 1u << first) {
            if (tidei_plan_group(rt, ast, p, set, &pass) != TIDE_OK)
                require(tide_last_error()->status == TIDE_E_DTYPE, "a group fails"); /* a number out of range */
            else
                require(tidei_program_valid(pass->prog), "a group's program is invalid");
        }
    }
}

static void look(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p) {
    require(p->nstored <= TIDEI_STORED_MAX, "too many stored values");
    for (uint32_t k = 0; k < p->nstored; k++)
        require(tidei_program_valid(p->stored[k].pass.prog), "a stored value's program is invalid");
    make_groups(rt, ast, p);
}

/* And with numbers that types' ranges lack: below, within and above in turn. */
static void plan(tidei_runtime *rt, const tidei_ast *ast, const uint8_t *sig, bool into) {
    tidei_plan *p, *other;
    if (tidei_plan_build(rt, ast, sig, into, NULL, 0, &p) != TIDE_OK) {
        require(strstr(tide_last_error()->message, "column ") != NULL, "an error without a place");
        return;
    }
    uint32_t n = p->graph.nlimits;
    int8_t *beyond = malloc(n + 1);
    look(rt, ast, p);
    for (uint32_t turn = 0; beyond && n && turn < 3; turn++) {
        for (uint32_t i = 0; i < n; i++) beyond[i] = (int8_t)((i + turn) % 3) - 1;
        require(tidei_plan_build(rt, ast, sig, into, beyond, n, &other) == TIDE_OK, "numbers elsewhere fail");
        require(other->graph.nlimits == n, "other limits");
        for (uint32_t i = 0; i < n; i++)
            require(other->graph.limits[i].dtype == p->graph.limits[i].dtype, "other limits");
        look(rt, ast, other);
        tidei_plan_free(rt, other);
    }
    free(beyond);
    tidei_plan_free(rt, p);
}

static void parse_and_plan(tidei_runtime *rt, const char *text, const uint8_t *choices, size_t n) {
    uint8_t sig[TIDEI_SIG_MAX];
    uint32_t h = 2166136261u; /* FNV-1a of the text chooses types where the input does not */
    tidei_ast ast;
    if (tidei_ast_parse(rt, text, "fuzz", &ast) != TIDE_OK) {
        const tide_error *e = tide_last_error();
        require(e->status == TIDE_E_PARSE, "parsing fails otherwise");
        require(strstr(e->message, "olumn ") && strrchr(e->message, '^'), "an error without a place");
        return;
    }
    for (const char *s = text; *s; s++) h = (h ^ (uint8_t)*s) * 16777619u;
    for (int round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < TIDEI_SIG_MAX; i++) {
            static const uint8_t all[] = {TIDE_BOOL,
                                          TIDE_I8,
                                          TIDE_I32,
                                          TIDE_I64,
                                          TIDE_U8,
                                          TIDE_U64,
                                          TIDE_F16,
                                          TIDE_BF16,
                                          TIDE_F32,
                                          TIDE_F64,
                                          TIDE_C64,
                                          TIDE_C128,
                                          TIDEI_WEAK + TIDE_BOOL,
                                          TIDEI_WEAK + TIDE_I64,
                                          TIDEI_WEAK + TIDE_F64,
                                          TIDEI_WEAK + TIDE_C128};
            h = h * 1664525u + 1013904223u;
            unsigned choice = i < n ? choices[i] + (unsigned)round : h >> 24;
            sig[i] = round == 0 && i >= n ? TIDE_F32 : all[choice % (i < ast.nparams ? 16 : 12)];
        }
        plan(rt, &ast, sig, round == 3);
    }
    tidei_ast_free(rt, &ast);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tidei_runtime rt = {.host = {fuzz_alloc, fuzz_free, NULL}}; /* only host memory and the tables are used */
    tidei_arrays arrays = {0};
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t n = strlen(text), rest = n < size ? size - n - 1 : 0;
    rt.arrays = &arrays;
    require(tidei_exprs_open(&rt) == TIDE_OK, "opening");
    parse_and_plan(&rt, text, data + size - rest, rest);
    tidei_exprs_close(&rt);
    free(text);
    return 0;
}
