/* fuzz_trace.c: traces, plain and gzip: what is read is what a slow reader reads, the same when it
** is compressed, and plays against a pool.
**
** An input is a file. What is wrong with one is told with the file's name and the line's number. */
#define FUZZ_RUNS 60000
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "arrays/arrays.h"
#include "tests/fuzz/fuzz.h"
#include "tools/tide/replay.h"

#define TEXT_MAX ((size_t)1 << 20) /* of an uncompressed file that the model reads, */
/* and its events; the model looks for each id among all of them */
#define EVENTS_MAX ((size_t)3000)
#define PLAYS      16 /* of so many traces one is played */

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_trace: %s: %s\n", what, tide_error_last()->message);
    abort();
}

/* ---- files without a name ---- */

typedef struct file {
    int fd;
    char path[32];
} file;

static file new_file(const void *bytes, size_t n) {
    file f = {.fd = memfd_create("trace", MFD_CLOEXEC)};
    require(f.fd >= 0 && write(f.fd, bytes, n) == (ssize_t)n, "a file");
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

static tide_status read_trace(const void *bytes, size_t n, tidei_trace *out) {
    file f = new_file(bytes, n);
    tide_error_clear();
    tide_status status = tidei_trace_read(f.path, out);
    close(f.fd);
    if (status == TIDE_OK) return status;
    const tide_error *e = tide_error_last();
    size_t name = strlen(f.path);
    require(status == TIDE_E_FORMAT && fuzz_is_utf8(e->message), "another refusal");
    require(!strncmp(e->message, f.path, name) && e->message[name] == ':' &&
                atol(e->message + name + 1) > 0,
            "a refusal without a place");
    return status;
}

/* ---- the slow reader ---- */

typedef struct slow {
    char *text; /* uncompressed */
    size_t n;
    bool sound;    /* its compressed form, to the end */
    bool readable; /* what the text says */
    bool too_long; /* for this reader */
    bool rmm;      /* its form */
    tidei_event events[EVENTS_MAX];
    uint64_t ids[EVENTS_MAX]; /* of allocations */
    size_t nevents, blocks;
    uint64_t version, last_us; /* as rows told; of our own form */
    unsigned __int128 live;
} slow;

static void uncompress_slowly(slow *s, const void *bytes, size_t n) {
    file f = new_file(bytes, n);
    gzFile z = gzopen(f.path, "rb");
    int got, code;
    require(z && (s->text = malloc(TEXT_MAX)), "memory");
    while (s->n < TEXT_MAX && (got = gzread(z, s->text + s->n, (unsigned)(TEXT_MAX - s->n))) > 0)
        s->n += (size_t)got;
    s->too_long = s->n == TEXT_MAX;
    (void)gzerror(z, &code);
    s->sound = code == Z_OK || code == Z_STREAM_END;
    gzclose_r(z);
    close(f.fd);
}

/* A number of nothing but digits of the base; false beyond 64 bits. */
static bool slow_number(const char *s, unsigned base, uint64_t *out) {
    unsigned __int128 v = 0;
    for (const char *p = s; *p; p++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *d = strchr(digits, *p);
        if (!d || (size_t)(d - digits) % 16 >= base) return false;
        v = v * base + (size_t)(d - digits) % 16;
        if (v > UINT64_MAX) return false;
    }
    *out = (uint64_t)v;
    return *s != 0;
}
static bool slow_pointer(const char *s, uint64_t *out) {
    if (!strcmp(s, "(nil)")) return *out = 0, true;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && s[2]) s += 2;
    return strlen(s) <= 16 && slow_number(s, 16, out);
}
static bool slow_time(const char *s) {
    const char *form = "dd:dd:dd.dddddd";
    for (; *form && *s; form++, s++) {
        if (*form == 'd' && (*s < '0' || *s > '9')) return false;
        if (*form == ':' && *s != ':') return false;
        if (*form == '.' && *s != '.' && *s != ':') return false;
    }
    return !*form && !*s;
}

static bool is_live(const slow *s, uint64_t id, size_t *event) {
    bool lives = false;
    for (size_t i = 0; i < s->nevents; i++) {
        const tidei_event *e = &s->events[i];
        if (e->op == TIDEI_EVENT_SYNC || s->ids[i] != id) continue;
        lives = e->op == TIDEI_EVENT_ALLOC;
        *event = i;
    }
    return lives;
}

static bool slow_event(slow *s, int op, uint64_t id, uint64_t bytes) {
    size_t born = 0, i = s->nevents;
    if (i == EVENTS_MAX) return s->too_long = true;
    s->ids[i] = id;
    if (op == TIDEI_EVENT_SYNC) {
        s->events[i] = (tidei_event){.op = TIDEI_EVENT_SYNC};
    } else if (op == TIDEI_EVENT_ALLOC) {
        if (is_live(s, id, &born) || s->live + bytes > TIDEI_TRACE_LIVE_MAX) return false;
        s->events[i] = (tidei_event){bytes, (uint32_t)s->blocks++, TIDEI_EVENT_ALLOC};
        s->live += bytes;
    } else {
        if (!is_live(s, id, &born) || (!s->rmm && bytes != s->events[born].bytes)) return false;
        s->events[i] =
            (tidei_event){s->events[born].bytes, s->events[born].block, TIDEI_EVENT_FREE};
        s->live -= s->events[born].bytes;
    }
    s->nevents++;
    return true;
}

static bool slow_row(slow *s, char fields[6][256]) {
    uint64_t number, id, bytes, stream;
    size_t born;
    if (s->rmm) {
        bool allocates = !strcmp(fields[2], "allocate"),
             fails = !strcmp(fields[2], "allocate failure");
        if (!slow_number(fields[0], 10, &number) || !slow_time(fields[1])) return false;
        if (!allocates && !fails && strcmp(fields[2], "free")) return false;
        if (!slow_pointer(fields[3], &id) || !slow_number(fields[4], 10, &bytes) ||
            !slow_pointer(fields[5], &number))
            return false;
        if (fails || (!id && !bytes)) return true;
        return slow_event(s, allocates ? TIDEI_EVENT_ALLOC : TIDEI_EVENT_FREE, id, bytes);
    }
    if (strlen(fields[0]) != 1 || !strchr("afsCcdRrWwuxvgpqh", fields[0][0])) return false;
    if (!slow_number(fields[1], 10, &id) || !slow_number(fields[2], 10, &bytes)) return false;
    if (!slow_number(fields[3], 10, &stream) || !slow_number(fields[4], 10, &number)) return false;
    if (number > UINT64_MAX / 1000 || number < s->last_us) return false;
    s->last_us = number;
    if (strchr("uxgqhp", fields[0][0]) && s->version == 1) return false;
    if (fields[0][0] == 'p' && s->version == 2) return false;
    if (strchr("vp", fields[0][0]) && s->blocks) return false;
    if (fields[0][0] == 'v') {
        s->version = id;
        return id >= 1 && id <= 3 && bytes <= 2;
    }
    if (fields[0][0] == 'p') return id >= 1 && id <= (uint64_t)1 << 40;
    if (fields[0][0] == 'C' || fields[0][0] == 'c') return id == 1 || id == 2;
    if (fields[0][0] == 'u' || fields[0][0] == 'x')
        return is_live(s, id, &born) && bytes <= number && (fields[0][0] == 'u' || stream <= 1);
    if (!strchr("afs", fields[0][0])) return true;
    return slow_event(s,
                      fields[0][0] == 'a'   ? TIDEI_EVENT_ALLOC
                      : fields[0][0] == 'f' ? TIDEI_EVENT_FREE
                                            : TIDEI_EVENT_SYNC,
                      id, bytes);
}

/* A line without its end; the first one is the header. A NUL in it is as wrong as any other
** byte. */
static bool slow_line(slow *s, const char *at, size_t n, size_t number) {
    static const char *const headers[] = {"op,id,bytes,stream,time_us",
                                          "Thread,Time,Action,Pointer,Size,Stream"};
    char fields[6][256];
    unsigned count = 0;
    if (n && at[n - 1] == '\r') n--;
    if (n > 255 || memchr(at, 0, n)) return false;
    if (number == 1) {
        s->rmm = n == strlen(headers[1]) && !memcmp(at, headers[1], n);
        return s->rmm || (n == strlen(headers[0]) && !memcmp(at, headers[0], n));
    }
    for (const char *end = at + n, *from = at;; count++) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
        if (count == 6) return false;
        memcpy(fields[count], from, (size_t)(to - from));
        fields[count][to - from] = 0;
        if (!comma) break;
        from = comma + 1;
    }
    return count + 1 == (s->rmm ? 6 : 5) && slow_row(s, fields);
}

static void read_slowly(slow *s) {
    size_t number = 1;
    const char *end = s->text + s->n;
    s->readable = s->n > 0;
    for (const char *at = s->text; at < end && s->readable && !s->too_long; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *to = newline ? newline : end;
        s->readable = slow_line(s, at, (size_t)(to - at), number);
        at = to + 1;
    }
}

static void check_same(const tidei_event *events, size_t n, size_t blocks, const tidei_trace *t) {
    require(t->n == n && t->blocks == blocks, "another number of events");
    for (size_t i = 0; i < n; i++)
        require(t->events[i].op == events[i].op && t->events[i].bytes == events[i].bytes &&
                    t->events[i].block == events[i].block,
                "another event");
}

static void compare(tide_status status, const tidei_trace *t, const void *bytes, size_t n) {
    slow *s = calloc(1, sizeof *s);
    require(s != NULL, "memory");
    uncompress_slowly(s, bytes, n);
    if (!s->too_long) read_slowly(s);
    if (!s->too_long) {
        require((status == TIDE_OK) == (s->readable && s->sound), "read, or refused, otherwise");
        if (status == TIDE_OK) check_same(s->events, s->nevents, s->blocks, t);
    }
    free(s->text);
    free(s);
}

/* ---- what is done with a trace ---- */

static void check_compressed(const tidei_trace *t, const uint8_t *bytes, size_t n) {
    unsigned char zipped[2 * FUZZ_BYTES];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n, .next_out = zipped};
    tidei_trace other;
    z.avail_out = sizeof zipped;
    if (n > FUZZ_BYTES || (n > 1 && bytes[0] == 0x1f && bytes[1] == 0x8b)) return;
    require(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
    require(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
    deflateEnd(&z);
    require(read_trace(zipped, sizeof zipped - z.avail_out, &other) == TIDE_OK,
            "refused where it is compressed");
    check_same(t->events, t->n, t->blocks, &other);
    tidei_trace_clear(&other);
}

/* Blocks are small where they are written; AddressSanitizer writes an eighth of each in any
** case. */
static void play(tidei_trace *t, fuzz_choices *c) {
    static const char *const pools[] = {"tide", "none", "driver", "split", "binned", "simple"};
    static const double limits[] = {0, 0, 1.0, 1.5};
    tidei_replay_options o = {.device = "host",
                              .pool = pools[fuzz_choose(c, 6)],
                              .streams = 1 + fuzz_choose(c, 3),
                              .lag = fuzz_choose(c, 2) * fuzz_choose(c, 40),
                              .pinned = fuzz_choose(c, 2) * fuzz_choose(c, 101),
                              .limit_factor = limits[fuzz_choose(c, 4)],
                              .touch = fuzz_choose(c, 4) == 0};
    tidei_replay_figures f;
    tidei_replay *r;
    uint64_t peak = tidei_replay_peak(t, o.streams), most = o.touch ? TIDEI_MIB : TIDEI_GIB;
    require(peak <= o.streams * TIDEI_TRACE_LIVE_MAX, "more lives than may");
    if (peak > most) tidei_trace_scale(t, peak / most + 1);
    require(tidei_replay_open(&o, t, &r) == TIDE_OK, "opening a replay");
    for (int pass = 0; pass < 2; pass++) {
        require(tidei_replay_pass(r, &f) == TIDE_OK, "a pass");
        require(f.events == t->n * o.streams, "another number of events was played");
        require(f.mismatches == 0, "a block was not as it was written");
        require(f.failed == 0 || o.limit_factor > 0 || o.lag > 0, "a block did not fit");
        require(f.peak_live <= tidei_replay_peak(t, o.streams), "more lived than should");
        require(tidei_runtime_valid(r->rt) && atomic_load(&r->dev->budget->live) == 0,
                "something is left");
    }
    tidei_replay_close(r);
}

/* With times it is the same trace; what a recording tells of blocks and collections fits it. */
static void check_timed(const tidei_trace *t, const uint8_t *bytes, size_t n) {
    tidei_trace timed;
    file f = new_file(bytes, n);
    require(tidei_trace_read_timed(f.path, 0, &timed) == TIDE_OK, "refused where times are wanted");
    close(f.fd);
    check_same(t->events, t->n, t->blocks, &timed);
    require(!memcmp(&t->run, &timed.run, sizeof t->run), "another run where times are wanted");
    for (size_t i = 0; i < timed.n; i++) {
        const tidei_event *e = &timed.events[i];
        require(!i || timed.times[i].ns >= timed.times[i - 1].ns, "time falls");
        if (e->op == TIDEI_EVENT_SYNC) continue;
        const tidei_block_moments *m = &timed.moments[e->block];
        if (e->op == TIDEI_EVENT_ALLOC)
            require(m->made == timed.times[i].ns, "made at another time");
        require(m->used >= m->made && m->died >= m->made, "used or dead before it was made");
        require(m->used == TIDEI_UNTOLD || m->used <= m->died, "used when it was dead");
        if (e->op == TIDEI_EVENT_FREE && m->died != TIDEI_UNTOLD)
            require(m->died <= timed.times[i].ns, "dead behind its free");
    }
    tidei_trace_clear(&timed);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    fuzz_choices c = fuzz_choices_of(bytes, n);
    tidei_trace t;
    c.at = c.end;
    tide_status status = read_trace(bytes, n, &t);
    compare(status, &t, bytes, n);
    if (status != TIDE_OK) return;
    check_compressed(&t, bytes, n);
    check_timed(&t, bytes, n);
    if (t.n <= EVENTS_MAX && fuzz_choose(&c, PLAYS) == 0) play(&t, &c);
    tidei_trace_clear(&t);
}
