/* captured.h: what a case writes to stderr, kept aside and read. */
#ifndef TIDETEST_CAPTURED_H
#define TIDETEST_CAPTURED_H

#include <unistd.h>
#include "tests/support/tidetest.h"

static struct { int file, before; } captured;

/* From here to captured_end all that the process writes to stderr goes aside. */
static inline void captured_begin(void) {
    char name[] = "/tmp/tide-stderr-XXXXXX";
    captured.file = mkstemp(name);
    captured.before = dup(2);
    assert_true(captured.file >= 0 && captured.before >= 0);
    unlink(name);
    fflush(stderr);
    dup2(captured.file, 2);
}

/* What was written meanwhile, as a text; more than `cap` holds is left out. */
static inline void captured_end(char *text, size_t cap) {
    fflush(stderr);
    dup2(captured.before, 2);
    close(captured.before);
    ssize_t n = pread(captured.file, text, cap - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(captured.file);
}

#endif
