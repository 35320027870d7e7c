/* judge.c: one call: its line, what its arguments let expect, and whether the outcome is what all
** functions promise (tide/base.h): a failure has its status in the thread's error record, with a
** message and the name of the operation; what succeeds leaves the record alone; out parameters are
** untouched on failure. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- lines ---- */

const char *say(world *w, const char *format, ...) {
    char *out = w->sayings[w->nsaid++ % SAYINGS];
    va_list ap;
    va_start(ap, format);
    vsnprintf(out, SAYING, format, ap);
    va_end(ap);
    return out;
}

static char *line_of(world *w, unsigned number) { return w->lines[number % LINES]; }

__attribute__((format(printf, 2, 3))) static void outcome(world *w, const char *format, ...) {
    frame *f = w->frame;
    if (w->line - f->line >= LINES) return; /* others have taken its place */
    char *line = line_of(w, f->line);
    size_t n = strlen(line);
    va_list ap;
    va_start(ap, format);
    vsnprintf(line + n, LINE - n, format, ap);
    va_end(ap);
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' ';
    if (w->traced) fprintf(stderr, "%s\n", line);
}

static void show(int fd, const char *text) {
    for (size_t n = strlen(text); n;) {
        ssize_t some = write(fd, text, n);
        if (some <= 0) return;
        text += some;
        n -= (size_t)some;
    }
}

void show_world(const world *w, int fd) {
    unsigned n = w->line < LINES ? w->line : LINES;
    for (unsigned i = w->line - n; i < w->line; i++) {
        show(fd, w->lines[i % LINES]);
        show(fd, "\n");
    }
    show(fd, w->complaint);
}

/* ---- what is wrong ---- */

/* Appends to what is complained of. */
__attribute__((format(printf, 2, 3))) static void complain(world *w, const char *format, ...) {
    size_t n = strlen(w->complaint);
    va_list ap;
    va_start(ap, format);
    vsnprintf(w->complaint + n, sizeof w->complaint - n, format, ap);
    va_end(ap);
}

/* The arrays that the line names, as they are. */
static void describe(world *w, const char *line) {
    for (int i = 0; i < ARRAYS; i++) {
        const array *x = &w->arrays[i];
        const char *at = x->a ? strstr(line, x->name) : NULL;
        size_t n = strlen(x->name);
        if (!at || (at[n] >= '0' && at[n] <= '9')) continue;
        complain(w, "  %s: %s, %d axes %s, device %d, memory %d%s%s%s%s%s%s, refs %u, scope %u\n",
                 x->name, tide_dtype_name(x->dtype), x->ndim, say_dims(w, x->ndim, x->shape),
                 x->device, x->memory, x->dense ? ", dense" : "", x->stretched ? ", stretched" : "",
                 x->freed ? ", freed" : "", x->rt == NOBODY ? ", closed" : "",
                 x->in->frozen ? ", frozen" : "", x->shared ? ", shared" : "", x->refs, x->scope);
    }
}

void broken(world *w, const char *format, ...) {
    char text[2048];
    const frame *f = w->frame;
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    *w->complaint = 0;
    complain(w, "\n%s: %s\n", f ? f->c->name : "between calls", text);
    if (f) complain(w, "%s\n", line_of(w, f->line));
    if (f) describe(w, line_of(w, f->line));
    fflush(stdout);
    abort(); /* whoever catches it shows the world */
}

/* ---- before ---- */

void expect(world *w, tide_status s) {
    w->frame->must_fail = true;
    may(w, s);
}
void may(world *w, tide_status s) { w->frame->allowed |= (uint64_t)1 << s; }

void hold(world *w, unsigned *busy) {
    frame *f = w->frame;
    if (f->nbusy == BUSY) return;
    f->busy[f->nbusy++] = busy;
    ++*busy;
}

/* Mostly there was no error before; else one stands from an earlier call. */
static void set_record(world *w) {
    frame *f = w->frame;
    tide_error_clear();
    if (!f->outer && chance(w, 12) && tide_open(NULL, NULL) == TIDE_OK)
        broken(w, "tide_open takes a NULL");
    f->before = *tide_error_last();
    snprintf(f->before_text, sizeof f->before_text, "%s", f->before.message);
}

void calling(world *w, const char *format, ...) {
    frame *f = w->frame;
    set_record(w);
    f->line = w->line++;
    char *line = line_of(w, f->line);
    int n = snprintf(line, LINE, "%" PRIu64 "%*s ", w->done, 4 * (int)w->depth - 2,
                     f->before.status ? "!" : " ");
    va_list ap;
    va_start(ap, format);
    vsnprintf(line + n, LINE - (size_t)n, format, ap);
    va_end(ap);
    if (w->traced) fprintf(stderr, "%s\n", line);
    f->called = true;
    f->nested = false;
}

/* ---- after ---- */

static bool record_is_as_before(const frame *f) {
    const tide_error *e = tide_error_last();
    return e->status == f->before.status && !strcmp(e->message, f->before_text) &&
           !strcmp(e->operation, f->before.operation);
}

static tally *tally_of(const call *c) {
    for (unsigned i = 0; i < calls_count(); i++)
        if (calls_at(i) == c) return calls_tally(i);
    abort();
}

/* The expectations were of this call. */
static void judged(world *w) {
    frame *f = w->frame;
    f->must_fail = f->null_array = f->bytes = false;
    f->allowed = 0;
    f->subject = NULL;
    f->judged = true;
}

static void judge_success(world *w) {
    frame *f = w->frame;
    if (f->must_fail) broken(w, "gives no failure where it should");
    if (!f->nested && !record_is_as_before(f))
        broken(w, "succeeds, and leaves an error that was not there before: %s: %s",
               tide_error_last()->operation, tide_error_last()->message);
    atomic_fetch_add(&tally_of(f->c)->worked, 1);
    judged(w);
}

#define STATUS(s) ((uint64_t)1 << (s))
static uint64_t usual_failures(unsigned flags) {
    uint64_t usual = STATUS(TIDE_E_INVALID) | STATUS(TIDE_E_SHAPE) | STATUS(TIDE_E_DTYPE) |
                     STATUS(TIDE_E_BOUNDS) | STATUS(TIDE_E_NOMEM) | STATUS(TIDE_E_HOST_NOMEM) |
                     STATUS(TIDE_E_UNSUPPORTED);
    if (flags & MAY_EMPTY) usual |= STATUS(TIDE_E_EMPTY);
    if (flags & MAY_PARSE) usual |= STATUS(TIDE_E_PARSE);
    if (flags & MAY_FILE) usual |= STATUS(TIDE_E_IO) | STATUS(TIDE_E_FORMAT);
    if (flags & MAY_MATRIX) usual |= STATUS(TIDE_E_SINGULAR) | STATUS(TIDE_E_CONVERGENCE);
    if (flags & MAY_NODEVICE) usual |= STATUS(TIDE_E_NODEVICE);
    return usual;
}

/* Strict: no overlong form, no surrogate, nothing beyond U+10FFFF. */
static bool is_utf8(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int more = *p < 0x80                 ? 0
                   : *p >= 0xc2 && *p < 0xe0 ? 1
                   : (*p & 0xf0) == 0xe0     ? 2
                   : *p >= 0xf0 && *p < 0xf5 ? 3
                                             : -1;
        if (more < 0 || (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ||
            (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
            return false;
        for (p++; more > 0; more--, p++)
            if ((*p & 0xc0) != 0x80) return false;
    }
    return true;
}

/* The function's name (tide_map's for tide_map_args), or the text that it was given, of which a
** long one is cut. */
static bool names(const frame *f, const char *operation) {
    size_t n = strlen(operation);
    if (!strncmp(operation, "tide_map", 8) && !strncmp(operation, f->c->name, n) &&
        !strcmp(f->c->name + n, "_args"))
        return true;
    if (!strcmp(operation, f->c->name) || (f->subject && !strcmp(operation, f->subject)))
        return true;
    return f->subject && n > 200 && !strcmp(operation + n - 3, "...") &&
           !strncmp(operation, f->subject, n - 3);
}

/* A NULL array is the outcome of an earlier call: what that said stays, with a line about this
** call. */
static void judge_null(world *w, tide_status s) {
    const frame *f = w->frame;
    const tide_error *e = tide_error_last();
    size_t n = strlen(f->before_text);
    const char *added = e->message + n, *then = "\nthen: ";
    if (!f->before.status) {
        if (s != TIDE_E_INVALID || !strstr(e->message, " is NULL"))
            broken(w, "has a NULL array: %s", e->message);
        if (!names(f, e->operation))
            broken(w, "fails as the operation \"%s\": %s", e->operation, e->message);
        return;
    }
    if (s != f->before.status || strcmp(e->operation, f->before.operation) ||
        strncmp(e->message, f->before_text, n))
        broken(w, "has a NULL array, and does not keep the earlier error: %s", e->message);
    size_t length = strcspn(added + (*added ? strlen(then) : 0), ":");
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)length, added + (*added ? strlen(then) : 0));
    if (strncmp(added, then, strlen(then)) || !strstr(added, " is NULL") || !names(f, name))
        broken(w, "has a NULL array, and does not say so behind the earlier error: %s", e->message);
}

static void judge_failure(world *w, tide_status s) {
    frame *f = w->frame;
    const tide_error *e = tide_error_last();
    if (e->status != s)
        broken(w, "gives %s, but the error record has %s", tide_status_name(s),
               tide_status_name(e->status));
    outcome(w, "; /* %s: %.90s */", tide_status_name(s), e->message);
    atomic_fetch_add(&tally_of(f->c)->failed, 1);
    if (f->null_array) return judge_null(w, s), judged(w);
    if (!((usual_failures(f->c->flags) | f->allowed) >> s & 1))
        broken(w, "fails with %s, which its arguments do not give cause for: %s",
               tide_status_name(s), e->message);
    if (f->c->flags & NEVER_FAILS) broken(w, "fails: %s", e->message);
    if (!*e->message) broken(w, "fails without a message");
    if (strstr(e->message, "tidei_")) broken(w, "names an inner function: %s", e->message);
    if (!f->bytes && !is_utf8(e->message))
        broken(w, "has a message that is no UTF-8: %s", e->message);
    if (!names(f, e->operation))
        broken(w, "fails as the operation \"%s\": %s", e->operation, e->message);
    judged(w);
}

bool gave(world *w, tide_status s) {
    if (s != TIDE_OK && s != TIDE_END) return judge_failure(w, s), false;
    judge_success(w);
    outcome(w, s == TIDE_END ? "; /* TIDE_END */" : ";");
    return true;
}

bool told(world *w, bool failed) {
    if (failed) {
        if (tide_error_last()->status != TIDE_OK)
            return judge_failure(w, tide_error_last()->status), false;
        broken(w, "gives what stands for a failure, and sets no error");
        judged(w);
        return false;
    }
    return gave(w, TIDE_OK);
}

void done(world *w) {
    frame *f = w->frame;
    if (!f->nested && !record_is_as_before(f)) return judge_failure(w, tide_error_last()->status);
    f->must_fail = false;
    if (f->nested) { /* others' errors may stand */
        outcome(w, ";");
        atomic_fetch_add(&tally_of(f->c)->worked, 1);
        return judged(w);
    }
    (void)gave(w, TIDE_OK);
}

/* ---- arrays ---- */

/* No element lies outside the memory that the array holds. */
static bool is_within(tide_array *a) {
    const tidei_header *h = tidei_cell_header(a);
    int64_t lo, hi, size = (int64_t)tide_dtype_size(h->lay.dtype);
    tidei_layout_extent(&h->lay, &lo, &hi);
    return lo == hi || (h->st && lo >= 0 && hi <= (int64_t)(h->st->bytes / (size_t)size));
}

static void look_at_array(world *w, tide_array *a, const runtime *r, unsigned promises) {
    int n = tide_array_ndim(a);
    int64_t size = 1;
    if (tide_array_is_freed(a)) broken(w, "gives an array that is freed");
    if (tide_array_runtime(a) != r->ref) broken(w, "gives an array of another runtime");
    if (tide_dtype_size(tide_array_dtype(a)) == 0)
        broken(w, "gives an array of dtype %d", tide_array_dtype(a));
    if (n < 0 || n > TIDE_MAX_RANK) broken(w, "gives an array of rank %d", n);
    for (int i = 0; i < n; i++) {
        if (tide_array_dim(a, i) < 0)
            broken(w, "gives an array whose axis %d has %" PRId64, i, tide_array_dim(a, i));
        size = tide_array_dim(a, i) == 0 ? 0 : size * tide_array_dim(a, i);
    }
    for (int i = 0; i < n; i++)
        if (tide_array_dim(a, i) == 0) size = 0;
    if (tide_array_size(a) != size)
        broken(w, "gives an array of size %" PRId64 ", not %" PRId64, tide_array_size(a), size);
    if (promises & ROW_MAJOR && !tide_array_is_contiguous(a))
        broken(w, "gives an array that is not row-major");
    if (!is_within(a)) broken(w, "gives an array that reaches beyond its memory");
}

static array *enter_array(world *w, tide_array *a, const array *of, unsigned promises) {
    int rt = of && of->rt != NOBODY ? of->rt : w->frame->rt;
    look_at_array(w, a, &w->runtimes[rt], promises);
    array *x = world_add(w, a, rt, of);
    outcome(w, "; /* %s: %s %s */", x->name, tide_dtype_name(x->dtype),
            say_dims(w, x->ndim, x->shape));
    return x;
}

array *made(world *w, tide_array *a, const array *of, unsigned promises) {
    if (!a) {
        (void)told(w, true);
        return NULL;
    }
    judge_success(w);
    if (promises & SAME) {
        if (a != of->a) broken(w, "gives another array");
        outcome(w, ";");
        return NULL;
    }
    return enter_array(w, a, of, promises);
}

array *made_beside(world *w, tide_array *a, const array *of, unsigned promises) {
    return a ? enter_array(w, a, of, promises) : NULL;
}

/* ---- out parameters ---- */

#define MARK 0x5a
void mark(void *p, size_t bytes) { memset(p, MARK, bytes); }
void marked(world *w, const void *p, size_t bytes) {
    const unsigned char *b = p;
    for (size_t i = 0; i < bytes; i++)
        if (b[i] != MARK) broken(w, "fails, and has written to an out parameter");
}

/* ---- the rows ---- */

static const call *const tables[] = {runtime_calls, array_calls, compute_calls, data_calls,
                                     memory_calls,  scan_calls,  order_calls,   index_calls,
                                     shape_calls,   graph_calls};
static const call *rows[512];
static tally tallies[TIDEI_COUNT(rows)];
static unsigned nrows;

void calls_begin(void) {
    if (nrows) return;
    for (unsigned t = 0; t < TIDEI_COUNT(tables); t++)
        for (const call *c = tables[t]; c->name; c++) rows[nrows++] = c;
}
unsigned calls_count(void) { return nrows; }
const call *calls_at(unsigned i) { return rows[i]; }
tally *calls_tally(unsigned i) { return &tallies[i]; }

/* ---- running ---- */

static int some_runtime(world *w) {
    unsigned from = chance(w, 50) ? 0 : below(w, RUNTIMES);
    for (unsigned i = 0; i < RUNTIMES; i++)
        if (w->runtimes[(from + i) % RUNTIMES].ref) return (int)((from + i) % RUNTIMES);
    return NOBODY;
}

void run_call(world *w, const call *c, int rt) {
    frame f = {.c = c, .outer = w->frame, .rt = rt};
    if (rt == NOBODY) f.rt = some_runtime(w);
    w->frame = &f;
    w->depth++;
    c->run(w);
    if (!f.judged) broken(w, "was not called, or not judged");
    for (unsigned i = 0; i < f.nbusy; i++) --*f.busy[i];
    w->depth--;
    w->frame = f.outer;
    if (f.outer) f.outer->nested = true;
}

void run_named(world *w, const char *name, int rt) {
    for (unsigned i = 0; i < calls_count(); i++)
        if (!strcmp(rows[i]->name, name)) return run_call(w, rows[i], rt);
    broken(w, "there is no row %s", name);
}

void wander(world *w, int rt, unsigned among) {
    if (w->depth > 3 || rt == NOBODY || !w->runtimes[rt].ref || w->runtimes[rt].opening) return;
    if (w->runtimes[rt].closing) among = ENDS;
    unsigned never = OUTSIDE | ALONE | (w->alone ? 0 : WAITS);
    w->dropping += among != 0;
    for (unsigned n = below(w, 3); n; n--) {
        const call *c = rows[below(w, calls_count())];
        while (among ? !(c->flags & among) : c->flags & never) c = rows[below(w, calls_count())];
        run_call(w, c, rt);
    }
    w->dropping -= among != 0;
}
