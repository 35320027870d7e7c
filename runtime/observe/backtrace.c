/* backtrace.c: reading the stack, what the loader knows of an address, and a backtrace as lines of
** text. The model stands in backtrace.h. */
#include "runtime/observe/backtrace.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>

#define SHOWN          16 /* places of a backtrace as text */
#define LINE_MAX_BYTES 1200

/* Not inlined: its own frame is the one that is left out. */
__attribute__((noinline)) unsigned tidei_backtrace(void *at[TIDEI_FRAMES]) {
    void *all[TIDEI_FRAMES + 1];
    int n = backtrace(all, TIDEI_FRAMES + 1);
    if (n <= 1) return 0;
    memcpy(at, all + 1, (size_t)(n - 1) * sizeof *at);
    return (unsigned)(n - 1);
}

void tidei_backtrace_prepare(void) {
    TIDEI_UNCANCELLED; /* the first backtrace of a process opens a library */
    void *at[1];
    (void)backtrace(at, 1);
}

tidei_code_place tidei_code_place_by_loader(const void *at) {
    /* within the call: a call may be its function's last instruction */
    const char *address = (const char *)at - 1;
    tidei_code_place p = {.offset = (uintptr_t)address};
    Dl_info info;
    if (!dladdr(address, &info)) return p;
    const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    p.function = info.dli_sname;
    p.module = slash ? slash + 1 : info.dli_fname;
    p.offset = (uintptr_t)(address - (const char *)info.dli_fbase);
    return p;
}

/* ---- as text ---- */

struct placing {
    tidei_say_fn *say;
    void *user;
    char root[400];            /* of our source files, as the debug information has them */
    unsigned at, from, shown;  /* places so far; the first one to show; shown */
    bool known, called, ended; /* called: the last of ours was one that programs call */
};

static bool starts_with(const char *text, const char *start) {
    return text && !strncmp(text, start, strlen(start));
}

static bool is_ours(const struct placing *x, const tidei_code_place *p) {
    static const char *const folders[] = {"runtime/", "arrays/", "gc/", "libs/"};
    if (!p->file)
        return starts_with(p->function, "tide") || starts_with(p->module, "libtidepool.so");
    if (!x->known || !starts_with(p->file, x->root)) return false;
    for (size_t i = 0; i < TIDEI_COUNT(folders); i++)
        if (starts_with(p->file + strlen(x->root), folders[i])) return true;
    return false;
}

/* The first places of all are these files'. */
static void find_root(struct placing *x, const tidei_code_place *p) {
    static const char *const own[] = {"runtime/observe/tracker.c", "runtime/observe/backtrace.c"};
    size_t n = p->file ? strlen(p->file) : 0;
    for (size_t i = 0; i < TIDEI_COUNT(own) && !x->known; i++) {
        size_t m = strlen(own[i]);
        if (n < m || strcmp(p->file + n - m, own[i]) || n - m >= sizeof x->root) continue;
        memcpy(x->root, p->file, n - m);
        x->known = true;
    }
}

/* Ours come first. The one that the program called is the first of interest; where it left no
** frame, who called it. */
static bool look_for_caller(void *user, const tidei_code_place *p) {
    struct placing *x = user;
    if (!x->known) find_root(x, p);
    if (is_ours(x, p)) {
        x->called = starts_with(p->function, "tide_");
        x->from = x->called ? x->at : x->at + 1;
    } else if (p->file || x->called) {
        return !(x->ended = true);
    }
    x->at++;
    return true;
}

static bool say_place(void *user, const tidei_code_place *p) {
    struct placing *x = user;
    char line[LINE_MAX_BYTES];
    if (x->at++ < x->from) return true;
    if (p->file)
        tidei_format(line, sizeof line, "      %.200s (%.900s:%d%s)",
                     p->function ? p->function : "?", p->file, p->line,
                     p->inlined ? ", inlined" : "");
    else
        tidei_format(line, sizeof line, "      %.200s (%.900s+0x%" PRIxPTR ")",
                     p->function ? p->function : "?", p->module ? p->module : "?", p->offset);
    x->say(x->user, line);
    x->ended = ++x->shown == SHOWN || (p->function && !strcmp(p->function, "main"));
    return !x->ended;
}

void tidei_backtrace_say(void *const *at, unsigned n, tidei_names *names, tidei_say_fn *say,
                         void *user) {
    struct placing x = {.say = say, .user = user};
    if (!n) {
        say(user, "      (where is not known)");
        return;
    }
    for (unsigned i = 0; i < n && !x.ended; i++) tidei_names_of(names, at[i], look_for_caller, &x);
    x.at = 0;
    x.ended = false;
    for (unsigned i = 0; i < n && !x.ended; i++) tidei_names_of(names, at[i], say_place, &x);
}
