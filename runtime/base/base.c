/* base.c: errors, host memory, time, byte counts in text. Model: the error record is the thread's
** own; the message is composed once, where the error is born. Its text is the thread's too, but not
** thread-local data: a library whose data are as quick to reach as ours can be opened late (dlopen)
** only if they are few hundred bytes. */
#include "runtime/base/callback.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

#define MESSAGE_MAX TIDEI_MESSAGE_MAX

TIDEI_FAST_TLS tide_error tidei_error_record = {TIDE_OK, "", ""};

static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static pthread_key_t texts; /* a thread's text; freed as it ends */
static bool texts_made;

static void text_ends(void *text) {
    tide_error_clear(); /* it may be in there */
    free(text);
}

static void make_texts(void) { texts_made = pthread_key_create(&texts, text_ends) == 0; }

/* The calling thread's, of at least *room bytes; a short one where there is no memory for it. */
static char *text_here(size_t *room) {
    static _Thread_local char brief[96];
    pthread_once(&texts_once, make_texts);
    char *text = texts_made ? pthread_getspecific(texts) : NULL;
    *room = MESSAGE_MAX;
    if (tidei_likely(text != NULL)) return text;
    text = texts_made ? malloc(MESSAGE_MAX) : NULL;
    if (text && pthread_setspecific(texts, text) == 0) return text;
    free(text);
    *room = sizeof brief;
    return brief;
}

const tide_error *tide_error_last(void) { return &tidei_error_record; }

void tide_error_clear(void) { tidei_error_record = (tide_error){TIDE_OK, "", ""}; }

tide_status tidei_fail_as(const char *op) {
    tidei_error_record.operation = op;
    return tidei_error_record.status;
}

tide_status tidei_fail(tide_status s, const char *op, const char *fmt, ...) {
    char text[MESSAGE_MAX]; /* composed aside: the arguments may point into the old message */
    va_list ap;
    va_start(ap, fmt);
    tidei_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t room, n = strlen(text);
    char *kept = text_here(&room);
    if (n >= room) n = room - 1;
    memcpy(kept, text, n);
    kept[n] = 0;
    tidei_error_record = (tide_error){s, kept, op ? op : ""};
    return s;
}

#define THEN      "\nthen: "
#define THEN_ROOM 256 /* bytes of a long message that give way to it */

tide_status tidei_fail_null(const char *op, const char *what) {
    const tide_error e = tidei_error_record;
    if (e.status == TIDE_OK) return tidei_fail(TIDE_E_INVALID, op, "%s is NULL", what);
    if (strstr(e.message, THEN)) return e.status;
    return tidei_fail(e.status, e.operation, "%.*s" THEN "%s: %s is NULL", MESSAGE_MAX - THEN_ROOM,
                      e.message, op, what);
}

tide_status tidei_switch(int on, const char *op) {
    if (on == 0 || on == 1) return TIDE_OK;
    return tidei_fail(TIDE_E_INVALID, op, "`on` is %d; wanted: 0 or 1", on);
}

tide_status tidei_fail_host_memory(const char *op, size_t bytes) {
    return tidei_fail(TIDE_E_HOST_NOMEM, op, "host memory is exhausted: %zu bytes were wanted",
                      bytes);
}

void tidei_error_save_text(tidei_saved_error *e) {
    size_t n = strnlen(tidei_error_record.message, sizeof e->text - 1);
    e->operation = tidei_error_record.operation;
    memcpy(e->text, tidei_error_record.message, n);
    e->text[n] = 0;
}

void tidei_error_restore(const tidei_saved_error *e) {
    if (e->status == TIDE_OK)
        tide_error_clear();
    else
        tidei_fail(e->status, e->operation, "%s", e->text);
}

const char *tide_status_name(tide_status s) {
    static const struct {
        tide_status status;
        const char *name;
    } names[] = {
        {TIDE_OK, "TIDE_OK"},
        {TIDE_E_INVALID, "TIDE_E_INVALID"},
        {TIDE_E_SHAPE, "TIDE_E_SHAPE"},
        {TIDE_E_DTYPE, "TIDE_E_DTYPE"},
        {TIDE_E_BOUNDS, "TIDE_E_BOUNDS"},
        {TIDE_E_EMPTY, "TIDE_E_EMPTY"},
        {TIDE_E_FREED, "TIDE_E_FREED"},
        {TIDE_E_PARSE, "TIDE_E_PARSE"},
        {TIDE_E_FORMAT, "TIDE_E_FORMAT"},
        {TIDE_E_SINGULAR, "TIDE_E_SINGULAR"},
        {TIDE_E_CONVERGENCE, "TIDE_E_CONVERGENCE"},
        {TIDE_E_NOMEM, "TIDE_E_NOMEM"},
        {TIDE_E_HOST_NOMEM, "TIDE_E_HOST_NOMEM"},
        {TIDE_E_DEVICE, "TIDE_E_DEVICE"},
        {TIDE_E_LOST, "TIDE_E_LOST"},
        {TIDE_E_NODEVICE, "TIDE_E_NODEVICE"},
        {TIDE_E_UNSUPPORTED, "TIDE_E_UNSUPPORTED"},
        {TIDE_E_IO, "TIDE_E_IO"},
        {TIDE_E_FORKED, "TIDE_E_FORKED"},
        {TIDE_E_CLOSED, "TIDE_E_CLOSED"},
        {TIDE_END, "TIDE_END"},
    };
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        if (names[i].status == s) return names[i].name;
    return "TIDE_E_?";
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const char *tide_version(void) {
    return TEXT(TIDE_VERSION_MAJOR) "." TEXT(TIDE_VERSION_MINOR) "." TEXT(TIDE_VERSION_PATCH);
}

uint64_t tidei_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *tidei_host_take(tidei_runtime *rt, size_t bytes) {
    if (tidei_likely(!rt || !rt->host.alloc)) return malloc(bytes);
    TIDEI_UNCANCELLED;
    return rt->host.alloc(rt->host.user, bytes);
}

void *tidei_host_alloc(tidei_runtime *rt, size_t bytes) {
    if (!bytes) bytes = 1;
    /* malloc and memset: glibc's calloc passes the thread's cache by and costs 250 instructions
    ** more. */
    void *p = tidei_host_take(rt, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void tidei_host_free(tidei_runtime *rt, void *p) {
    if (!p) return;
    if (tidei_likely(!rt || !rt->host.free)) {
        free(p);
        return;
    }
    TIDEI_UNCANCELLED;
    rt->host.free(rt->host.user, p);
}

bool tidei_log_wants(tidei_runtime *rt, int level) {
    return rt && rt->log && level <= rt->set.log_level;
}

void tidei_log(tidei_runtime *rt, int level, const char *fmt, ...) {
    if (!tidei_log_wants(rt, level)) return;
    char line[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    tidei_vformat(line, sizeof line, fmt, ap);
    va_end(ap);
    TIDEI_UNCANCELLED;
    tidei_callback in = {.t = NULL};
    if (rt->set.log) tidei_callback_begin(&in, rt, TIDEI_IN_LOG, NULL); /* a program's */
    rt->log(rt->log_user, level, line);
    tidei_callback_end(&in);
}

const char *tidei_format_bytes(char *buf, size_t cap, size_t bytes, int digits) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < TIDEI_KIB) {
        tidei_format(buf, cap, "%zu bytes", bytes);
        return buf;
    }
    double v = (double)bytes / 1024;
    size_t u = 0;
    /* 1023.9996 KiB with three digits would read "1024.000 KiB": what rounds to 1024 takes the next
    ** unit. */
    for (double half = 0.5 * pow(10, -digits); v + half >= 1024 && u + 1 < TIDEI_COUNT(units); u++)
        v /= 1024;
    tidei_format(buf, cap, "%.*f %s", digits, v, units[u]);
    return buf;
}

/* The factor of a unit suffix; 0 if there is none such. Decimal for "MB", binary for "M" and
** "MiB". */
static double unit_factor(const char *unit) {
    static const char letters[] = "KMGTPE";
    if (!*unit || tidei_same_word(unit, "b")) return 1;
    for (int i = 0; letters[i]; i++) {
        if ((unit[0] & ~32) != letters[i]) continue;
        if (!unit[1] || tidei_same_word(unit + 1, "ib")) return pow(1024, i + 1);
        if (tidei_same_word(unit + 1, "b")) return pow(1000, i + 1);
    }
    return 0;
}

bool tidei_parse_bytes(const char *text, size_t whole, size_t *out) {
    while (*text == ' ') text++;
    if (!tidei_is_digit(*text)) return false; /* also keeps out strtod's "inf", "nan", signs */
    if (text[0] == '0' && (text[1] | 32) == 'x') return false;
    const char *digits = text;
    uint64_t exact;
    if (tidei_read_digits(&digits, &exact) && !*digits &&
        exact != UINT64_MAX) { /* plain bytes keep all their digits */
        *out = (size_t)exact;
        return true;
    }
    char *end;
    double v = tidei_parse_double(text, &end);
    while (*end == ' ') end++;
    double factor = unit_factor(end);
    if (!strcmp(end, "%")) {
        if (!whole || v > 100) return false;
        factor = (double)whole / 100;
    }
    if (factor == 0 || !(v * factor < 0x1p63)) return false;
    *out = (size_t)(v * factor);
    return true;
}
