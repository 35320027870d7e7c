/* test_trace.c: reading traces: the recorded ones, both forms, whatever is wrong with a file, and
** no memory for it. */
#include "tests/support/few_mallocs.h"
#include "tests/support/child.h"
#include "tools/tide/replay.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

/* ---- files without a name ---- */

static int file_of(const void *bytes, size_t n) {
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static tide_status read_text(const char *text, tidei_trace *out) {
    return tidei_trace_read_fd(file_of(text, strlen(text)), "t.csv", 0, out);
}

/* `text` as gzip has it; returns its length. */
static size_t compressed(const char *text, unsigned char *out, size_t cap) {
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)strlen(text), .next_out = out};
    z.avail_out = (uInt)cap;
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}

#define TIDE_HEADER "op,id,bytes,stream,time_us\n"
#define RMM_HEADER  "Thread,Time,Action,Pointer,Size,Stream\n"

static void assert_event(const tidei_trace *t, size_t i, unsigned op, uint64_t bytes,
                         unsigned block) {
    assert_true(i < t->n);
    assert_int_equal(t->events[i].op, op);
    assert_int_equal(t->events[i].bytes, bytes);
    assert_int_equal(t->events[i].block, block);
}

/* ---- what is read ---- */

/* ---- files that hold far more than their size ---- */

#define BOMB_ROWS 100000 /* of one member of a gzip file; 1 KB of it */

/* Many rows, in so many members; their bytes, and a place of them all in *fd. */
static size_t bomb(size_t members, int *fd) {
    static const char row[] = "s,0,0,0,0\n";
    static unsigned char head[256], part[8192];
    char *text = malloc(BOMB_ROWS * (sizeof row - 1) + 1);
    for (size_t i = 0; i < BOMB_ROWS; i++) memcpy(text + i * (sizeof row - 1), row, sizeof row);
    size_t n = compressed(TIDE_HEADER, head, sizeof head), m = compressed(text, part, sizeof part);
    free(text);
    *fd = memfd_create("bomb", MFD_CLOEXEC);
    assert_int_equal(write(*fd, head, n), (ssize_t)n);
    for (size_t i = 0; i < members; i++) assert_int_equal(write(*fd, part, m), (ssize_t)m);
    assert_int_equal(lseek(*fd, 0, SEEK_SET), 0);
    return n + members * m;
}

/* 1.2 MB that hold 60 million rows, which would take 1 GB, in a process that has half of that. */
static void read_bomb(const void *arg) {
    tidei_trace t;
    int fd;
    (void)arg;
    must(bomb(600, &fd) < 1500000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which want all addresses */
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    must(f && fscanf(f, "%zu", &pages) == 1);
    fclose(f);
    rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + 500 * TIDEI_MIB;
    must(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) == 0);
#endif
    must(tidei_trace_read_fd(fd, "bomb.csv.gz", 0, &t) == TIDE_E_FORMAT);
    must(strstr(tide_error_last()->message, "bomb.csv.gz:4194306: more than 4194304 events"));
    must(strstr(tide_error_last()->message, "--events N"));
}

static void a_bomb_is_refused(void **state) {
    (void)state;
    in_child_with(read_bomb, NULL);
}

/* Who knows better says how many there may be: that many, and not one more. */
static void as_many_as_wanted(void **state) {
    tidei_trace t;
    int fd;
    (void)state;
    bomb(43, &fd);
    assert_int_equal(tidei_trace_read_fd(dup(fd), "b", 4299999, &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, "b:4300001: more than 4299999 events; --events N");
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_ok(tidei_trace_read_fd(dup(fd), "b", 4300000, &t));
    assert_int_equal(t.n, 4300000);
    tidei_trace_clear(&t);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(tidei_trace_read_fd(fd, "b", 10, &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, "b:12: more than 10 events");
}

/* As plain text, where a row takes ten bytes, as many are a trace like any other. */
static void large_files_are_read(void **state) {
    enum { ROWS = 4300000, ROW = 10 };
    char *text = malloc(ROWS * ROW);
    tidei_trace t;
    (void)state;
    for (size_t i = 0; i < ROWS; i++) memcpy(text + i * ROW, "s,0,0,0,0\n", ROW);
    int fd = memfd_create("large", MFD_CLOEXEC);
    assert_int_equal(write(fd, TIDE_HEADER, sizeof TIDE_HEADER - 1), sizeof TIDE_HEADER - 1);
    assert_int_equal(write(fd, text, ROWS * ROW), ROWS * ROW);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    free(text);
    assert_ok(tidei_trace_read_fd(fd, "large.csv", 0, &t));
    assert_int_equal(t.n, ROWS);
    tidei_trace_clear(&t);
}

static void the_recorded_traces_are_read(void **state) {
    /* allocations and peak live: tests/traces/README.md */
    static const struct {
        const char *name;
        size_t allocs, frees, syncs, peak_mib;
    } known[] = {{"resnet50-train-varbatch", 16419, 16258, 24, 5300},
                 {"gpt2-train-varlen", 28272, 28124, 24, 4951},
                 {"lstm-train-unrolled", 22121, 22111, 10, 160},
                 {"linalg-mix", 1748, 1748, 40, 82}};
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(known); k++) {
        char path[1024];
        tidei_trace t;
        size_t ops[3] = {0};
        snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", getenv("TIDE_TEST_SOURCE"),
                 known[k].name);
        assert_ok(tidei_trace_read(path, &t));
        for (size_t i = 0; i < t.n; i++) ops[t.events[i].op]++;
        assert_int_equal(ops[TIDEI_EVENT_ALLOC], known[k].allocs);
        assert_int_equal(ops[TIDEI_EVENT_FREE], known[k].frees);
        assert_int_equal(ops[TIDEI_EVENT_SYNC], known[k].syncs);
        assert_int_equal(t.blocks, known[k].allocs);
        assert_int_equal((tidei_replay_peak(&t, 1) + TIDEI_MIB / 2) / TIDEI_MIB, known[k].peak_mib);
        tidei_trace_clear(&t);
    }
}

static void assert_small_trace(const tidei_trace *t) {
    assert_int_equal(t->n, 7);
    assert_int_equal(t->blocks, 3);
    assert_event(t, 0, TIDEI_EVENT_ALLOC, 100, 0);
    assert_event(t, 1, TIDEI_EVENT_ALLOC, 0, 1);
    assert_event(t, 2, TIDEI_EVENT_FREE, 100, 0);
    assert_event(t, 3, TIDEI_EVENT_SYNC, 0, 0);
    assert_event(t, 4, TIDEI_EVENT_ALLOC, 7, 2);
    assert_event(t, 5, TIDEI_EVENT_FREE, 0, 1);
    assert_event(t, 6, TIDEI_EVENT_FREE, 7, 2);
}

static void our_own_form_is_read(void **state) {
    static const char text[] =
        TIDE_HEADER "a,5,100,0,0\na,18446744073709551615,0,1,1\nf,5,100,0,2\ns,0,0,0,3\n"
                    "a,5,7,0,4\nf,18446744073709551615,0,0,5\nf,5,7,0,5\n";
    char other[sizeof text + 16];
    unsigned char zipped[512];
    tidei_trace t;
    (void)state;
    assert_ok(read_text(text, &t));
    assert_small_trace(&t);
    tidei_trace_clear(&t);
    assert_ok(tidei_trace_read_fd(file_of(zipped, compressed(text, zipped, sizeof zipped)),
                                  "t.csv.gz", 0, &t));
    assert_small_trace(&t);
    tidei_trace_clear(&t);
    /* another system's ends of lines, and none at the end */
    size_t n = 0;
    for (const char *p = text; p[1]; p++) {
        if (*p == '\n') other[n++] = '\r';
        other[n++] = *p;
    }
    assert_ok(tidei_trace_read_fd(file_of(other, n), "t.csv", 0, &t));
    assert_small_trace(&t);
    tidei_trace_clear(&t);
}

/* What else a recording tells is no event, and as well formed as the rest. */
static void what_is_no_event_is_skipped(void **state) {
    tidei_trace t;
    (void)state;
    assert_ok(read_text(
        TIDE_HEADER "C,2,0,0,0\na,5,100,0,1\nc,2,4096,0,2\nd,1,0,2,2\nR,0,512,0,3\nR,11,512,0,3\n"
                    "r,11,0,0,4\nr,0,0,0,4\nW,4194303,0,1,5\nw,4194303,0,1,6\nf,5,100,0,7\n",
        &t));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.blocks, 1);
    assert_event(&t, 0, TIDEI_EVENT_ALLOC, 100, 0);
    assert_event(&t, 1, TIDEI_EVENT_FREE, 100, 0);
    tidei_trace_clear(&t);
    assert_int_equal(read_text(TIDE_HEADER "c,2,many,0,2\n", &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, "t.csv:2: expected a size in bytes, found 'many'");
}

static tide_status read_timed(const char *text, tidei_trace *out) {
    char path[64];
    int fd = file_of(text, strlen(text));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tide_status status = tidei_trace_read_timed(path, 0, out);
    close(fd);
    return status;
}

/* What a recording tells of its run: in the program's own time, which collections and climbs are
** not part of. */
static void the_rest_of_a_recording_is_read(void **state) {
    tidei_trace t;
    (void)state;
    assert_ok(read_timed(
        TIDE_HEADER "v,3,2,0,0\ng,1,1000,0,0\ng,157286,1000,0,0\ng,5,1,1,0\np,4096,0,0,0\na,5,100,"
                    "0,10\na,6,50,0,12\n"
                    "q,3,7000,0,20\nh,2,4096,0,20\nC,2,0,0,20\nu,5,15,0,28\nx,5,25,1,28\n"
                    "f,5,100,0,28\nc,2,100,0,30\n" /* 10 us, not the program's */
                    "R,0,64,0,40\nC,1,0,0,41\nc,1,0,0,43\nR,3,64,0,43\nr,3,0,0,44\nr,0,0,0,45\n"
                    "u,6,35,0,60\nx,6,50,0,60\nf,6,50,0,60\na,7,1,0,70\nu,7,5,0,70\nf,7,1,0,72\n",
        &t));
    assert_int_equal(t.run.version, 3);
    assert_int_equal(t.run.how, 2);
    assert_int_equal(t.run.fresh_mib_ns, 157286);
    assert_int_equal(t.run.total, 1000);
    /* of 150 bytes, by the last price before them; another device's is nobody's */
    assert_int_equal(t.nprices, 1);
    assert_int_equal(t.prices[0].mib_ns, 157286);
    assert_int_equal(t.prices[0].place, 0);
    assert_true(t.run.growth_ns == 157286.0 * 150 / (double)TIDEI_MIB);
    assert_int_equal(t.run.page_bytes, 4096);
    assert_int_equal(t.run.exact, 1);
    assert_int_equal(t.run.found, 1);
    assert_int_equal(t.run.used, 3);
    assert_int_equal(t.run.idle_us, 13 + 25 + 65);
    assert_int_equal(t.run.climbs, 1);
    assert_int_equal(t.run.climb_ns, 3000);
    assert_int_equal(t.run.ns, 72000);
    assert_int_equal(t.ncollections, 2);
    assert_memory_equal(&t.collections[0],
                        (&(tidei_trace_collection){10000, 100, 2, 4096, 3, 7000, 1, 2, 2, 0}),
                        sizeof *t.collections);
    assert_memory_equal(&t.collections[1],
                        (&(tidei_trace_collection){2000, 0, 0, 0, 0, 0, 0, 3, 1, 1}),
                        sizeof *t.collections);
    /* used at 15, found in the collection that began at 20; 35 and 50 less what stood still */
    static const tidei_block_moments moments[] = {{10000, 15000, 20000, true},
                                                  {12000, 25000, 35000, false},
                                                  {55000, 55000, TIDEI_UNTOLD, false}};
    for (size_t i = 0; i < TIDEI_COUNT(moments); i++) {
        assert_int_equal(t.moments[i].made, moments[i].made);
        assert_int_equal(t.moments[i].used, moments[i].used);
        assert_int_equal(t.moments[i].died, moments[i].died);
        assert_int_equal(t.moments[i].found, moments[i].found);
    }
    tidei_trace_clear(&t);
}

/* Waits at a sync point are its own until the next block is made; others, and those of a program
** that stands still, are nobody's. */
static void waits_belong_to_sync_points(void **state) {
    static const struct {
        uint64_t ns, stood_ns, waited_ns;
    } times[] = {{10000, 0, TIDEI_UNTOLD},
                 {20000, 0, 7000},
                 {55000, 5000, TIDEI_UNTOLD},
                 {65000, 5000, TIDEI_UNTOLD},
                 {65000, 6000, TIDEI_UNTOLD}};
    tidei_trace t;
    (void)state;
    assert_ok(read_timed(TIDE_HEADER "a,1,8,0,10\ns,0,0,0,20\nC,2,0,0,20\nc,2,0,0,25\n"
                                     "W,7,0,0,25\nW,8,0,0,26\nw,7,0,0,27\nw,8,0,0,30\n" /* 5 */
                                     "W,7,0,0,31\nw,7,0,0,33\n"                         /* 2 */
                                     "a,2,8,0,60\nW,7,0,0,61\nw,7,0,0,62\nw,7,0,0,63\n"
                                     "s,0,0,0,70\nC,2,0,0,70\nW,7,0,0,70\nw,7,0,0,71\n"
                                     "f,1,8,0,71\nc,2,8,0,72\n",
                         &t));
    assert_int_equal(t.n, TIDEI_COUNT(times));
    assert_int_equal(t.run.waits, 4);
    for (size_t i = 0; i < t.n; i++) {
        assert_int_equal(t.times[i].ns, times[i].ns);
        assert_int_equal(t.times[i].stood_ns, times[i].stood_ns);
        assert_int_equal(t.times[i].waited_ns, times[i].waited_ns);
    }
    tidei_trace_clear(&t);
}

/* The example of docs/traces.md is read as the text below it says. */
static void the_example_of_the_docs_is_read(void **state) {
    char path[1024], page[16384], *begin, *end;
    tidei_trace t;
    (void)state;
    snprintf(path, sizeof path, "%s/docs/traces.md", getenv("TIDE_TEST_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    page[fread(page, 1, sizeof page - 1, f)] = 0;
    fclose(f);
    assert_non_null(begin = strstr(page, "```csv\n"));
    begin += strlen("```csv\n");
    assert_non_null(end = strstr(begin, "```"));
    *end = 0;
    assert_ok(read_timed(begin, &t));
    assert_int_equal(t.n, 5);
    assert_int_equal(t.blocks, 3);
    assert_int_equal(t.run.version, 3);
    assert_int_equal(t.run.how, 1);
    assert_int_equal(t.run.exact, 1);
    assert_int_equal(t.ncollections, 1);
    assert_int_equal(t.collections[0].pause_ns, 50000);
    assert_int_equal(t.collections[0].arrays, 2);
    assert_int_equal(t.moments[0].used, 30000);
    assert_int_equal(t.moments[0].died, 60000); /* 50 us less: the collection's are not its own */
    tidei_trace_clear(&t);
}

static void the_form_of_rmm_is_read(void **state) {
    tidei_trace t;
    (void)state;
    assert_ok(read_text(RMM_HEADER
                        "140573312345856,10:31:32:123456,allocate,0x7f8a40000000,100,0x0\n"
                        "12,10:31:32.123457,allocate failure,(nil),99999999999,0\n"
                        "12,10:31:32.123457,allocate failure,0,100,0\n"
                        /* empty: no event */
                        "12,10:31:32.123458,allocate,0x0,0,0x7f8a38001020\n"
                        "12,10:31:32.123458,allocate,0x0,0,2\n"
                        "12,10:31:32.123459,free,0x7f8a40000000,100,0x0\n"
                        "12,10:31:32.123460,free,0x0,0,2\n"
                        "12,23:59:59.999999,allocate,7F8A40000000,50,(nil)\n",
                        &t));
    assert_int_equal(t.n, 3);
    assert_int_equal(t.blocks, 2);
    assert_event(&t, 0, TIDEI_EVENT_ALLOC, 100, 0);
    assert_event(&t, 1, TIDEI_EVENT_FREE, 100, 0);
    assert_event(&t, 2, TIDEI_EVENT_ALLOC, 50, 1);
    tidei_trace_clear(&t);
    assert_ok(read_text(RMM_HEADER, &t));
    assert_int_equal(t.n, 0);
    tidei_trace_clear(&t);
}

/* Ids that come and go by the thousand, against a plain table. */
static void ids_come_and_go(void **state) {
    enum { IDS = 3000, LINES = 40000 };
    static int block_of[IDS]; /* -1: not allocated */
    char *text = NULL;
    size_t n, at = 0, blocks = 0;
    tidei_trace t;
    uint64_t x = 88172645463325252u;
    (void)state;
    static unsigned order[LINES];
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    fputs(TIDE_HEADER, f);
    for (int i = 0; i < IDS; i++) block_of[i] = -1;
    for (unsigned i = 0; i < LINES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        order[i] = (unsigned)(x >> 11) % IDS;
        bool live = block_of[order[i]] >= 0;
        fprintf(f, "%c,%llu,%u,0,%u\n", live ? 'f' : 'a', order[i] * 4294967296ull, order[i], i);
        block_of[order[i]] = live ? -1 : 0;
    }
    fclose(f);
    assert_ok(tidei_trace_read_fd(file_of(text, n), "t.csv", 0, &t));
    free(text);
    assert_int_equal(t.n, LINES);
    for (int i = 0; i < IDS; i++) block_of[i] = -1;
    for (; at < LINES; at++) {
        int *block = &block_of[order[at]];
        bool live = *block >= 0;
        assert_event(&t, at, live ? TIDEI_EVENT_FREE : TIDEI_EVENT_ALLOC, order[at],
                     live ? (unsigned)*block : (unsigned)blocks);
        *block = live ? -1 : (int)blocks++;
    }
    assert_int_equal(t.blocks, blocks);
    tidei_trace_clear(&t);
}

static void sizes_are_scaled_down(void **state) {
    tidei_trace t;
    (void)state;
    assert_ok(read_text(TIDE_HEADER "a,0,1000,0,0\na,1,3,0,0\na,2,0,0,0\nf,0,1000,0,0\n", &t));
    tidei_trace_scale(&t, 64);
    assert_event(&t, 0, TIDEI_EVENT_ALLOC, 15, 0);
    assert_event(&t, 1, TIDEI_EVENT_ALLOC, 1, 1);
    assert_event(&t, 2, TIDEI_EVENT_ALLOC, 0, 2);
    assert_event(&t, 3, TIDEI_EVENT_FREE, 15, 0);
    tidei_trace_clear(&t);
}

/* ---- what is refused ---- */

#define EIGHTY  "12345678901234567890123456789012345678901234567890123456789012345678901234567890"
#define A60     "123456789012345678901234567890123456789012345678901234567890"
#define HEADERS "the header op,id,bytes,stream,time_us or Thread,Time,Action,Pointer,Size,Stream"
#define ROW     "12,10:31:32:123456,"

static void bad_input_is_told_by_line(void **state) {
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "t.csv:1: expected " HEADERS ", found ''"},
        {"\n", "t.csv:1: expected " HEADERS ", found ''"},
        {"op,id,bytes\na,0,1\n", "t.csv:1: expected " HEADERS ", found 'op,id,bytes'"},
        {"\177ELF\1\2\n", "t.csv:1: expected " HEADERS ", found '?ELF?\?'"},
        {TIDE_HEADER "a,0,1,0\n",
         "t.csv:2: expected the 5 fields op,id,bytes,stream,time_us, found 'a,0,1,0'"},
        {TIDE_HEADER "a,0,1,0,18446744073709551\nf,0,1,0,18446744073709552\n",
         "t.csv:3: expected a time of less than 2^64 nanoseconds, in microseconds, found "
         "'18446744073709552'"},
        {TIDE_HEADER "a,0,1,0,0\n\n",
         "t.csv:3: expected the 5 fields op,id,bytes,stream,time_us, found ''"},
        {TIDE_HEADER "a,0,1,0,0,0\n",
         "t.csv:2: expected the 5 fields op,id,bytes,stream,time_us, found 'a,0,1,0,0,0'"},
        {TIDE_HEADER "b,0,1,0,0\n",
         "t.csv:2: expected op a, f or s (or one of CcdRrWwuxvgpqh), found 'b'"},
        {TIDE_HEADER "af,0,1,0,0\n",
         "t.csv:2: expected op a, f or s (or one of CcdRrWwuxvgpqh), found 'af'"},
        {TIDE_HEADER ",0,1,0,0\n",
         "t.csv:2: expected op a, f or s (or one of CcdRrWwuxvgpqh), found ''"},
        {TIDE_HEADER "a,-1,1,0,0\n", "t.csv:2: expected an id below 2^64, found '-1'"},
        {TIDE_HEADER "a,18446744073709551616,1,0,0\n",
         "t.csv:2: expected an id below 2^64, found '18446744073709551616'"},
        {TIDE_HEADER "a,0,,0,0\n", "t.csv:2: expected a size in bytes, found ''"},
        {TIDE_HEADER "a,0,1e9,0,0\n", "t.csv:2: expected a size in bytes, found '1e9'"},
        {TIDE_HEADER "a,0,99999999999999999999,0,0\n",
         "t.csv:2: expected a size in bytes, found '99999999999999999999'"},
        {TIDE_HEADER "a,0,72057594037927937,0,0\n",
         "t.csv:2: expected a size with which at most 2^56 bytes live, found '72057594037927937'"},
        {TIDE_HEADER "a,0,72057594037927936,0,0\na,1,1,0,0\n",
         "t.csv:3: expected a size with which at most 2^56 bytes live, found '1'"},
        {TIDE_HEADER "v,3,0,0,0\nu,3,0,0,0\n",
         "t.csv:3: expected the id of an allocated block, found '3'"},
        {TIDE_HEADER "v,3,0,0,0\na,3,1,0,5\nx,3,9,0,8\n",
         "t.csv:4: expected a time that is no later than the row's, found '9'"},
        {TIDE_HEADER "v,3,0,0,0\na,3,1,0,5\nx,3,6,2,8\n",
         "t.csv:4: expected 0 for a death as it happened, or 1 for one that was found, found '2'"},
        {TIDE_HEADER "v,4,0,0,0\n",
         "t.csv:2: expected a version of the form from 1 to 3, found '4'"},
        {TIDE_HEADER "v,3,0,0,0\np,0,0,0,0\n",
         "t.csv:3: expected bytes of a page, from 1 to 2^40, found '0'"},
        {TIDE_HEADER "a,1,1,0,0\nv,3,1,0,5\n",
         "t.csv:3: expected a row that may stand behind blocks, found 'v'"},
        {TIDE_HEADER "v,3,1,0,0\na,1,1,0,0\np,4096,1,0,5\n",
         "t.csv:4: expected a row that may stand behind blocks, found 'p'"},
        {TIDE_HEADER "v,1,0,0,0\nq,1,1,0,0\n",
         "t.csv:3: expected a row of version 1 of the form, found 'q'"},
        {TIDE_HEADER "v,2,0,0,0\np,4096,0,0,0\n",
         "t.csv:3: expected a row of version 2 of the form, found 'p'"},
        {TIDE_HEADER "a,1,1,0,0\nC,9,5,5,1\n",
         "t.csv:3: expected 1 for a minor collection, or 2, found '9'"},
        {TIDE_HEADER "a,1,1,0,0\nC,2,5,5,1\nc,0,5,5,1\n",
         "t.csv:4: expected 1 for a minor collection, or 2, found '0'"},
        {TIDE_HEADER "a,1,100,0,100\nf,1,100,0,10\n",
         "t.csv:3: expected a time no earlier than the last row's, found '10'"},
        {TIDE_HEADER "a,1,1000,0,0\nf,1,0,0,5\n",
         "t.csv:3: expected the 1000 bytes that the block has, found '0'"},
        {TIDE_HEADER "v,2,3,0,0\n",
         "t.csv:2: expected 0, 1 or 2 for how deaths are known, found '3'"},
        {TIDE_HEADER "q,1\n",
         "t.csv:2: expected the 5 fields op,id,bytes,stream,time_us, found 'q,1'"},
        {TIDE_HEADER "a,0,1, 0,0\n", "t.csv:2: expected a stream's number, found ' 0'"},
        {TIDE_HEADER "a,0,1,0,soon\n", "t.csv:2: expected a time in microseconds, found 'soon'"},
        {TIDE_HEADER "a,3,1,0,0\nf,3,1,0,1\nf,3,1,0,2\n",
         "t.csv:4: expected the id of an allocated block, found '3'"},
        {TIDE_HEADER "f,0,1,0,0\n", "t.csv:2: expected the id of an allocated block, found '0'"},
        {TIDE_HEADER "a,3,1,0,0\na,3,1,0,0\n",
         "t.csv:3: expected an id that is not allocated, found '3'"},
        {TIDE_HEADER "a,0,1,0,0\na," EIGHTY EIGHTY EIGHTY EIGHTY "\n",
         "t.csv:3: expected a line of at most 255 bytes, found "
         "'a,1234567890123456789012345678901234567890123456789012"
         "345678...'"},
        {TIDE_HEADER "a," EIGHTY ",1,0,0\n",
         "t.csv:2: expected an id below 2^64, found '" A60 "...'"},
        {RMM_HEADER "12,10:31:32:123456,allocate,0x10,1\n",
         "t.csv:2: expected the 6 fields Thread,Time,Action,Pointer,Size,Stream, found "
         "'12,10:31:32:123456,allocate,0x10,1'"},
        {RMM_HEADER "main,10:31:32:123456,free,0x10,1,0\n",
         "t.csv:2: expected a thread's number, found 'main'"},
        {RMM_HEADER "12,10:31:32,free,0x10,1,0\n",
         "t.csv:2: expected a time HH:MM:SS.uuuuuu, found '10:31:32'"},
        {RMM_HEADER "12,10.31.32.123456,free,0x10,1,0\n",
         "t.csv:2: expected a time HH:MM:SS.uuuuuu, found '10.31.32.123456'"},
        {RMM_HEADER ROW "resize,0x10,1,0\n",
         "t.csv:2: expected Action allocate, allocate failure or free, found 'resize'"},
        {RMM_HEADER ROW "free,0x1g,1,0\n",
         "t.csv:2: expected a pointer in hexadecimal digits, found '0x1g'"},
        {RMM_HEADER ROW "free,0x,1,0\n",
         "t.csv:2: expected a pointer in hexadecimal digits, found '0x'"},
        {RMM_HEADER ROW "free,0x12345678901234567,1,0\n",
         "t.csv:2: expected a pointer in hexadecimal digits, found '0x12345678901234567'"},
        {RMM_HEADER ROW "free,0x10,-1,0\n", "t.csv:2: expected a size in bytes, found '-1'"},
        {RMM_HEADER ROW "free,0x10,1,main\n", "t.csv:2: expected a stream's number, found 'main'"},
        {RMM_HEADER ROW "free,0x10,1,0\n",
         "t.csv:2: expected the id of an allocated block, found '0x10'"},
        {RMM_HEADER ROW "allocate,0x10,1,0\n" ROW "allocate,0x10,1,0\n",
         "t.csv:3: expected an id that is not allocated, found '0x10'"},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tidei_trace t;
        assert_int_equal(read_text(bad[i].text, &t), TIDE_E_FORMAT);
        assert_string_equal(tide_error_last()->message, bad[i].message);
    }
}

static void unsound_gzip_is_told(void **state) {
    static char text[40000];
    static unsigned char zipped[sizeof text];
    tidei_trace t;
    (void)state;
    size_t n = (size_t)sprintf(text, TIDE_HEADER);
    for (unsigned i = 0; n < sizeof text - 64; i++)
        n += (size_t)sprintf(text + n, "a,%u,%u,0,%u\n", i, i * 7919, i);
    size_t m = compressed(text, zipped, sizeof zipped);
    /* cut off: in the data, and just before the end of the checksum behind it */
    assert_int_equal(tidei_trace_read_fd(file_of(zipped, m / 2), "t.gz", 0, &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, ": expected the rest of the gzip stream, found 'end of file'");
    assert_int_equal(tidei_trace_read_fd(file_of(zipped, m - 1), "t.gz", 0, &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, ": expected the rest of the gzip stream, found 'end of file'");
    zipped[m - 6] ^= 1; /* of the checksum */
    assert_int_equal(tidei_trace_read_fd(file_of(zipped, m), "t.gz", 0, &t), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, ": expected the rest of the gzip stream, found 'damaged data'");
}

static void files_that_are_none(void **state) {
    tidei_trace t;
    (void)state;
    assert_int_equal(tidei_trace_read("/nowhere/t.csv", &t), TIDE_E_IO);
    assert_string_equal(tide_error_last()->message,
                        "/nowhere/t.csv: cannot be opened: No such file or directory");
    assert_int_equal(tidei_trace_read("/", &t), TIDE_E_IO);
    assert_string_equal(tide_error_last()->message, "/: cannot be read: Is a directory");
}

/* Each allocation of host memory gets its turn to fail. What it leaves behind, AddressSanitizer
** reports. */
static void no_host_memory(void **state) {
    static char text[200000];
    size_t n = (size_t)sprintf(text, TIDE_HEADER);
    tide_status status = TIDE_E_HOST_NOMEM;
    long budget = 0;
    (void)state;
    for (unsigned i = 0; i < 9000; i++) n += (size_t)sprintf(text + n, "a,%u,%u,0,%u\n", i, i, i);
    for (; status != TIDE_OK; budget++) {
        tidei_trace t;
        int fd = file_of(text, n);
        mallocs_left = budget;
        status = tidei_trace_read_fd(fd, "t.csv", 0, &t);
        mallocs_left = -1;
        assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed either way */
        if (status == TIDE_OK)
            tidei_trace_clear(&t);
        else
            assert_error(TIDE_E_HOST_NOMEM, "host memory is exhausted");
    }
    assert_in_range(budget, 8, 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(as_many_as_wanted),
        cmocka_unit_test(large_files_are_read),
        cmocka_unit_test(the_recorded_traces_are_read),
        cmocka_unit_test(our_own_form_is_read),
        cmocka_unit_test(what_is_no_event_is_skipped),
        cmocka_unit_test(the_rest_of_a_recording_is_read),
        cmocka_unit_test(waits_belong_to_sync_points),
        cmocka_unit_test(the_example_of_the_docs_is_read),
        cmocka_unit_test(the_form_of_rmm_is_read),
        cmocka_unit_test(ids_come_and_go),
        cmocka_unit_test(sizes_are_scaled_down),
        cmocka_unit_test(bad_input_is_told_by_line),
        cmocka_unit_test(unsound_gzip_is_told),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
