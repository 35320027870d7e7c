/* study_plot.c: what is drawn of a study, in jobs on all cores, and the page. */
#include "tools/tide/study_plot.h"
#include "tools/tide/crew.h"
#include "tools/tide/page.h"
#include "tools/tide/pictures.h"
#include "tools/tide/quote.h"
#include "tools/tide/study_table.h"
#include "gc/lab/workloads.h"
#include "runtime/base/text.h"
#include <inttypes.h>
#include <stdlib.h>

#define OP        "tide study"
#define WHY       1024 /* bytes of an error */
#define TITLE     256
#define NAME_PART 40 /* bytes of a policy's or a program's text in a file's name */
#define SUFFIX    16 /* bytes, of a file's name */

/* What is drawn at one go: the two pictures of a program's rows, or memory over time. */
typedef struct job {
    enum { ROWS, RECORDED, MEMORY } kind;
    size_t program, limit, policy;
    char name[TIDEI_PLOT_NAME - SUFFIX]; /* of its files, without what tells them apart */
    char title[TITLE], facts[TIDEI_PICTURE_FACTS];
    bool drawn; /* there is something to draw */
    tide_status status;
    char why[WHY];
} job;

typedef struct album {
    const tidei_study *s;
    const tidei_plot *plot;
    job *jobs;
    size_t n;
    pthread_mutex_t lock; /* over what went wrong first */
    tide_status status;
    char why[WHY];
} album;

static bool is_recording(const tidei_lab_program *p) {
    return tidei_lab_workload_find(p->name) == NULL;
}

static bool has_figures(const tidei_study *s, size_t program, size_t limit, size_t policy) {
    tidei_study_trouble t;
    (void)tidei_study_trouble_of(s, program, limit, policy, &t);
    return t.end.how == TIDEI_CHILD_DONE && !tidei_study_row_of(s, program, limit, policy).lacks;
}

/* ---- writing files ---- */

/* Opens a file of the job's, by the end of its name. */
static FILE *create(const album *a, const job *j, char *file, const char *end) {
    tidei_format(file, TIDEI_PLOT_NAME, "%s%s", j->name, end);
    return tidei_plot_create(a->plot, file);
}

static tide_status error_now(void) { return tide_error_last()->status; }

/* ---- memory over time ---- */

static tide_status play_run(const album *a, const job *j, tidei_timeline *t) {
    tidei_lab_figures f;
    tidei_lab_options o = tidei_study_options_of(a->s, j->program, j->limit, j->policy, 0);
    o.note = tidei_timeline_note;
    o.user = t;
    tide_status status = tidei_lab_simulate(&a->s->programs[j->program], &o, &f);
    return status == TIDE_OK ? tidei_timeline_end(t, f.ns) : status;
}

static tide_status play_recording(const album *a, const job *j, tidei_timeline *t) {
    tidei_trace trace;
    tide_status status =
        tidei_trace_read_rows(a->s->programs[j->program].name, 0, tidei_timeline_row, t, &trace);
    if (status != TIDE_OK) return status;
    tidei_trace_clear(&trace);
    return tidei_timeline_end(t, 0);
}

static tide_status write_memory(const album *a, job *j) {
    tidei_timeline *t = tidei_host_alloc(NULL, sizeof *t);
    if (!t) return tidei_fail_host_memory(OP, sizeof *t);
    const tidei_lab_program *p = &a->s->programs[j->program];
    const tidei_picture_memory x = {.name = j->name,
                                    .title = j->title,
                                    .timeline = t,
                                    .limit = j->kind == RECORDED
                                                 ? TIDEI_NO_LIMIT
                                                 : tidei_study_limit_of(&a->s->limits[j->limit], p),
                                    .is_recorded = j->kind == RECORDED};
    tidei_timeline_begin(t);
    tide_status status = j->kind == RECORDED ? play_recording(a, j, t) : play_run(a, j, t);
    if (status == TIDE_OK) status = tidei_picture_memory_save(&x, a->plot);
    tidei_picture_memory_facts(&x, j->facts, sizeof j->facts);
    tidei_timeline_clear(t);
    tidei_host_free(NULL, t);
    return status;
}

/* ---- rows ---- */

/* The limits of a program from the lowest on, by number. */
static void sort_limits(const tidei_study *s, size_t program, size_t *order) {
    const tidei_lab_program *p = &s->programs[program];
    for (size_t i = 0; i < s->nlimits; i++) {
        size_t at = i;
        uint64_t limit = tidei_study_limit_of(&s->limits[i], p);
        for (; at && tidei_study_limit_of(&s->limits[order[at - 1]], p) > limit; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* As it was asked for; where it was not, what it comes to. */
static const char *limit_text(const album *a, size_t program, size_t limit, char *buf, size_t cap) {
    const tidei_study_limit *l = &a->s->limits[limit];
    if (l->kind != TIDEI_LIMIT_OWN) return l->text;
    return tidei_study_show_limit(buf, cap, tidei_study_limit_of(l, &a->s->programs[program]));
}

static void write_figures(FILE *to, const tidei_study_row *r) {
    const double figures[] = {r->cost,   r->cost_off,    r->overhead, r->overhead_off,
                              r->share,  r->collections, r->minor,    r->fruitless,
                              r->forced, r->stalls,      r->failed};
    for (size_t i = 0; i < TIDEI_COUNT(figures); i++) fprintf(to, "\t%.6f", figures[i]);
    fprintf(to, "\t%" PRIu64 "\t%.0f\t%.0f\t%.0f", r->worst_step_ns, r->p99_step_ns, r->peak_held,
            r->mean_held);
}

static void write_row(const album *a, const job *j, FILE *to, size_t at, size_t limit,
                      size_t policy) {
    static const char none[] = "\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN"
                               "\tNaN\tNaN";
    char text[32];
    tidei_study_row r = tidei_study_row_of(a->s, j->program, limit, policy);
    fprintf(to, "%zu\t", at);
    if (r.limit == TIDEI_NO_LIMIT)
        fputs("none", to);
    else
        fprintf(to, "%" PRIu64, r.limit);
    fprintf(to, "\t%zu\t", policy);
    tidei_quote_field(to, a->s->policies[policy].text);
    if (has_figures(a->s, j->program, limit, policy))
        write_figures(to, &r);
    else
        fputs(none, to);
    fprintf(to, "\t%s\n", limit_text(a, j->program, limit, text, sizeof text));
}

static tide_status write_rows(const album *a, const job *j, const size_t *order) {
    char file[TIDEI_PLOT_NAME];
    FILE *f = create(a, j, file, ".tsv");
    if (!f) return error_now();
    fputs("limit_number\tlimit\tpolicy_number\tpolicy\tcost\tcost_off\toverhead\toverhead_off\t"
          "collector\tcollections\tminor\tfruitless\tforced\tstalls\tfailed\tworst_step_ns\t"
          "p99_step_ns\tpeak_held\tmean_held\tlimit_asked\n",
          f);
    for (size_t k = 0; k < a->s->npolicies; k++)
        for (size_t l = 0; l < a->s->nlimits; l++) write_row(a, j, f, l, order[l], k);
    return tidei_plot_finish(a->plot, f, file);
}

typedef struct point {
    double held, overhead;
    size_t limit, policy;
    bool incomplete; /* allocations failed */
} point;

static int by_held(const void *a, const void *b) {
    const point *x = a, *y = b;
    int order = (x->held > y->held) - (x->held < y->held);
    return order ? order : (x->overhead > y->overhead) - (x->overhead < y->overhead);
}

/* All points that there are, by memory; returns how many. */
static size_t list_points(const album *a, const job *j, point *points) {
    const tidei_study *s = a->s;
    size_t n = 0;
    for (size_t k = 0; k < s->npolicies; k++)
        for (size_t l = 0; l < s->nlimits; l++) {
            if (!has_figures(s, j->program, l, k)) continue;
            tidei_study_row r = tidei_study_row_of(s, j->program, l, k);
            points[n++] = (point){r.mean_held, r.overhead, l, k, r.failed > 0};
        }
    qsort(points, n, sizeof *points, by_held);
    return n;
}

/* Those that no other beats in both, of those that did all there was to do. */
static tide_status write_best(const album *a, const job *j, const point *points, size_t n) {
    char file[TIDEI_PLOT_NAME], text[32];
    FILE *f = create(a, j, file, "-best.tsv");
    if (!f) return error_now();
    fputs("mean_held\toverhead\tpolicy\tlimit_asked\n", f);
    for (size_t i = 0, last = n; i < n; i++) {
        const point *p = &points[i];
        if (p->incomplete || (last < n && p->overhead >= points[last].overhead)) continue;
        last = i;
        fprintf(f, "%.0f\t%.6f\t", p->held, p->overhead);
        tidei_quote_field(f, a->s->policies[p->policy].text);
        fprintf(f, "\t%s\n", limit_text(a, j->program, p->limit, text, sizeof text));
    }
    return tidei_plot_finish(a->plot, f, file);
}

/* What both pictures of a program's rows are told; the texts that it points to are below. */
struct rows {
    tidei_picture_rows x;
    char table[TIDEI_PLOT_NAME], best[TIDEI_PLOT_NAME], name[TIDEI_PLOT_NAME];
    char title[TITLE], own[32];
    const char **policies, **limits;
};

static tide_status write_rows_script(const album *a, const job *j, struct rows *r, const char *end,
                                     const char *title) {
    tidei_format(r->name, sizeof r->name, "%s%s", j->name, end);
    tidei_format(r->title, sizeof r->title, "%s: %s", j->title, title);
    FILE *f = tidei_plot_script(a->plot, r->name);
    if (!f) return error_now();
    if (!strcmp(end, "-pareto"))
        tidei_picture_pareto_write(&r->x, r->best, f);
    else
        tidei_picture_overhead_write(&r->x, f);
    return tidei_plot_finish_script(a->plot, f, r->name);
}

static void fill_rows(const album *a, const job *j, const size_t *order, const point *points,
                      size_t n, struct rows *r) {
    const tidei_study *s = a->s;
    tidei_format(r->table, sizeof r->table, "%s.tsv", j->name);
    tidei_format(r->best, sizeof r->best, "%s-best.tsv", j->name);
    for (size_t k = 0; k < s->npolicies; k++) r->policies[k] = s->policies[k].text;
    for (size_t l = 0; l < s->nlimits; l++)
        r->limits[l] = limit_text(a, j->program, order[l], r->own, sizeof r->own);
    r->x = (tidei_picture_rows){.name = r->name,
                                .table = r->table,
                                .title = r->title,
                                .policies = r->policies,
                                .limits = r->limits,
                                .npolicies = s->npolicies,
                                .nlimits = s->nlimits,
                                .has_interval = s->seeds > 1};
    for (size_t i = 0; i < n; i++)
        if (points[i].overhead > r->x.most) r->x.most = points[i].overhead;
    if (!n) return;
    r->x.least_held = (uint64_t)points[0].held;
    r->x.most_held = (uint64_t)points[n - 1].held;
}

static tide_status draw_rows(const album *a, job *j, const size_t *order, point *points,
                             struct rows *r) {
    size_t n = list_points(a, j, points);
    j->drawn = n > 0;
    fill_rows(a, j, order, points, n, r);
    tide_status status = write_rows(a, j, order);
    if (status == TIDE_OK && n) status = write_best(a, j, points, n);
    if (status == TIDE_OK && n)
        status = write_rows_script(a, j, r, "-overhead",
                                   a->s->nlimits > 1 ? "overhead against limit" : "overhead");
    if (status == TIDE_OK && n)
        status = write_rows_script(a, j, r, "-pareto", "time against memory");
    return status;
}

static tide_status write_program(const album *a, job *j) {
    const tidei_study *s = a->s;
    size_t points_bytes = s->npolicies * s->nlimits * sizeof(point);
    point *points = tidei_host_take(NULL, points_bytes);
    size_t *order = tidei_host_take(NULL, s->nlimits * sizeof *order);
    struct rows *r = tidei_host_alloc(NULL, sizeof *r);
    const char **texts = tidei_host_take(NULL, (s->npolicies + s->nlimits) * sizeof *texts);
    bool have = points && order && r && texts;
    tide_status status = have ? TIDE_OK : tidei_fail_host_memory(OP, points_bytes);
    if (have) {
        r->policies = texts;
        r->limits = texts + s->npolicies;
        sort_limits(s, j->program, order);
        status = draw_rows(a, j, order, points, r);
    }
    tidei_host_free(NULL, texts);
    tidei_host_free(NULL, r);
    tidei_host_free(NULL, order);
    tidei_host_free(NULL, points);
    return status;
}

/* ---- jobs ---- */

static void do_job(const album *a, job *j) {
    j->status = j->kind == ROWS ? write_program(a, j) : write_memory(a, j);
    if (j->status != TIDE_OK) tidei_format(j->why, sizeof j->why, "%s", tide_error_last()->message);
}

struct apart { /* a job for a process of its own */
    const album *a;
    job j;
};

static void do_apart(void *p) {
    struct apart *x = p;
    do_job(x->a, &x->j);
}

/* What a policy of somebody else's does once more it may do otherwise. */
static void run_apart(const album *a, job *j) {
    struct apart x = {a, *j};
    tidei_child_end e = tidei_child_run(do_apart, &x, sizeof x, a->s->patience);
    if (e.how == TIDEI_CHILD_DONE)
        *j = x.j;
    else
        j->drawn = false;
}

static bool fail(album *a, tide_status status, const char *why) {
    pthread_mutex_lock(&a->lock);
    if (a->status == TIDE_OK) {
        a->status = status;
        tidei_format(a->why, sizeof a->why, "%s", why);
    }
    pthread_mutex_unlock(&a->lock);
    return false;
}

static bool write_job(void *user, size_t i) {
    album *a = user;
    job *j = &a->jobs[i];
    const tidei_policy *policy = a->s->policies[j->policy].choice.policy;
    if (j->kind == MEMORY && policy->own)
        run_apart(a, j);
    else
        do_job(a, j);
    return j->status == TIDE_OK || fail(a, j->status, j->why);
}

/* Two pictures of rows, one of a run. */
static bool draw_job(void *user, size_t i) {
    album *a = user;
    const job *j = &a->jobs[i];
    char name[TIDEI_PLOT_NAME];
    if (!j->drawn) return true;
    tidei_format(name, sizeof name, "%s%s", j->name, j->kind == ROWS ? "-overhead" : "");
    tide_status status = tidei_plot_draw(a->plot, name);
    if (status == TIDE_OK && j->kind == ROWS) {
        tidei_format(name, sizeof name, "%s-pareto", j->name);
        status = tidei_plot_draw(a->plot, name);
    }
    return status == TIDE_OK || fail(a, status, tide_error_last()->message);
}

static void work(album *a, bool (*run)(void *user, size_t i), const char *what) {
    const tidei_crew crew = {.all = a->n,
                             .threads = a->s->threads,
                             .op = OP,
                             .jobs = a->s->shows_progress ? what : NULL,
                             .run = run,
                             .user = a};
    if (a->status == TIDE_OK) (void)tidei_crew_work(&crew);
}

/* ---- which jobs there are ---- */

static const char *program_text(const album *a, size_t program) {
    return a->s->programs[program].name;
}

/* A recording's path may be longer than a picture is wide. */
static const char *short_text(const album *a, size_t program) {
    const char *name = program_text(a, program), *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void add(album *a, job j, const char *end) {
    char part[NAME_PART];
    tidei_quote_file(part, sizeof part, short_text(a, j.program));
    tidei_format(j.name, sizeof j.name, "%02zu-%s%s", j.program + 1, part, end);
    a->jobs[a->n++] = j;
}

static void add_memory(album *a, size_t program, size_t limit, size_t policy) {
    const tidei_study_policy *p = &a->s->policies[policy];
    job j = {.kind = MEMORY, .program = program, .limit = limit, .policy = policy, .drawn = true};
    char part[NAME_PART], end[NAME_PART + 64], bytes[32];
    if (p->oracle || !has_figures(a->s, program, limit, policy)) return;
    uint64_t of = tidei_study_limit_of(&a->s->limits[limit], &a->s->programs[program]);
    tidei_format(j.title, sizeof j.title, "%s under %s, %s%s", short_text(a, program), p->text,
                 of == TIDEI_NO_LIMIT ? "limit " : "a limit of ",
                 tidei_study_show_limit(bytes, sizeof bytes, of));
    tidei_format(end, sizeof end, "-memory-%zu-%zu-%s", limit + 1, policy + 1,
                 tidei_quote_file(part, sizeof part, p->text));
    add(a, j, end);
}

static void add_program(album *a, size_t program) {
    const tidei_study *s = a->s;
    job rows = {.kind = ROWS, .program = program, .drawn = true};
    tidei_format(rows.title, sizeof rows.title, "%s", short_text(a, program));
    add(a, rows, "");
    if (is_recording(&s->programs[program])) {
        job j = {.kind = RECORDED, .program = program, .drawn = true};
        tidei_format(j.title, sizeof j.title, "%s as it was recorded", short_text(a, program));
        add(a, j, "-recorded");
    }
    for (size_t l = 0; l < s->nlimits && l < TIDEI_STUDY_PLOT_LIMITS; l++)
        for (size_t k = 0; k < s->npolicies && k < TIDEI_STUDY_PLOT_POLICIES; k++)
            add_memory(a, program, l, k);
}

/* ---- the page ---- */

static void page_row(const album *a, FILE *to, size_t program, size_t limit, size_t policy) {
    char cells[TIDEI_STUDY_COLUMNS][TIDEI_STUDY_CELL], text[TITLE];
    tidei_study_trouble t;
    tidei_study_row r = tidei_study_row_of(a->s, program, limit, policy);
    tidei_page_cell row[1 + TIDEI_STUDY_COLUMNS] = {{a->s->policies[policy].text, 1, false}};
    (void)tidei_study_trouble_of(a->s, program, limit, policy, &t);
    tidei_study_cells(&r, a->s->seeds, cells);
    for (size_t i = 0; i < TIDEI_STUDY_COLUMNS; i++)
        row[1 + i] = (tidei_page_cell){cells[i], 1, true};
    if (t.end.how == TIDEI_CHILD_DONE && !r.lacks) {
        const char *mark = r.failed > 0 ? "incomplete" : r.near ? "near" : NULL;
        if (mark) tidei_format(text, sizeof text, "%s (%s)", a->s->policies[policy].text, mark);
        if (mark) row[0].text = text;
        tidei_page_row(to, row, TIDEI_COUNT(row));
        return;
    }
    if (r.lacks)
        tidei_format(text, sizeof text, "none: %s", r.lacks);
    else
        tidei_child_text(&t.end, text, sizeof text);
    row[2] = (tidei_page_cell){text, TIDEI_STUDY_COLUMNS - 1, false};
    tidei_page_row(to, row, 3);
}

static void page_table(const album *a, FILE *to, size_t program) {
    const char *titles[1 + TIDEI_STUDY_COLUMNS] = {"policy"};
    for (size_t i = 0; i < TIDEI_STUDY_COLUMNS; i++) titles[1 + i] = tidei_study_columns[i].title;
    tidei_page_table_begin(to, titles, TIDEI_COUNT(titles));
    for (size_t l = 0; l < a->s->nlimits; l++)
        for (size_t k = 0; k < a->s->npolicies; k++) page_row(a, to, program, l, k);
    tidei_page_table_end(to);
}

static void page_rows_pictures(const album *a, FILE *to, const job *j) {
    char name[TIDEI_PLOT_NAME], table[TIDEI_PLOT_NAME], best[TIDEI_PLOT_NAME], alt[2 * TITLE];
    const char *tables[] = {table, best};
    if (!j->drawn) return;
    tidei_format(table, sizeof table, "%s.tsv", j->name);
    tidei_format(best, sizeof best, "%s-best.tsv", j->name);
    tidei_format(name, sizeof name, "%s-overhead", j->name);
    tidei_format(alt, sizeof alt, "Overhead of each policy%s; the figures are those of the table.",
                 a->s->nlimits > 1 ? " against the limit" : "");
    tidei_page_picture(to, name, alt,
                       a->s->nlimits > 1
                           ? "Overhead against limit, a line for each policy. Bars are the 95 % "
                             "interval over the seeds. Limits stand side by side, whatever lies "
                             "between them."
                           : "Overhead of each policy, with the 95 % interval over the seeds, and "
                             "behind it the time in collections, of which device work hid a part.",
                       tables, 1);
    tidei_format(name, sizeof name, "%s-pareto", j->name);
    tidei_page_picture(to, name,
                       "Overhead against the mean memory held, a point for each policy and limit; "
                       "the figures are those of the table.",
                       "Time against memory, a point for each policy and limit. To the left is "
                       "less memory, below is less time. Nothing beats the points on the line in "
                       "both; they are labelled with their limits. Rows that are incomplete, since "
                       "allocations failed, are not among them.",
                       tables, 2);
}

static void page_left_out(const album *a, FILE *to) {
    char text[TITLE];
    if (a->s->npolicies <= TIDEI_STUDY_PLOT_POLICIES && a->s->nlimits <= TIDEI_STUDY_PLOT_LIMITS)
        return;
    tidei_format(text, sizeof text,
                 "Memory over time is drawn for the first %d policies under the first %d limits, "
                 "of %zu and %zu.",
                 TIDEI_STUDY_PLOT_POLICIES, TIDEI_STUDY_PLOT_LIMITS, a->s->npolicies,
                 a->s->nlimits);
    tidei_page_paragraph(to, text);
}

static void page_intro(const album *a, FILE *to) {
    tidei_page_paragraph(
        to, "Cost is the overhead and a tenth of the collector's time, both in percent of the time "
            "that the program takes when it is freed by hand. Figures are means over the seeds.");
    tidei_page_paragraph(
        to, "Memory over time is that of the first seed's run. The filled area is what is held; "
            "what lies between its edge and what is live is dead and not yet found. Below it, each "
            "bar is a collection that the policy asked for, one that an allocation forced, or a "
            "stall, and is as wide as that was long.");
    page_left_out(a, to);
}

static void page_program(const album *a, FILE *to, size_t program) {
    char text[TIDEI_STUDY_HEAD];
    tidei_page_heading(to, program_text(a, program));
    tidei_study_show_program(text, sizeof text, &a->s->programs[program]);
    tidei_page_paragraph(to, text);
    page_table(a, to, program);
    for (size_t i = 0; i < a->n; i++) {
        const job *j = &a->jobs[i];
        if (j->program != program) continue;
        if (j->kind == ROWS)
            page_rows_pictures(a, to, j);
        else if (j->drawn)
            tidei_picture_memory_page(to, j->name, j->facts);
    }
}

static tide_status write_page(const album *a, const char *command) {
    FILE *f = tidei_plot_create(a->plot, TIDEI_PAGE);
    if (!f) return error_now();
    tidei_page_begin(f, OP, command, a->status == TIDE_OK ? NULL : a->why);
    page_intro(a, f);
    for (size_t i = 0; i < a->s->nprograms; i++) page_program(a, f, i);
    tidei_page_end(f);
    return tidei_plot_finish(a->plot, f, TIDEI_PAGE);
}

/* ---- all of it ---- */

static tide_status make(album *a, const char *command) {
    for (size_t i = 0; i < a->s->nprograms; i++) add_program(a, i);
    work(a, write_job, "runs to be drawn");
    work(a, draw_job, "pictures");
    tide_status status = write_page(a, command);
    return a->status == TIDE_OK ? status : tidei_fail(a->status, OP, "%s", a->why);
}

tide_status tidei_study_plot(const tidei_study *s, const tidei_plot *plot, const char *command) {
    album a = {.s = s, .plot = plot};
    size_t most = s->nprograms * (2 + (size_t)TIDEI_STUDY_PLOT_LIMITS * TIDEI_STUDY_PLOT_POLICIES);
    a.jobs = tidei_host_alloc(NULL, most * sizeof *a.jobs);
    if (!a.jobs) return tidei_fail_host_memory(OP, most * sizeof *a.jobs);
    pthread_mutex_init(&a.lock, NULL);
    tide_status status = make(&a, command);
    pthread_mutex_destroy(&a.lock);
    tidei_host_free(NULL, a.jobs);
    return status;
}
