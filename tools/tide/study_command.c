/* study_command.c: `tide study`: its options, and how its rows are shown. docs/policies.md explains
** both. Exit 0, 1 it failed, 2 bad input. */
#include "tools/tide/command.h"
#include "tools/tide/jobs.h"
#include "tools/tide/quote.h"
#include "tools/tide/study.h"
#include "tools/tide/study_input.h"
#include "tools/tide/study_plot.h"
#include "tools/tide/study_sweep.h"
#include "tools/tide/study_table.h"
#include "tools/tide/validate.h"
#include "gc/lab/workloads.h"
#include "runtime/base/text.h"
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BAD_INPUT 2
#define PROGRAMS  64
#define LIMITS    32
#define SEEDS     5
#define SEEDS_MAX 1000
#define WHY       1024 /* bytes of an error */
#define PATIENCE  60   /* seconds */

struct options {
    const char *inputs[PROGRAMS];
    size_t ninputs;
    tidei_study_limit limits[LIMITS];
    size_t nlimits;
    tidei_study_sweep_list sweep; /* the policies */
    uint64_t seeds, jobs, patience;
    const char *model;
    const char *plot; /* a folder; NULL: no pictures */
    char *command;    /* as it was typed */
    bool json;
};

/* ---- options ---- */

enum { POLICY = 'p', LIMIT = 'l', SEED = 's', JOBS = 'j', MODEL = 'm', JSON = 256, PATIENT, PLOT };

static const struct argp_option options[] = {
    {"policy", POLICY, "P[,P...]", 0,
     "Policies, with parameters in parentheses: cudajl,reserve(x0=0.5); x0=0.1:0.9:0.1 is each of "
     "these; one of your own by its file, with a '/' in it: ./mine.so; oracle: the best there is "
     "(default: reserve,cudajl,never)",
     0},
    {"limit", LIMIT, "L[,L...]", 0,
     "Limits: 4GiB, bytes, 1.2x of the most that lives at one time, or none (default: the "
     "workload's own; 1.2x of a trace)",
     0},
    {"seeds", SEED, "N", 0, "Run everything with so many seeds (default: 5)", 0},
    {"model", MODEL, "K=V[,...]", 0, "Change single figures of what things cost: full=5ms", 0},
    {"jobs", JOBS, "N", 0, "Run on so many cores (default: all)", 0},
    {"patience", PATIENT, "N", 0,
     "Seconds of processor time that a run of a policy of your own may take (default: 60)", 0},
    {"plot", PLOT, "DIR", 0,
     "Draw pictures by gnuplot into this folder, which is made: open its index.html", 0},
    {"json", JSON, NULL, 0, "Print a JSON object for each row", 0},
    {0}};

static uint64_t count(struct argp_state *state, const char *name, const char *text, uint64_t high) {
    const char *at = text;
    uint64_t v;
    if (!tidei_read_digits(&at, &v) || *at || v < 1 || v > high)
        argp_error(state, "--%s wants a number from 1 to %" PRIu64 ", not '%s'", name, high, text);
    return v;
}

/* Ends the first item of a list at its comma, outside of parentheses; returns the next item, or
** NULL. */
static char *split(char *text) {
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        if (*text != ',' || depth > 0) continue;
        *text = 0;
        return text + 1;
    }
    return NULL;
}

static void add_policies(struct argp_state *state, char *text, struct options *o) {
    char why[WHY];
    for (char *next; text; text = next) {
        next = split(text);
        if (!tidei_study_sweep(&o->sweep, text, why, sizeof why))
            argp_error(state, "--policy: %s", why);
    }
}

static void add_limits(struct argp_state *state, char *text, struct options *o) {
    for (char *next; text; text = next) {
        next = split(text);
        if (o->nlimits == LIMITS) argp_error(state, "at most %d limits", LIMITS);
        if (!tidei_study_limit_parse(text, &o->limits[o->nlimits++]))
            argp_error(state, "--limit wants bytes, 4GiB, a factor such as 1.2x, or none, not '%s'",
                       text);
    }
}

static void set_model(struct argp_state *state, const char *text, struct options *o) {
    tidei_lab_model aside = TIDEI_LAB_MODEL;
    char why[WHY];
    if (!tidei_lab_model_change(&aside, text, why, sizeof why))
        argp_error(state, "--model \"%s\": %s", text, why);
    o->model = text;
}

static void fill_in(struct options *o) {
    static char usual[] = "reserve,cudajl,never";
    if (!o->sweep.n) add_policies(NULL, usual, o);
    if (!o->nlimits) o->limits[o->nlimits++] = (tidei_study_limit){.text = "own"};
    if (o->ninputs) return;
    const tidei_lab_workload *w;
    for (size_t i = 0; (w = tidei_lab_workload_at(i)); i++) o->inputs[o->ninputs++] = w->name;
}

/* argp_error does not return. */
static error_t read_option(int key, char *text, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case POLICY: add_policies(state, text, o); return 0;
    case LIMIT: add_limits(state, text, o); return 0;
    case SEED: o->seeds = count(state, "seeds", text, SEEDS_MAX); return 0;
    case JOBS: o->jobs = count(state, "jobs", text, 256); return 0;
    case MODEL: set_model(state, text, o); return 0;
    case PATIENT: o->patience = count(state, "patience", text, 3600); return 0;
    case PLOT: o->plot = text; return 0;
    case JSON: o->json = true; return 0;
    case ARGP_KEY_ARG:
        if (o->ninputs == PROGRAMS) argp_error(state, "at most %d programs", PROGRAMS);
        o->inputs[o->ninputs++] = text;
        return 0;
    case ARGP_KEY_END: fill_in(o); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- help ---- */

static void list_params(FILE *f, const tidei_param *table, size_t n, bool usual) {
    char a[TIDEI_PARAM_TEXT], b[TIDEI_PARAM_TEXT], c[TIDEI_PARAM_TEXT];
    for (size_t i = 0; i < n; i++) {
        const tidei_param *p = &table[i];
        fprintf(f, "    %-19s", p->name);
        if (usual) fprintf(f, "%s, ", tidei_param_show(p, p->usual, a, sizeof a));
        fprintf(f, "%s to %s: %s\n", tidei_param_show(p, p->low, b, sizeof b),
                tidei_param_show(p, p->high, c, sizeof c), p->meaning);
    }
}

static void list_all(FILE *f) {
    const tidei_lab_workload *w;
    const tidei_policy *p;
    const tidei_param *model;
    fprintf(f, "Workloads (all of them where none is named):\n");
    for (size_t i = 0; (w = tidei_lab_workload_at(i)); i++)
        fprintf(f, "  %-14s%s\n", w->name, w->summary);
    fprintf(f, "\nPolicies, by when they collect, and their parameters (usual value, range):\n");
    for (size_t i = 0; (p = tidei_policy_at(i)); i++) {
        fprintf(f, "  %-14s%s\n", p->name, p->summary);
        list_params(f, p->params, p->nparams, true);
    }
    fprintf(f, "  %-14sthe best that knows the whole program; of one thread and one budget\n",
            TIDEI_STUDY_ORACLE);
    fprintf(f, "\nWhat --model changes (range):\n");
    size_t n = tidei_lab_model_params(&model);
    list_params(f, model, n, false);
    fprintf(f, "\nExit status: 0; 1 it failed, or a policy of your own did; 2 bad input.");
}

static char *with_lists(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) return (char *)(uintptr_t)text;
    char *list = NULL;
    size_t bytes;
    FILE *f = open_memstream(&list, &bytes);
    if (!f) return NULL;
    list_all(f);
    fclose(f);
    return list;
}

/* ---- rows ---- */

/* Somebody's text at the left of a table; what is no plain text takes as much room. */
static void print_name(const char *text, int width) {
    int n = (int)strlen(text);
    printf("  ");
    tidei_quote_field(stdout, text);
    printf("%*s", n < width ? width - n : 0, "");
}

static void print_head(const tidei_lab_program *p, int width) {
    char text[TIDEI_STUDY_HEAD];
    tidei_quote_field(stdout, p->name);
    printf(": %s\n", tidei_study_show_program(text, sizeof text, p));
    printf("  %-*s", width, "policy");
    for (size_t i = 0; i < TIDEI_STUDY_COLUMNS; i++)
        printf(" %*s", tidei_study_columns[i].width, tidei_study_columns[i].title);
    printf("\n");
}

static void print_row(const char *policy, const tidei_study_row *r, int width, unsigned seeds) {
    char cells[TIDEI_STUDY_COLUMNS][TIDEI_STUDY_CELL];
    tidei_study_cells(r, seeds, cells);
    print_name(policy, width);
    for (size_t i = 0; i < TIDEI_STUDY_COLUMNS && *cells[i]; i++)
        printf(" %*s", tidei_study_columns[i].width, cells[i]);
    if (r->lacks) printf(" none: %s", r->lacks);
    printf("%s%s\n", r->near ? "  near" : "", r->failed > 0 ? "  incomplete" : "");
}

static void print_text(const char *key, const char *text) {
    printf("\"%s\": ", key);
    tidei_quote_json(stdout, text);
    printf(", ");
}

/* What every object begins with. */
static void print_place(const tidei_lab_program *p, const char *policy, const tidei_study_row *r) {
    printf("{");
    print_text("workload", p->name);
    print_text("policy", policy);
    if (r->limit == TIDEI_NO_LIMIT)
        printf("\"limit\": null, ");
    else
        printf("\"limit\": %" PRIu64 ", ", r->limit);
}

static void print_json(const tidei_lab_program *p, const char *policy, const tidei_study_row *r,
                       const tidei_study_trouble *t) {
    print_place(p, policy, r);
    if (t->nonsense.n) {
        printf("\"nonsense\": %" PRIu64 ", ", t->nonsense.n);
        print_text("first_nonsense", t->nonsense.first);
    }
    printf("\"peak_live\": %" PRIu64 ", \"ideal_ns\": %" PRIu64 ", \"steps\": %zu, ",
           p->peak[TIDEI_LAB_DEVICE], p->ideal_ns, p->steps);
    if (r->lacks) {
        printf("\"lacks\": \"%s\"}\n", r->lacks);
        return;
    }
    if (r->failed > 0) printf("\"incomplete\": true, ");
    printf("\"cost\": %.6f, \"cost_off\": %.6f, \"near\": %s, ", r->cost, r->cost_off,
           r->near ? "true" : "false");
    printf(
        "\"overhead\": %.6f, \"overhead_off\": %.6f, \"collector\": %.6f, "
        "\"fruitless_share\": %.6f, \"collections\": %.3f, \"minor\": %.3f, \"fruitless\": %.3f, "
        "\"forced\": %.3f, \"stalls\": %.3f, \"failed\": %.3f, ",
        r->overhead, r->overhead_off, r->share, r->fruitless_share, r->collections, r->minor,
        r->fruitless, r->forced, r->stalls, r->failed);
    printf("\"worst_step_ns\": %" PRIu64 ", \"p99_step_ns\": %.0f, \"peak_held\": %.0f, "
           "\"mean_held\": %.0f}\n",
           r->worst_step_ns, r->p99_step_ns, r->peak_held, r->mean_held);
}

/* A row without figures. */
static void print_end(const struct options *o, const tidei_lab_program *p, const char *policy,
                      const tidei_study_row *r, const tidei_child_end *e, int width) {
    char text[TIDEI_CHILD_TEXT], b[32];
    tidei_child_text(e, text, sizeof text);
    if (!o->json) {
        print_name(policy, width);
        printf(" %11s  %s\n", tidei_study_show_limit(b, sizeof b, r->limit), text);
        return;
    }
    print_place(p, policy, r);
    printf("\"error\": \"%s\"}\n", text);
}

/* Returns whether all is well with the row's policy. */
static bool print_one(const struct options *o, const tidei_study *s, size_t program, size_t limit,
                      size_t policy, int width) {
    const tidei_lab_program *p = &s->programs[program];
    const char *text = s->policies[policy].text;
    tidei_study_row r = tidei_study_row_of(s, program, limit, policy);
    tidei_study_trouble t;
    bool bad = tidei_study_trouble_of(s, program, limit, policy, &t);
    if (t.end.how != TIDEI_CHILD_DONE)
        print_end(o, p, text, &r, &t.end, width);
    else if (o->json)
        print_json(p, text, &r, &t);
    else
        print_row(text, &r, width, s->seeds);
    if (t.nonsense.n && !o->json && t.end.how == TIDEI_CHILD_DONE) {
        printf("  %-*s %" PRIu64 " answers make no sense; the first: ", width, "", t.nonsense.n);
        tidei_quote_field(stdout, t.nonsense.first);
        printf("\n");
    }
    return !bad;
}

static int widest(const struct options *o) {
    size_t n = strlen("policy");
    for (size_t i = 0; i < o->sweep.n; i++) n = tidei_max_size(n, strlen(o->sweep.at[i].text));
    return (int)n;
}

/* How much more than the best each costs: of rows that did all there was to do. */
static void print_distances(const tidei_study *s, size_t program, size_t limit) {
    size_t best = 0;
    while (best < s->npolicies && !s->policies[best].oracle) best++;
    if (best == s->npolicies) return;
    tidei_study_row o = tidei_study_row_of(s, program, limit, best);
    if (o.lacks || o.failed > 0) return;
    printf("  dearer than the oracle%s:", o.near ? ", nearly" : "");
    const char *comma = "";
    for (size_t k = 0; k < s->npolicies; k++) {
        tidei_study_trouble t;
        if (s->policies[k].oracle) continue;
        (void)tidei_study_trouble_of(s, program, limit, k, &t);
        if (t.end.how != TIDEI_CHILD_DONE) continue; /* it has no figures */
        tidei_study_row r = tidei_study_row_of(s, program, limit, k);
        if (r.lacks || r.failed > 0) continue;
        double more = r.cost - o.cost;
        printf("%s ", comma);
        tidei_quote_field(stdout, s->policies[k].text);
        printf(" %+.2f", more);
        if (o.cost > 0) printf(" (%.0f %%)", 100 * more / o.cost);
        comma = ",";
    }
    printf("\n");
}

static bool print_program(const struct options *o, const tidei_study *s, size_t program) {
    int width = widest(o);
    bool good = true;
    if (!o->json) print_head(&s->programs[program], width);
    for (size_t l = 0; l < s->nlimits; l++) {
        for (size_t k = 0; k < s->npolicies; k++)
            good = print_one(o, s, program, l, k, width) && good;
        if (!o->json) print_distances(s, program, l);
    }
    if (!o->json && program + 1 < s->nprograms) printf("\n");
    return good;
}

/* ---- the command ---- */

static int failed(void) {
    fprintf(stderr, "tide study: %s\n", tide_error_last()->message);
    switch (tide_error_last()->status) {
    case TIDE_E_INVALID:
    case TIDE_E_FORMAT:
    case TIDE_E_UNSUPPORTED: /* it takes too long */
    case TIDE_E_IO: return BAD_INPUT;
    default: return 1;
    }
}

/* The text was looked at before. */
static tide_status change_model(tidei_lab_program *p, const char *text) {
    char why[WHY];
    (void)tidei_lab_model_change(&p->model, text, why, sizeof why);
    return tidei_lab_finish(p);
}

static tide_status load(const struct options *o, tidei_lab_program *programs, size_t *n) {
    for (*n = 0; *n < o->ninputs; ++*n) {
        tide_status status = tidei_study_load(o->inputs[*n], &programs[*n]);
        if (status != TIDE_OK) return status;
        if (o->model) status = change_model(&programs[*n], o->model);
        if (status != TIDE_OK) return ++*n, status;
    }
    return TIDE_OK;
}

/* Pictures have the recorded run too, for which its file is read once more: a pipe cannot be. */
static tide_status check_files(const struct options *o) {
    for (size_t i = 0; o->plot && i < o->ninputs; i++) {
        struct stat s;
        if (tidei_lab_workload_find(o->inputs[i]) || stat(o->inputs[i], &s) || S_ISREG(s.st_mode))
            continue;
        return tidei_fail(TIDE_E_INVALID, "tide study",
                          "%s: is no regular file, and --plot reads recordings twice",
                          o->inputs[i]);
    }
    return TIDE_OK;
}

/* What went wrong with the pictures leaves the figures as they are. */
static bool draw(const struct options *o, const tidei_study *s, const tidei_plot *plot) {
    if (!o->plot || tidei_study_plot(s, plot, o->command ? o->command : "tide study") == TIDE_OK)
        return true;
    fprintf(stderr, "tide study: %s\n", tide_error_last()->message);
    return false;
}

static tide_status study(const struct options *o, const tidei_lab_program *programs, size_t n,
                         const tidei_plot *plot, bool *good) {
    tidei_study s = {.programs = programs,
                     .nprograms = n,
                     .limits = o->limits,
                     .nlimits = o->nlimits,
                     .policies = o->sweep.at,
                     .npolicies = o->sweep.n,
                     .seeds = (unsigned)o->seeds,
                     .threads = (unsigned)(o->jobs ? o->jobs : tidei_threads_here()),
                     .patience = (unsigned)o->patience,
                     .shows_progress = isatty(STDERR_FILENO)};
    tide_status status = tidei_study_run(&s);
    *good = true;
    for (size_t i = 0; status == TIDE_OK && i < n; i++) *good = print_program(o, &s, i) && *good;
    if (status == TIDE_OK) *good = draw(o, &s, plot) && *good;
    tidei_study_clear(&s);
    return status;
}

int tidei_study_command(int argc, char **argv) {
    struct options o = {.seeds = SEEDS, .patience = PATIENCE};
    tidei_plot plot = {.folder = -1};
    bool good = false;
    tidei_lab_program programs[PROGRAMS];
    size_t n = 0;
    const struct argp argp = {
        .options = options,
        .parser = read_option,
        .args_doc = "[TRACE|WORKLOAD...]",
        .doc = "Plays programs in virtual time under policies of collection, and shows what each "
               "costs. A program is a workload's name, or a trace of allocations (TIDE_TRACE's "
               "CSV, or RMM's log; gzipped too). docs/policies.md explains the figures. "
               "--validate -- PROGRAM ARG..., as the first option, runs the program under three "
               "policies and limits, and compares with what the lab predicts.\v",
        .help_filter = with_lists};
    if (argc > 1 && !strcmp(argv[1], "--validate")) return tidei_validate(argc - 1, argv + 1);
    o.command = tidei_plot_command(argc, argv); /* options are cut into pieces as they are read */
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o) != 0) return BAD_INPUT;
    tide_status status = check_files(&o);
    if (status == TIDE_OK) status = load(&o, programs, &n);
    if (status == TIDE_OK && o.plot) status = tidei_plot_open(&plot, "tide study", o.plot);
    if (status == TIDE_OK) status = study(&o, programs, n, &plot, &good);
    tidei_plot_close(&plot);
    free(o.command);
    while (n) tidei_lab_clear(&programs[--n]);
    tidei_study_sweep_clear(&o.sweep);
    return status == TIDE_OK ? !good : failed();
}
