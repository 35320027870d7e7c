/* study_sweep.c: reading the policies of a study. */
#include "tools/tide/study_sweep.h"
#include "gc/params.h"
#include "runtime/base/text.h"
#include "tools/tide/child.h"
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WHY       1024 /* bytes of an error */
#define PATIENCE  60   /* seconds, for a file to be opened */
#define TEXT_MOST 1000 /* bytes of a policy's name with its parameters */
#define NEARLY    1e-3 /* of a step */
#define FIGURES   3
#define ROUNDING  4 /* units in the last place */

#define DIGITS_LEAST 6
#define DIGITS_MOST  17 /* tell any two doubles apart */
#define FIGURE_TEXT  32 /* bytes */

/* The place of FROM:TO:STEP in a text. */
struct range {
    const char *begin, *end;
    double at[FIGURES];
    char unit[8];
};

/* What a policy's text stands for, and what is wrong with it. */
struct chosen {
    const char *text;
    tidei_policy_choice choice;
    bool good;
    char why[WHY];
};

static void choose(void *p) {
    struct chosen *x = p;
    x->good = tidei_policy_choose(x->text, &x->choice, x->why, sizeof x->why);
}

/* A shared object runs code as it is opened: first where it can do no harm. */
static void try_apart(struct chosen *x) {
    char end[TIDEI_CHILD_TEXT];
    tidei_child_end e = tidei_child_run(choose, x, sizeof *x, PATIENCE);
    x->good = e.how == TIDEI_CHILD_DONE && x->good;
    if (e.how != TIDEI_CHILD_DONE)
        tidei_format(x->why, sizeof x->why, "%s %s as it was opened", x->text,
                     tidei_child_text(&e, end, sizeof end));
}

/* Then in this process too; what it prints is not ours, here as there. */
static void choose_silently(struct chosen *x) {
    fflush(stdout);
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const bool closed = kept < 0 && errno == EBADF;
    int null = kept >= 0 || closed ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0) dup2(null, STDOUT_FILENO);
    choose(x);
    fflush(stdout);
    if (null > STDERR_FILENO) close(null);
    if (closed) close(STDOUT_FILENO); /* as it was */
    if (kept < 0) return;
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

static bool choose_policy(const char *text, tidei_policy_choice *out, char *why, size_t cap) {
    struct chosen x = {.text = text, .good = true};
    bool is_file = strchr(text, '/');
    if (is_file) try_apart(&x);
    if (x.good && is_file)
        choose_silently(&x);
    else if (x.good)
        choose(&x);
    if (!x.good) tidei_format(why, cap, "%s", x.why);
    *out = x.choice;
    return x.good;
}

static bool add(tidei_study_sweep_list *l, const char *text, char *why, size_t cap) {
    tidei_study_policy *p = &l->at[l->n];
    if (l->n == TIDEI_STUDY_POLICIES) {
        tidei_format(why, cap, "at most %d policies", TIDEI_STUDY_POLICIES);
        return false;
    }
    *p = (tidei_study_policy){.oracle = !strcmp(text, TIDEI_STUDY_ORACLE)};
    if (!p->oracle && !choose_policy(text, &p->choice, why, cap)) return false;
    if (!(p->text = tidei_format_new("%s", text))) {
        tidei_format(why, cap, "host memory is exhausted");
        return false;
    }
    l->n++;
    return true;
}

/* One of the three, with its unit; the first one's is the others' too. */
static const char *read_figure(struct range *r, int i, const char *at) {
    char token[TEXT_MOST + 1], *end;
    size_t n = strcspn(at, ":,) ");
    memcpy(token, at, n);
    token[n] = 0;
    if (!tidei_is_digit(*token) && *token != '.') return NULL;
    r->at[i] = tidei_parse_double(token, &end);
    if (strlen(end) >= sizeof r->unit || (i && strcmp(end, r->unit) != 0)) return NULL;
    tidei_format(r->unit, sizeof r->unit, "%s", end);
    return at + n;
}

/* The first colon of a range; a file's name may have some of its own. */
static const char *colon_of(const char *text) {
    return strchr(strchr(text, '/') ? text + strcspn(text, "(") : text, ':');
}

/* False: it is no range. The text has a colon. */
static bool read_range(struct range *r, const char *text) {
    const char *at = colon_of(text);
    while (at > text && at[-1] != '=' && at[-1] != '(' && at[-1] != ',' && at[-1] != ' ') at--;
    r->begin = at;
    for (int i = 0; i < FIGURES; i++) {
        at = read_figure(r, i, at);
        if (!at || (i + 1 < FIGURES && *at++ != ':')) return false;
    }
    r->end = at;
    return *at != ':' && r->at[0] <= r->at[1] && r->at[2] > 0;
}

/* The fewest digits, from six on, that say which it is: what steps add up to differs from what was
** meant by a few units in the last place of the range's end. */
static void show_figure(char *buf, size_t cap, double v, double end) {
    char *rest;
    int digits = DIGITS_LEAST;
    do tidei_format(buf, cap, "%.*g", digits, v);
    while (++digits <= DIGITS_MOST &&
           fabs(tidei_parse_double(buf, &rest) - v) > ROUNDING * DBL_EPSILON * end);
}

bool tidei_study_sweep(tidei_study_sweep_list *l, const char *text, char *why, size_t cap) {
    struct range r;
    char one[TEXT_MOST + 1], figure[FIGURE_TEXT];
    if (strlen(text) > TEXT_MOST) {
        tidei_format(why, cap, "a policy's text is too long");
        return false;
    }
    if (!colon_of(text)) return add(l, text, why, cap);
    if (!read_range(&r, text)) {
        tidei_params_wrong(text, r.begin, "FROM:TO:STEP of one unit, such as 0.1:0.9:0.2", why,
                           cap);
        return false;
    }
    for (double i = 0, v = r.at[0]; v <= r.at[1] + NEARLY * r.at[2]; v = r.at[0] + ++i * r.at[2]) {
        show_figure(figure, sizeof figure, v, r.at[1]);
        tidei_format(one, sizeof one, "%.*s%s%s%s", (int)(r.begin - text), text, figure, r.unit,
                     r.end);
        if (!tidei_study_sweep(l, one, why, cap)) return false;
    }
    return true;
}

void tidei_study_sweep_clear(tidei_study_sweep_list *l) {
    while (l->n) free((char *)(uintptr_t)l->at[--l->n].text);
}
