/* validate.c: runs a program under policies, and compares with what the lab says; validate.h has
** the model. */
#include "tools/tide/validate.h"
#include "runtime/base/text.h"
#include "runtime/observe/recorder.h"
#include "tools/tide/crew.h"
#include "tools/tide/study.h"
#include "tools/tide/study_input.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OP        "tide study"
#define FAILED    1
#define BAD_INPUT 2
#define RUNS      3
#define RUNS_MAX  100
#define SEEDS     20
#define TIMED     5    /* runs that tell of times, at most */
#define WAYS_OFF  0.05 /* of the collections; of the overhead: */
#define TIME_OFF  0.2
#define PATH_MAXB 4096

static const char *const policies[] = {"reserve", "cudajl", "never"};
/* Limits to compare at, and at how many times the peak runs tell of the times there (and all of
** them of what arrays add to a pause): how long the program itself takes, and its pauses, depend on
** how much lies about. Without a limit collections begin at several times the peak. */
static const struct {
    const char *text;
    double timed_at;
} limits[] = {{"1.2x", 1.5}, {"2x", 2.5}, {"none", 6}};

/* ---- the program ---- */

/* Handlers reach the child and what came by these. */
static volatile sig_atomic_t child, came;

static void pass_on(int signal) {
    came = signal;
    if (child > 0) kill((pid_t)child, signal);
}

static const int passed[] = {SIGINT, SIGTERM, SIGHUP};

/* One that is ignored, as under nohup, stays so, in the program too. */
static void pass_signals(struct sigaction *before) {
    struct sigaction a = {.sa_handler = pass_on};
    for (size_t i = 0; i < TIDEI_COUNT(passed); i++) {
        sigaction(passed[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(passed[i], &a, NULL);
    }
}

static void stop_passing(const struct sigaction *before) {
    for (size_t i = 0; i < TIDEI_COUNT(passed); i++) sigaction(passed[i], &before[i], NULL);
}

/* In the child: becomes the program, or says through the pipe why not. */
static void become(char **argv, const char *policy, const char *limit, const char *file, int tell) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("TIDE_TRACE", file, 1);
    setenv("TIDE_POLICY", policy, 1);
    limit ? setenv("TIDE_LIMIT", limit, 1) : unsetenv("TIDE_LIMIT");
    if (null >= 0) dup2(null, STDOUT_FILENO);
    execvp(argv[0], argv);
    int error = errno;
    (void)!write(tell, &error, sizeof error);
    _exit(127);
}

/* Runs the program to its end. Its failure is told with how it was run. */
static tide_status run(char **argv, const char *policy, const char *limit, const char *file) {
    int pipe_ends[2], error = 0, status = 0;
    if (came) return TIDE_E_IO;
    if (pipe2(pipe_ends, O_CLOEXEC))
        return tidei_fail(TIDE_E_IO, OP, "no pipe: %s", tidei_errno_text(errno));
    pid_t pid = fork();
    if (!pid) become(argv, policy, limit, file, pipe_ends[1]);
    child = (sig_atomic_t)pid;
    close(pipe_ends[1]);
    if (pid < 0) {
        close(pipe_ends[0]);
        return tidei_fail(TIDE_E_IO, OP, "no process: %s", tidei_errno_text(errno));
    }
    if (came) kill(pid, came); /* before its number was known */
    ssize_t n;
    do n = read(pipe_ends[0], &error, sizeof error);
    while (n < 0 && errno == EINTR);
    close(pipe_ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    child = 0;
    if (n == (ssize_t)sizeof error)
        return tidei_fail(TIDE_E_INVALID, OP, "%s cannot be run: %s", argv[0],
                          tidei_errno_text(error));
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return TIDE_OK;
    return tidei_fail(TIDE_E_INVALID, OP, "%s ends with %s %d under TIDE_POLICY=%s TIDE_LIMIT=%s",
                      argv[0], WIFEXITED(status) ? "status" : "signal",
                      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), policy,
                      limit ? limit : "");
}

/* ---- files ---- */

static void empty(const char *folder) {
    char path[PATH_MAXB + 300];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
}

/* A run, and its recording, which is removed. */
static tide_status record(char **argv, const char *policy, uint64_t limit, const char *folder,
                          tidei_trace *t) {
    char file[PATH_MAXB + 16], bytes[32];
    snprintf(file, sizeof file, "%s/run.csv", folder);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)limit);
    tide_status status = run(argv, policy, limit == TIDEI_NO_LIMIT ? NULL : bytes, file);
    if (status == TIDE_OK && access(file, F_OK))
        status = tidei_fail(TIDE_E_INVALID, OP,
                            "%s recorded nothing: it opens no runtime of this library, or "
                            "does not heed TIDE_TRACE",
                            argv[0]);
    if (status == TIDE_OK) status = tidei_trace_read_timed(file, 0, t);
    empty(folder);
    return status;
}

/* ---- figures ---- */

struct figures {
    double collections, overhead; /* percent */
};

/* Of a run that took so long, and so much of that in collections and climbs. */
static double overhead(double all_ns, double ns) {
    return all_ns > ns ? 100 * ns / (all_ns - ns) : 0;
}

static struct figures measured_in(const tidei_trace *t) {
    double n = 0;
    for (size_t i = 0; i < t->ncollections; i++) n += tidei_study_collected(&t->collections[i]);
    return (struct figures){n, overhead((double)t->run.ns, (double)tidei_study_stood_ns(t))};
}

/* What measured_in would find in such runs: their mean over seeds. */
static tide_status predict(const tidei_lab_program *p, const char *policy, uint64_t limit,
                           struct figures *out) {
    tidei_policy_choice choice = tidei_policy_usual(tidei_policy_find(policy));
    *out = (struct figures){0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tidei_lab_figures f;
        tide_status status = tidei_lab_simulate(
            p,
            &(tidei_lab_options){.policy = &choice, .limit = {limit, TIDEI_NO_LIMIT}, .seed = seed},
            &f);
        if (status != TIDE_OK) return status;
        double ns = (double)f.pause_ns + (double)f.forced * (double)p->model.stall_ns;
        out->collections += (double)f.collections;
        out->overhead += overhead((double)f.ns, ns);
    }
    out->collections /= SEEDS; /* not each: twenty twentieths of x are not always x */
    out->overhead /= SEEDS;
    return TIDE_OK;
}

/* ---- comparing ---- */

struct validation {
    char **argv;
    unsigned runs;
    const char *folder;
    tidei_trace exact; /* of the run under `every` */
    uint64_t peak;     /* of live bytes */
    uint64_t limit[TIDEI_COUNT(limits)];
    tidei_lab_program program;
    bool same;            /* the program takes the same course each time */
    unsigned off, unsure; /* predictions */
};

/* A mean of the runs, and half of its 95 % interval. */
struct mean {
    double of, off;
};

static struct mean mean_of(const double *x, unsigned n) {
    struct mean m = {0};
    double squares = 0;
    for (unsigned i = 0; i < n; i++) m.of += x[i] / n;
    for (unsigned i = 0; i < n; i++) squares += (x[i] - m.of) * (x[i] - m.of);
    if (n > 1) m.off = tidei_study_student(n - 1) * sqrt(squares / (n - 1) / n);
    return m;
}

/* What runs of a policy at a limit were found to take, one by one. */
struct measured {
    double collections[RUNS_MAX], overhead[RUNS_MAX];
};

/* The k-th run. */
static tide_status measure(const struct validation *v, const char *policy, uint64_t limit,
                           unsigned k, struct measured *out) {
    tidei_trace t;
    tide_status status = record(v->argv, policy, limit, v->folder, &t);
    if (status != TIDE_OK) return status;
    struct figures f = measured_in(&t);
    tidei_trace_clear(&t);
    out->collections[k] = f.collections;
    out->overhead[k] = f.overhead;
    return TIDE_OK;
}

typedef enum { HOLDS, UNSURE, OFF } verdict;

/* Of a prediction that may be so far from the mean. */
static verdict judge(double said, struct mean was, double far) {
    double apart = fabs(said - was.of);
    return apart <= far ? HOLDS : apart <= was.off ? UNSURE : OFF;
}

static const char *words_of(verdict number, verdict time) {
    if (number == OFF) return time == OFF ? "both are off" : "collections are off";
    if (time == OFF) return "overhead is off";
    return number == UNSURE || time == UNSURE ? "the runs differ too much" : "holds";
}

static tide_status compare(struct validation *v, const char *policy, uint64_t limit,
                           const struct measured *was) {
    struct figures said;
    struct mean number = mean_of(was->collections, v->runs), time = mean_of(was->overhead, v->runs);
    char text[32] = "none";
    tide_status status = predict(&v->program, policy, limit, &said);
    if (status != TIDE_OK) return status;
    verdict a = judge(said.collections, number, fmax(1, WAYS_OFF * number.of)),
            b = judge(said.overhead, time, TIME_OFF * time.of);
    if (limit != TIDEI_NO_LIMIT) tidei_format_bytes(text, sizeof text, (size_t)limit, 2);
    printf("  %-8s %11s %9.1f %9.1f +- %-7.1f %9.3f %9.3f +- %-7.3f  %s\n", policy, text,
           said.collections, number.of, number.off, said.overhead, time.of, time.off,
           words_of(a, b));
    fflush(stdout);
    v->off += a == OFF || b == OFF;
    v->unsure += a != OFF && b != OFF && (a == UNSURE || b == UNSURE);
    return TIDE_OK;
}

/* ---- learning ---- */

/* And the limits, in bytes. */
static tide_status find_peak(struct validation *v) {
    tidei_lab_program p;
    tide_status status = tidei_study_convert(&v->exact, NULL, 0, 0, v->argv[0], &p, &v->same);
    if (status != TIDE_OK) return status;
    v->peak = p.peak[TIDEI_LAB_DEVICE];
    for (size_t l = 0; l < TIDEI_COUNT(limits); l++) {
        tidei_study_limit asked;
        (void)tidei_study_limit_parse(limits[l].text, &asked);
        v->limit[l] = tidei_study_limit_of(&asked, &p);
    }
    tidei_lab_clear(&p);
    return TIDE_OK;
}

/* The limit of runs that tell of the times: so many times the peak, within the device. */
static uint64_t timed_limit(const struct validation *v, double times) {
    const double total = (double)v->exact.run.total, wanted = times * (double)v->peak;
    return (uint64_t)(total > 0 ? fmin(wanted, total) : wanted);
}

/* v->exact, and what it says by itself. */
static tide_status begin(struct validation *v) {
    tide_status status = record(v->argv, "every", TIDEI_NO_LIMIT, v->folder, &v->exact);
    if (status != TIDE_OK) return status;
    if (!v->exact.blocks)
        return tidei_fail(TIDE_E_INVALID, OP, "%s makes no arrays on a device", v->argv[0]);
    if (v->exact.run.how == TIDEI_DEATHS_FOUND)
        return tidei_fail(TIDE_E_INVALID, OP,
                          "%s does not heed TIDE_POLICY: its deaths are not exact", v->argv[0]);
    return find_peak(v);
}

static void show_program(const struct validation *v) {
    char b[32];
    printf("%s: %zu arrays, peak live %s; %u runs each\n", v->argv[0], v->exact.blocks,
           tidei_format_bytes(b, sizeof b, (size_t)v->peak, 2), v->runs);
    fflush(stdout);
}

static void show_head(void) {
    printf("  %-8s %11s %19s %32s\n", "", "", "collections", "overhead %");
    printf("  %-8s %11s %9s %9s %20s %9s\n", "policy", "limit", "predicted", "measured",
           "predicted", "measured");
}

static void show_times(const struct validation *v, uint64_t limit) {
    const tidei_lab_model *m = &v->program.model;
    const tidei_lab_curve *c = &v->program.pauses[1];
    char b[32];
    printf("  as timed at %s: %.3f s of its own, a climb %.1f us",
           tidei_format_bytes(b, sizeof b, (size_t)limit, 2), (double)v->program.ideal_ns / 1e9,
           (double)m->stall_ns / 1e3);
    for (size_t i = 0; i < c->n; i++)
        printf("%s %.1f us of %llu arrays", i ? "," : "; a collection", (double)c->at[i].ns / 1e3,
               (unsigned long long)c->at[i].arrays);
    printf("\n");
    if (!v->same)
        printf("  its runs make other arrays, or wait at other places: the times are those of the "
               "run under every\n");
}

/* What one round runs: for each limit one that tells of the times, then each policy. */
#define OF_LIMIT (1 + TIDEI_COUNT(policies))
#define ROUND    (TIDEI_COUNT(limits) * OF_LIMIT)
_Static_assert(TIDEI_COUNT(limits) < TIDEI_LAB_CURVE, "each is a point of the curve");

struct runs {
    struct validation *v;
    struct measured was[TIDEI_COUNT(limits)][TIDEI_COUNT(policies)];
    tidei_trace timed[TIDEI_COUNT(limits)][TIMED];
    size_t ntimed[TIDEI_COUNT(limits)];
    tide_status status;
};

/* A run under `never` that tells of the times, at a limit that is not among those compared. */
static tide_status time_it(struct runs *r, size_t l) {
    const struct validation *v = r->v;
    if (r->ntimed[l] == TIMED) return TIDE_OK;
    tide_status status = record(v->argv, "never", timed_limit(v, limits[l].timed_at), v->folder,
                                &r->timed[l][r->ntimed[l]]);
    r->ntimed[l] += status == TIDE_OK;
    return status;
}

static bool run_ith(void *user, size_t i) {
    struct runs *r = user;
    size_t l = i % ROUND / OF_LIMIT, k = i % OF_LIMIT;
    r->status =
        k ? measure(r->v, policies[k - 1], r->v->limit[l], (unsigned)(i / ROUND), &r->was[l][k - 1])
          : time_it(r, l);
    return r->status == TIDE_OK;
}

/* Rounds rather than one kind of run after the other, so that a machine whose pace changes is the
** same for all. */
static tide_status run_all(struct runs *r) {
    tidei_crew crew = {.all = r->v->runs * ROUND,
                       .threads = 1,
                       .op = OP,
                       .jobs = isatty(STDERR_FILENO) ? "runs" : NULL,
                       .run = run_ith,
                       .user = r};
    return tidei_crew_work(&crew) ? TIDE_OK : r->status;
}

/* All policies at a limit, as the runs of its own tell of the times. */
static tide_status compare_at(struct runs *r, size_t l) {
    struct validation *v = r->v;
    tidei_study_runs timed[TIDEI_COUNT(limits)];
    for (size_t k = 0; k < TIDEI_COUNT(limits); k++)
        timed[k] = (tidei_study_runs){r->timed[k], r->ntimed[k]};
    tide_status status = tidei_study_convert(&v->exact, timed, TIDEI_COUNT(limits), l, v->argv[0],
                                             &v->program, &v->same);
    if (status != TIDE_OK) return status;
    show_times(v, timed_limit(v, limits[l].timed_at));
    for (size_t k = 0; status == TIDE_OK && k < TIDEI_COUNT(policies); k++)
        status = compare(v, policies[k], v->limit[l], &r->was[l][k]);
    tidei_lab_clear(&v->program);
    return status;
}

static tide_status compare_all(struct validation *v) {
    struct runs *r = tidei_host_alloc(NULL, sizeof *r);
    if (!r) return tidei_fail_host_memory(OP, sizeof *r);
    *r = (struct runs){.v = v};
    tide_status status = run_all(r);
    if (status == TIDE_OK) show_head();
    for (size_t l = 0; status == TIDE_OK && l < TIDEI_COUNT(limits); l++) status = compare_at(r, l);
    for (size_t l = 0; l < TIDEI_COUNT(limits); l++)
        while (r->ntimed[l]) tidei_trace_clear(&r->timed[l][--r->ntimed[l]]);
    tidei_host_free(NULL, r);
    return status;
}

static tide_status validate(struct validation *v) {
    tide_status status = begin(v);
    if (status == TIDE_OK) show_program(v);
    if (status == TIDE_OK) status = compare_all(v);
    tidei_trace_clear(&v->exact);
    if (status == TIDE_OK && v->unsure)
        printf("of %u predictions the runs differ too much to tell; more of them (--runs) tell "
               "more\n",
               v->unsure);
    if (status == TIDE_OK)
        printf("%u of %zu predictions are off\n", v->off,
               TIDEI_COUNT(limits) * TIDEI_COUNT(policies));
    return status;
}

/* ---- the command ---- */

static int bad(const char *what) {
    fprintf(stderr, OP ": %s: tide study --validate [--runs N] -- PROGRAM ARG...\n", what);
    return BAD_INPUT;
}

/* In a folder of its own, below TMPDIR. */
static tide_status validate_aside(struct validation *v) {
    struct sigaction before[TIDEI_COUNT(passed)];
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAXB];
    int n = snprintf(folder, sizeof folder, "%s/tide_validate_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n >= (int)sizeof folder || !mkdtemp(folder))
        return tidei_fail(TIDE_E_IO, OP, "no folder in %s: %s", tmp && *tmp ? tmp : "/tmp",
                          tidei_errno_text(errno));
    v->folder = folder;
    pass_signals(before);
    tide_status status = validate(v);
    stop_passing(before);
    empty(folder);
    rmdir(folder);
    if (came) raise(came);
    return status;
}

int tidei_validate(int argc, char **argv) {
    struct validation v = {.runs = RUNS};
    int i = 1;
    if (i + 1 < argc && !strcmp(argv[i], "--runs")) {
        const char *at = argv[i + 1];
        uint64_t n;
        if (!tidei_read_digits(&at, &n) || *at || n < 1 || n > RUNS_MAX)
            return bad("--runs wants a number from 1 to 100");
        v.runs = (unsigned)n;
        i += 2;
    }
    if (i >= argc || strcmp(argv[i], "--")) return bad("expected \"--\" before the program");
    if (i + 1 >= argc) return bad("which program?");
    v.argv = &argv[i + 1];
    tide_status status = validate_aside(&v);
    if (status == TIDE_OK) return v.off ? FAILED : 0;
    fprintf(stderr, OP ": %s\n", tide_error_last()->message);
    return status == TIDE_E_INVALID || status == TIDE_E_FORMAT ? BAD_INPUT : FAILED;
}
