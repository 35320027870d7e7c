/* study.c: running a study on all cores, and its rows. */
#include "tools/tide/study.h"
#include "tools/tide/crew.h"
#include "gc/lab/oracle.h"
#include "runtime/base/text.h"
#include <math.h>

#define OP         "tide study"
#define OWN_FACTOR 1.2
#define COST_SHARE 0.1                 /* of the collector's time */
#define BYTES_MOST ((uint64_t)1 << 62) /* of a limit: no device has more */

/* ---- limits ---- */

static bool factor_of(const char *text, double *out) {
    size_t n = strlen(text);
    char *end;
    if (n < 2 || text[n - 1] != 'x' || strspn(text, "0123456789.") != n - 1) return false;
    *out = tidei_parse_double(text, &end);
    return end == text + n - 1 && *out > 0 && *out < 1e6;
}

bool tidei_study_limit_parse(const char *text, tidei_study_limit *out) {
    size_t bytes;
    *out = (tidei_study_limit){.kind = TIDEI_LIMIT_NONE, .text = text};
    if (!strcmp(text, "none")) return true;
    if (factor_of(text, &out->factor)) return out->kind = TIDEI_LIMIT_FACTOR, true;
    if (!tidei_parse_bytes(text, 0, &bytes) || !bytes) return false;
    out->kind = TIDEI_LIMIT_BYTES;
    out->bytes = bytes < BYTES_MOST ? bytes : BYTES_MOST;
    return true;
}

static uint64_t times_peak(double factor, const tidei_lab_program *p) {
    double bytes = factor * (double)p->peak[TIDEI_LAB_DEVICE];
    return bytes < (double)BYTES_MOST ? (uint64_t)bytes + 1 : BYTES_MOST;
}

static uint64_t bytes_of_limit(const tidei_study_limit *l, const tidei_lab_program *p) {
    switch (l->kind) {
    case TIDEI_LIMIT_NONE: return TIDEI_NO_LIMIT;
    case TIDEI_LIMIT_BYTES: return l->bytes;
    case TIDEI_LIMIT_FACTOR: return times_peak(l->factor, p);
    case TIDEI_LIMIT_OWN: break;
    }
    return p->limit[TIDEI_LAB_DEVICE] ? p->limit[TIDEI_LAB_DEVICE] : times_peak(OWN_FACTOR, p);
}

uint64_t tidei_study_limit_of(const tidei_study_limit *l, const tidei_lab_program *p) {
    uint64_t bytes = bytes_of_limit(l, p);
    if (bytes == TIDEI_NO_LIMIT) return bytes;
    bytes = tidei_lab_limit(&p->model, bytes);
    return bytes < p->model.total ? bytes : p->model.total;
}

/* ---- runs ---- */

static size_t place(const tidei_study *s, size_t program, size_t limit, size_t policy) {
    return ((program * s->nlimits + limit) * s->npolicies + policy) * s->seeds;
}

/* A run for a process of its own. */
struct apart {
    const tidei_lab_program *program;
    tidei_lab_options options;
    tide_status status;
    tidei_lab_figures figures;
    tidei_policy_nonsense nonsense;
};

static void play_apart(void *p) {
    struct apart *x = p;
    x->options.nonsense = &x->nonsense;
    x->status = tidei_lab_simulate(x->program, &x->options, &x->figures);
}

static tide_status run_apart(const tidei_study *s, size_t i, const tidei_lab_program *p,
                             const tidei_lab_options *o) {
    struct apart x = {.program = p, .options = *o};
    tidei_study_trouble *t = &s->troubles[i];
    t->end = tidei_child_run(play_apart, &x, sizeof x, s->patience);
    t->nonsense = x.nonsense;
    s->runs[i] = x.figures;
    return x.status;
}

tidei_lab_options tidei_study_options_of(const tidei_study *s, size_t program, size_t limit,
                                         size_t policy, unsigned seed) {
    const tidei_lab_program *p = &s->programs[program];
    uint64_t pinned = p->limit[TIDEI_LAB_PINNED];
    return (tidei_lab_options){
        .policy = &s->policies[policy].choice,
        .limit = {tidei_study_limit_of(&s->limits[limit], p), pinned ? pinned : TIDEI_NO_LIMIT},
        .seed = (uint64_t)seed + 1};
}

static tide_status run_policy(const tidei_study *s, size_t i, const tidei_lab_program *p,
                              const tidei_lab_options *o) {
    tide_status status =
        o->policy->policy->own ? run_apart(s, i, p, o) : tidei_lab_simulate(p, o, &s->runs[i]);
    s->troubles[i].too_long = status == TIDE_E_UNSUPPORTED;
    return s->troubles[i].too_long ? TIDE_OK : status;
}

/* The study's other policies are the optimum's rivals, but for those of somebody else's, which run
** in processes of their own. */
static tide_status run_oracle(const tidei_study *s, size_t i, const tidei_lab_program *p,
                              const tidei_lab_options *o) {
    if (tidei_lab_oracle_lacks(p, NULL)) return TIDE_OK;
    const tidei_policy_choice **rivals = tidei_host_take(NULL, s->npolicies * sizeof *rivals);
    if (!rivals) return tidei_fail_host_memory(OP, s->npolicies * sizeof *rivals);
    size_t n = 0;
    for (size_t k = 0; k < s->npolicies; k++)
        if (!s->policies[k].oracle && !s->policies[k].choice.policy->own)
            rivals[n++] = &s->policies[k].choice;
    tide_status status = tidei_lab_oracle(p, o, &(tidei_lab_rivals){rivals, n}, &s->runs[i]);
    tidei_host_free(NULL, rivals);
    return status;
}

static tide_status run_one(const tidei_study *s, size_t i) {
    size_t seed = i % s->seeds, policy = i / s->seeds % s->npolicies,
           limit = i / s->seeds / s->npolicies % s->nlimits,
           program = i / s->seeds / s->npolicies / s->nlimits;
    const tidei_lab_program *p = &s->programs[program];
    tidei_lab_options o = tidei_study_options_of(s, program, limit, policy, (unsigned)seed);
    return s->policies[policy].oracle ? run_oracle(s, i, p, &o) : run_policy(s, i, p, &o);
}

static bool run_number(void *s, size_t i) { return run_one(s, i) == TIDE_OK; }

static tide_status make_room(tidei_study *s, size_t all) {
    if (all <= SIZE_MAX / sizeof *s->runs) {
        s->runs = tidei_host_alloc(NULL, all * sizeof *s->runs);
        s->troubles = s->runs ? tidei_host_alloc(NULL, all * sizeof *s->troubles) : NULL;
    }
    if (s->troubles) return TIDE_OK;
    tidei_study_clear(s);
    return tidei_fail_host_memory(OP, all * sizeof *s->runs);
}

tide_status tidei_study_run(tidei_study *s) {
    const tidei_crew crew = {.all = place(s, s->nprograms, 0, 0),
                             .threads = s->threads,
                             .op = OP,
                             .jobs = s->shows_progress ? "runs" : NULL,
                             .run = run_number,
                             .user = s};
    s->runs = NULL;
    s->troubles = NULL;
    if (!crew.all) return TIDE_OK;
    tide_status status = make_room(s, crew.all);
    if (status != TIDE_OK || tidei_crew_work(&crew)) return status;
    tidei_study_clear(s); /* the error may be another thread's */
    return tidei_fail(TIDE_E_HOST_NOMEM, OP, "host memory is exhausted");
}

void tidei_study_clear(tidei_study *s) {
    tidei_host_free(NULL, s->runs);
    tidei_host_free(NULL, s->troubles);
    s->runs = NULL;
    s->troubles = NULL;
}

/* ---- rows ---- */

static double percent(double ns, const tidei_lab_program *p) {
    return p->ideal_ns ? 100 * ns / (double)p->ideal_ns : 0;
}

/* Below 0 where threads happened to suit each other better, or where allocations failed and less
** was done. */
static double overhead_of(const tidei_lab_figures *f, const tidei_lab_program *p) {
    return percent((double)f->ns - (double)p->ideal_ns, p);
}

static double cost_of(const tidei_lab_figures *f, const tidei_lab_program *p) {
    return overhead_of(f, p) + COST_SHARE * percent((double)f->pause_ns, p);
}

static void add_run(tidei_study_row *r, const tidei_lab_figures *f, const tidei_lab_program *p,
                    double part) {
    r->near |= f->near;
    r->overhead += part * overhead_of(f, p);
    r->cost += part * cost_of(f, p);
    r->share += part * percent((double)f->pause_ns, p);
    r->fruitless_share += part * percent((double)f->fruitless_ns, p);
    r->collections += part * (double)f->collections;
    r->minor += part * (double)f->minor;
    r->fruitless += part * (double)f->fruitless;
    r->forced += part * (double)f->forced;
    r->stalls += part * (double)f->stalls;
    r->failed += part * (double)f->failed;
    if (f->worst_step_ns > r->worst_step_ns) r->worst_step_ns = f->worst_step_ns;
    r->p99_step_ns += part * (double)f->p99_step_ns;
    r->peak_held += part * (double)f->peak_held[TIDEI_LAB_DEVICE];
    r->mean_held += part * (double)f->mean_held[TIDEI_LAB_DEVICE];
}

double tidei_study_student(unsigned freedom) {
    static const struct {
        unsigned from;
        double t;
    } table[] = {{120, 1.980}, {60, 2.000}, {40, 2.021}, {30, 2.042}, {25, 2.060}, {20, 2.086},
                 {19, 2.093},  {15, 2.131}, {12, 2.179}, {10, 2.228}, {9, 2.262},  {8, 2.306},
                 {7, 2.365},   {6, 2.447},  {5, 2.571},  {4, 2.776},  {3, 3.182},  {2, 4.303}};
    for (size_t i = 0; i < TIDEI_COUNT(table); i++)
        if (freedom >= table[i].from) return table[i].t;
    return 12.706;
}

/* Half of the 95 % interval of the mean over the seeds. */
static double interval(const tidei_lab_figures *f, unsigned n, const tidei_lab_program *p,
                       double (*figure)(const tidei_lab_figures *, const tidei_lab_program *),
                       double mean) {
    double sum = 0;
    for (unsigned i = 0; i < n; i++) {
        double off = figure(&f[i], p) - mean;
        sum += off * off;
    }
    return n > 1 ? tidei_study_student(n - 1) * sqrt(sum / (n - 1) / n) : 0;
}

tidei_study_row tidei_study_row_of(const tidei_study *s, size_t program, size_t limit,
                                   size_t policy) {
    const tidei_lab_program *p = &s->programs[program];
    const tidei_lab_figures *f = &s->runs[place(s, program, limit, policy)];
    tidei_study_trouble t;
    tidei_study_row r = {.limit = tidei_study_limit_of(&s->limits[limit], p)};
    if (s->policies[policy].oracle) r.lacks = tidei_lab_oracle_lacks(p, NULL);
    (void)tidei_study_trouble_of(s, program, limit, policy, &t);
    if (t.too_long) r.lacks = "a run " TIDEI_LAB_TOO_LONG;
    if (r.lacks) return r;
    for (unsigned i = 0; i < s->seeds; i++) add_run(&r, &f[i], p, 1.0 / s->seeds);
    r.overhead_off = interval(f, s->seeds, p, overhead_of, r.overhead);
    r.cost_off = interval(f, s->seeds, p, cost_of, r.cost);
    return r;
}

bool tidei_study_trouble_of(const tidei_study *s, size_t program, size_t limit, size_t policy,
                            tidei_study_trouble *out) {
    const tidei_study_trouble *t = &s->troubles[place(s, program, limit, policy)];
    *out = *t;
    for (unsigned i = 1; i < s->seeds; i++) {
        out->too_long |= t[i].too_long;
        if (out->end.how == TIDEI_CHILD_DONE) out->end = t[i].end;
        if (!out->nonsense.n)
            out->nonsense = t[i].nonsense;
        else
            out->nonsense.n += t[i].nonsense.n;
    }
    return out->end.how != TIDEI_CHILD_DONE || out->nonsense.n || out->too_long;
}
