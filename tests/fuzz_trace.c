/* fuzz_trace.c: the reader of traces, plain and gzip. What it takes must be a trace as trace.h describes one. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz.h"
#include "tools/tide/replay.h"

static void require(int holds) {
    if (!holds) abort();
}

static void check(const tidei_trace *t) {
    unsigned char *alive = calloc(t->blocks + 1, 1);
    size_t blocks = 0;
    require(alive != NULL);
    for (size_t i = 0; i < t->n; i++) {
        const tidei_event *e = &t->events[i];
        if (e->op == TIDEI_EVENT_ALLOC) {
            require(e->block == blocks++);
            alive[e->block] = 1;
        } else if (e->op == TIDEI_EVENT_FREE) {
            require(e->block < blocks && alive[e->block]);
            alive[e->block] = 0;
        } else {
            require(e->op == TIDEI_EVENT_SYNC && !e->bytes);
        }
    }
    require(blocks == t->blocks);
    require(tidei_replay_peak(t, 1) <= TIDEI_TRACE_LIVE_MAX);
    free(alive);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    tidei_trace t;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0);
    tide_clear_error();
    tide_status status = tidei_trace_read_fd(fd, "fuzz", 0, &t);
    if (status == TIDE_OK) {
        check(&t);
        tidei_trace_clear(&t);
    } else {
        require(status == TIDE_E_FORMAT && strncmp(tide_last_error()->message, "fuzz:", 5) == 0);
    }
}
