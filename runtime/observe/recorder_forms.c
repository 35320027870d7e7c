/* recorder_forms.c: the forms of recorded files: CSV, which `tide replay` plays, and JSON, which
** Perfetto shows.
**
** Rows are written by hand rather than by printf: they are most of what recording costs.
** docs/tracing.md describes both.
** What must stay true: the JSON is an array of objects, one a line, that lacks nothing but its
** closing bracket at any time; the times of a track rise; begins and ends of a thread's track
** match, since spans nest. */
#include "runtime/base/settings.h"
#include "runtime/observe/recorder.h"

/* ---- text ---- */

/* In line everywhere: so the compiler knows how long most texts are. */
__attribute__((always_inline)) static inline void put(tidei_rows *x, const char *text) {
    size_t n = strlen(text);
    memcpy(x->at, text, n);
    x->at += n;
}

/* Two digits at a time, from the last on. */
static void put_number(tidei_rows *x, uint64_t v) {
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    char digits[20];
    unsigned at = sizeof digits;
    for (; v >= 100; v /= 100) memcpy(&digits[at -= 2], &pairs[v % 100 * 2], 2);
    if (v >= 10)
        memcpy(&digits[at -= 2], &pairs[v * 2], 2);
    else
        digits[--at] = (char)('0' + v);
    memcpy(x->at, &digits[at], sizeof digits - at);
    x->at += sizeof digits - at;
}

#define NAME_BYTES 100 /* of a name; longer ones are cut off */

/* Within quotes. What is no plain character shows as '?'. */
static void put_name(tidei_rows *x, const char *name) {
    *x->at++ = '"';
    for (unsigned i = 0; i < NAME_BYTES && name[i]; i++) {
        if (name[i] == '"' || name[i] == '\\') *x->at++ = '\\';
        *x->at++ = name[i];
        if (name[i] < ' ' || name[i] > '~') x->at[-1] = '?';
    }
    *x->at++ = '"';
}

/* ---- CSV ---- */

#define CSV_BEGINS "op,id,bytes,stream,time_us\n"
static void csv_head(tidei_rows *x) { put(x, CSV_BEGINS); }

static void csv_put(tidei_rows *x, char op, uint64_t id, uint64_t bytes, unsigned stream,
                    uint64_t ns) {
    *x->at++ = op;
    *x->at++ = ',';
    put_number(x, id);
    *x->at++ = ',';
    put_number(x, bytes);
    *x->at++ = ',';
    put_number(x, stream);
    *x->at++ = ',';
    put_number(x, ns / 1000);
    *x->at++ = '\n';
}

/* A capital letter where it begins, a small one where it ends. A climb is the rung 0. */
static void csv_span(tidei_rows *x, const tidei_record *r) {
    bool begins = r->kind == TIDEI_RECORD_BEGIN;
    switch ((tidei_span_kind)r->span) {
    case TIDEI_SPAN_COLLECTION: csv_put(x, begins ? 'C' : 'c', r->a, r->b, 0, r->ns); break;
    case TIDEI_SPAN_CLIMB: csv_put(x, begins ? 'R' : 'r', 0, r->b, 0, r->ns); break;
    case TIDEI_SPAN_RUNG: csv_put(x, begins ? 'R' : 'r', r->a, r->b, 0, r->ns); break;
    case TIDEI_SPAN_WAIT:
        csv_put(x, begins ? 'W' : 'w', r->thread, 0, (unsigned)r->a, r->ns);
        break;
    }
}

static void csv_row(tidei_rows *x, const tidei_record *r) {
    switch ((tidei_record_kind)r->kind) {
    case TIDEI_RECORD_ALLOC: csv_put(x, 'a', r->a, r->b, r->stream, r->ns); break;
    case TIDEI_RECORD_FREE: csv_put(x, 'f', r->a, r->b, r->stream, r->ns); break;
    case TIDEI_RECORD_SYNC: csv_put(x, 's', 0, 0, r->stream, r->ns); break;
    case TIDEI_RECORD_FOLLOW: csv_put(x, 'd', r->a, 0, r->stream, r->ns); break;
    case TIDEI_RECORD_BEGIN:
    case TIDEI_RECORD_END: csv_span(x, r); break;
    case TIDEI_RECORD_USED: csv_put(x, 'u', r->a, r->b / 1000, r->stream, r->ns); break;
    case TIDEI_RECORD_DIED: csv_put(x, 'x', r->a, r->b / 1000, r->stream, r->ns); break;
    case TIDEI_RECORD_DEATHS: csv_put(x, 'v', r->a, r->b, 0, r->ns); break;
    case TIDEI_RECORD_GROWTH: csv_put(x, 'g', r->a, r->b, r->stream, r->ns); break;
    case TIDEI_RECORD_PAGES: csv_put(x, 'p', r->a, r->b, r->stream, r->ns); break;
    case TIDEI_RECORD_QUEUE: csv_put(x, 'q', r->a, r->b, r->stream, r->ns); break;
    case TIDEI_RECORD_HEAP: csv_put(x, 'h', r->a, r->b, 0, r->ns); break;
    case TIDEI_RECORD_SUBMIT:
    case TIDEI_RECORD_KINDS: break;
    }
}

static void csv_foot(tidei_rows *x) { (void)x; }

/* ---- JSON ---- Streams are the threads of process 1, slot 0 as number 1, since 0 is the idle one
** to Perfetto; the host's threads are those of process 2; counters belong to process 3. */

enum { STREAMS = 1, THREADS = 2, MEMORY = 3 };

static void open_object(tidei_rows *x, char phase, unsigned process, uint64_t track) {
    if (x->any) put(x, ",\n");
    x->any = true;
    put(x, "{\"ph\":\"");
    *x->at++ = phase;
    put(x, "\",\"pid\":");
    *x->at++ = (char)('0' + process);
    put(x, ",\"tid\":");
    put_number(x, track);
}

/* Microseconds with the nanoseconds behind the point. */
static void put_time(tidei_rows *x, const char *key, uint64_t ns) {
    unsigned rest = (unsigned)(ns % 1000);
    put(x, key);
    put_number(x, ns / 1000);
    *x->at++ = '.';
    *x->at++ = (char)('0' + rest / 100);
    *x->at++ = (char)('0' + rest / 10 % 10);
    *x->at++ = (char)('0' + rest % 10);
}

/* `what` is whose name it is: thread_name, process_name. */
static void name_track(tidei_rows *x, const char *what, unsigned process, uint64_t track,
                       const char *name) {
    open_object(x, 'M', process, track);
    put(x, ",\"name\":\"");
    put(x, what);
    put(x, "\",\"args\":{\"name\":");
    put_name(x, name);
    put(x, "}}");
}

static void name_numbered(tidei_rows *x, unsigned process, uint64_t track, const char *name,
                          uint64_t number) {
    tidei_rows text = {0};
    char buf[40];
    text.at = buf;
    put(&text, name);
    put_number(&text, number);
    *text.at = 0;
    name_track(x, "thread_name", process, track, buf);
}

static void need_stream(tidei_rows *x, unsigned stream) {
    uint64_t bit = (uint64_t)1 << stream % 64;
    if (x->streams_named[stream / 64] & bit) return;
    x->streams_named[stream / 64] |= bit;
    name_numbered(x, STREAMS, stream + 1, "stream ", stream);
}

static void need_thread(tidei_rows *x, uint32_t thread) {
    for (unsigned i = 0; i < x->threads; i++)
        if (x->threads_named[i] == thread) return;
    if (x->threads == TIDEI_THREADS_NAMED) return;
    x->threads_named[x->threads++] = thread;
    name_numbered(x, THREADS, thread, "thread ", thread);
}

/* json_head's first */
#define JSON_BEGINS "[\n{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"process_name\""

static void json_head(tidei_rows *x) {
    put(x, "[\n");
    name_track(x, "process_name", STREAMS, 1, x->device);
    name_track(x, "process_name", THREADS, 1, "host threads");
    name_track(x, "process_name", MEMORY, 1, "memory");
}

static void json_counter(tidei_rows *x, const char *name, uint64_t bytes, uint64_t ns) {
    open_object(x, 'C', MEMORY, 1);
    put_time(x, ",\"ts\":", ns);
    put(x, ",\"name\":\"");
    put(x, name);
    put(x, "\",\"args\":{\"bytes\":");
    put_number(x, bytes);
    put(x, "}}");
}

static void json_backed(tidei_rows *x, const tidei_record *r) {
    if (r->backed == x->backed) return;
    x->backed = r->backed;
    json_counter(x, "backed", x->backed, r->ns);
}

static void json_submit(tidei_rows *x, const tidei_record *r) {
    need_stream(x, r->stream);
    open_object(x, 'X', STREAMS, r->stream + 1u);
    put_time(x, ",\"ts\":", r->a);
    put_time(x, ",\"dur\":", r->ns - r->a);
    put(x, ",\"name\":");
    put_name(x, r->name);
    *x->at++ = '}';
}

/* A moment on the calling thread's track. */
static void json_moment(tidei_rows *x, const tidei_record *r, const char *name) {
    need_thread(x, r->thread);
    open_object(x, 'i', THREADS, r->thread);
    put_time(x, ",\"ts\":", r->ns);
    put(x, ",\"s\":\"t\",\"name\":\"");
    put(x, name);
    put(x, "\",\"args\":{\"stream\":");
    put_number(x, r->stream);
    if (r->kind == TIDEI_RECORD_FOLLOW) {
        put(x, ",\"for\":");
        put_number(x, r->a);
    }
    put(x, "}}");
}

static void json_span(tidei_rows *x, const tidei_record *r) {
    bool begins = r->kind == TIDEI_RECORD_BEGIN, waits = r->span == TIDEI_SPAN_WAIT;
    need_thread(x, r->thread);
    open_object(x, begins ? 'B' : 'E', THREADS, r->thread);
    put_time(x, ",\"ts\":", r->ns);
    put(x, ",\"name\":");
    put_name(x, r->name);
    put(x, waits    ? ",\"args\":{\"stream\":"
           : begins ? ",\"args\":{\"wanted\":"
                    : ",\"args\":{\"given\":");
    put_number(x, waits ? r->a : r->b);
    if (begins && r->why) {
        put(x, ",\"why\":");
        put_name(x, r->why);
    }
    put(x, "}}");
}

static void json_row(tidei_rows *x, const tidei_record *r) {
    switch ((tidei_record_kind)r->kind) {
    case TIDEI_RECORD_ALLOC: json_counter(x, "live", x->live += r->b, r->ns); break;
    case TIDEI_RECORD_FREE: json_counter(x, "live", x->live -= r->b, r->ns); break;
    case TIDEI_RECORD_SYNC: json_moment(x, r, "sync point"); break;
    case TIDEI_RECORD_FOLLOW: json_moment(x, r, "stream waits"); break;
    case TIDEI_RECORD_BEGIN:
    case TIDEI_RECORD_END: json_span(x, r); break;
    case TIDEI_RECORD_SUBMIT: json_submit(x, r); break;
    default: break; /* moments, which it does not want */
    }
    json_backed(x, r);
}

static void json_foot(tidei_rows *x) { put(x, "\n]\n"); }

/* ---- the table ---- */

static const tidei_form forms[] = {
    {TIDEI_TRACE_CSV, CSV_BEGINS, false, false, true, csv_head, csv_row, csv_foot},
    {TIDEI_TRACE_JSON, JSON_BEGINS, true, true, false, json_head, json_row, json_foot},
};

const tidei_form *tidei_form_of(const char *path) {
    const char *suffix = tidei_trace_suffix(path);
    for (size_t i = 0; suffix && i < TIDEI_COUNT(forms); i++)
        if (!strcmp(suffix, forms[i].suffix)) return &forms[i];
    return NULL;
}
