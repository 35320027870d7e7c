/* study_table.c: the columns of a study, and what a row has in each. */
#include "tools/tide/study_table.h"
#include "runtime/base/text.h"
#include <inttypes.h>

const tidei_study_column tidei_study_columns[TIDEI_STUDY_COLUMNS] = {
    {"limit", 11},      {"cost", 16},     {"overhead %", 16}, {"collector", 9},
    {"collect.", 8},    {"fruitless", 9}, {"forced", 7},      {"failed", 7},
    {"worst step", 11}, {"p99 step", 11}, {"peak held", 11},  {"mean held", 11}};

static const char *show_bytes(char *buf, size_t cap, double bytes) {
    return tidei_format_bytes(buf, cap, (size_t)bytes, 2);
}

const char *tidei_study_show_limit(char *buf, size_t cap, uint64_t limit) {
    if (limit == TIDEI_NO_LIMIT)
        tidei_format(buf, cap, "none");
    else
        show_bytes(buf, cap, (double)limit);
    return buf;
}

const char *tidei_study_show_program(char *buf, size_t cap, const tidei_lab_program *p) {
    char b[32];
    tidei_format(buf, cap, "%zu steps and %" PRIu32 " arrays in %.3f s, peak live %s%s", p->steps,
                 p->blocks, (double)p->ideal_ns / 1e9,
                 show_bytes(b, sizeof b, (double)p->peak[TIDEI_LAB_DEVICE]),
                 p->threads > 1 ? ", several threads" : "");
    return buf;
}

static void show_mean(char *buf, double mean, double off, unsigned seeds) {
    if (seeds > 1)
        tidei_format(buf, TIDEI_STUDY_CELL, "%.2f +- %.2f", mean, off);
    else
        tidei_format(buf, TIDEI_STUDY_CELL, "%.2f", mean);
}

void tidei_study_cells(const tidei_study_row *r, unsigned seeds,
                       char cells[TIDEI_STUDY_COLUMNS][TIDEI_STUDY_CELL]) {
    const double counts[] = {r->collections, r->fruitless, r->forced, r->failed};
    const double steps_ns[] = {(double)r->worst_step_ns, r->p99_step_ns};
    size_t at = 0;
    for (size_t i = 0; i < TIDEI_STUDY_COLUMNS; i++) cells[i][0] = 0;
    tidei_study_show_limit(cells[at++], TIDEI_STUDY_CELL, r->limit);
    if (r->lacks) return;
    show_mean(cells[at++], r->cost, r->cost_off, seeds);
    show_mean(cells[at++], r->overhead, r->overhead_off, seeds);
    tidei_format(cells[at++], TIDEI_STUDY_CELL, "%.2f %%", r->share);
    for (size_t i = 0; i < TIDEI_COUNT(counts); i++)
        tidei_format(cells[at++], TIDEI_STUDY_CELL, "%.1f", counts[i]);
    for (size_t i = 0; i < TIDEI_COUNT(steps_ns); i++)
        tidei_format(cells[at++], TIDEI_STUDY_CELL, "%.2f ms", steps_ns[i] / 1e6);
    show_bytes(cells[at++], TIDEI_STUDY_CELL, r->peak_held);
    show_bytes(cells[at++], TIDEI_STUDY_CELL, r->mean_held);
}
