/* program.c: writing a program for the lab. */
#include "gc/lab/program.h"
#include "gc/lab/simulate.h"

#define OP "tide study"

void tidei_lab_begin(tidei_lab_program *p, const char *name) {
    *p = (tidei_lab_program){.name = name, .threads = 1, .model = TIDEI_LAB_MODEL};
}

static bool grow(tidei_lab_program *p) {
    size_t cap = p->cap ? 2 * p->cap : 1024;
    tidei_lab_event *grown =
        cap <= SIZE_MAX / sizeof *grown ? tidei_host_take(NULL, cap * sizeof *grown) : NULL;
    if (!grown) return false;
    if (p->n) memcpy(grown, p->events, p->n * sizeof *grown);
    tidei_host_free(NULL, p->events);
    p->events = grown;
    p->cap = cap;
    return true;
}

static void append(tidei_lab_program *p, tidei_lab_event e) {
    tidei_check(e.thread < TIDEI_LAB_THREADS);
    if (p->failed || (p->n == p->cap && !grow(p))) {
        p->failed = true;
        return;
    }
    p->events[p->n++] = e;
    if (e.thread >= p->threads) p->threads = e.thread + 1u;
}

void tidei_lab_add(tidei_lab_program *p, unsigned thread, tidei_lab_op op, uint64_t amount) {
    tidei_check(op != TIDEI_LAB_MAKE && op != TIDEI_LAB_DIE && op != TIDEI_LAB_FREE);
    if (!amount && (op == TIDEI_LAB_HOST || op == TIDEI_LAB_WORK)) return;
    append(p, (tidei_lab_event){.amount = tidei_lab_at_most(amount),
                                .op = (uint8_t)op,
                                .thread = (uint16_t)thread});
}

uint32_t tidei_lab_make(tidei_lab_program *p, unsigned thread, unsigned budget, uint64_t bytes) {
    append(p, (tidei_lab_event){.amount = bytes,
                                .block = p->blocks,
                                .op = TIDEI_LAB_MAKE,
                                .budget = (uint8_t)budget,
                                .thread = (uint16_t)thread});
    return p->blocks++;
}

void tidei_lab_die(tidei_lab_program *p, unsigned thread, uint32_t block) {
    append(p, (tidei_lab_event){.block = block, .op = TIDEI_LAB_DIE, .thread = (uint16_t)thread});
}

void tidei_lab_free(tidei_lab_program *p, unsigned thread, uint32_t block) {
    append(p, (tidei_lab_event){.block = block, .op = TIDEI_LAB_FREE, .thread = (uint16_t)thread});
}

tide_status tidei_lab_finish(tidei_lab_program *p) {
    tidei_lab_figures f;
    if (p->failed) return tidei_fail_host_memory(OP, 2 * p->cap * sizeof *p->events);
    tide_status status = tidei_lab_simulate(p, &(tidei_lab_options){.ideal = true}, &f);
    if (status != TIDE_OK) return status;
    memcpy(p->peak, f.peak_held, sizeof p->peak);
    p->ideal_ns = f.ns;
    p->steps = f.steps;
    return TIDE_OK;
}

uint64_t tidei_lab_program_pause(const tidei_lab_program *p, const tidei_lab_model *m, bool full,
                                 uint64_t arrays) {
    const tidei_lab_curve *c = &p->pauses[full];
    if (!c->n) return tidei_lab_pause(m, full, arrays);
    size_t i = 1;
    while (i + 1 < c->n && c->at[i].arrays < arrays) i++;
    if (c->n == 1 || arrays <= c->at[0].arrays) return c->at[0].ns;
    uint64_t low = c->at[i - 1].ns, high = c->at[i].ns, past = arrays - c->at[i - 1].arrays,
             width = c->at[i].arrays - c->at[i - 1].arrays;
    if (high >= low) return tidei_lab_at_most(low + tidei_lab_part(high - low, past, width));
    return past < width ? low - tidei_lab_part(low - high, past, width) : high;
}

void tidei_lab_clear(tidei_lab_program *p) {
    tidei_host_free(NULL, p->events);
    tidei_host_free(NULL, p->spread);
    p->events = NULL;
    tidei_host_free(NULL, p->told);
    p->spread = NULL;
    tidei_host_free(NULL, p->prices);
    p->told = NULL;
    p->prices = NULL;
    p->n = p->cap = p->ntold = p->nspread = p->nprices = 0;
}
