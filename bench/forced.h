/* forced.h: was it arithmetic that failed an allocation? A program's own record of what it holds,
** and the question asked of it.
**
** Every thread says, in one order for all: it asks for so many bytes (all that the operation needs
** at once); got the result, which it holds from then on; failed; let something go; pinned a block,
** or unpinned it, with the free parts of the pages on which that lies. What a thread asks for
** counts as held from the question to the answer; what it wants and cannot get does not. A failure
** is *forced* if at some moment between question and answer more was held, or could not be used,
** than the limit allows; any other one the library has to answer for. Garbage is nobody's; but a
** collector that scans may take a word for a pointer. Where no more than what lives without being
** held was missing, the failure is that collector's (`kept`). */
#ifndef BENCH_FORCED_H
#define BENCH_FORCED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FORCED_ASK,
    FORCED_WANT, /* the same, of more than can be had */
    FORCED_GOT,
    FORCED_FAILED,
    FORCED_DROP,
    FORCED_PIN,
    FORCED_UNPIN
} forced_kind;
typedef struct forced_event {
    uint16_t kind, thread; /* thread < FORCED_THREADS */
    /* GOT: of the result alone; FAILED: what lived then, as the library counts */
    uint64_t bytes;
} forced_event;
#define FORCED_THREADS 64

typedef struct forced_figures {
    uint64_t asked, failures, unforced, kept;
    uint64_t peak;        /* held at once */
    uint64_t least_spare; /* of the unforced failures: what the limit still allowed */
} forced_figures;

/* `apart`: what is to be had besides at any time (libraries' handles, which need whole pages).
** `scans`: the collector does. */
void forced_check(const forced_event *at, size_t n, uint64_t limit, uint64_t apart, bool scans,
                  forced_figures *out);

#endif
