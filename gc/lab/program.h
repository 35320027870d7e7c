/* program.h: what the lab plays: a program as a list of what its threads do.
**
** An event belongs to a thread; a thread's events happen one after the other, each as soon as the
** one before it is done. A block is made by one event and dies by another, perhaps of another
** thread: from then on nothing reaches it, though it is held until a collection finds it. Its death
** may come first in time where threads run at their own pace: then it is dead once it is made.
** What must stay true of a program that was finished: blocks are numbered from 0; each is made
** once, and dies at most once; peak and ideal time are those of a run by hand: each block is freed
** as it dies, so that nothing fails, nobody collects, and new memory is paid for up to the peak
** (unless the program has prices: then its times have that). */
#ifndef TIDEI_LAB_PROGRAM_H
#define TIDEI_LAB_PROGRAM_H

#include "gc/lab/model.h"
#include "gc/policy.h"

#define TIDEI_LAB_THREADS 64

typedef enum {
    TIDEI_LAB_HOST, /* the thread computes for `amount` ns */
    TIDEI_LAB_MAKE, /* block `block` of `amount` bytes, in `budget` */
    TIDEI_LAB_DIE,  /* `block`: a collection may find it from now on */
    TIDEI_LAB_FREE, /* `block`, which was made, is given back at once: nobody has to find it */
    TIDEI_LAB_WORK, /* `amount` ns of work are queued on the device */
    TIDEI_LAB_SYNC, /* the thread waits for the work that it queued */
    TIDEI_LAB_STEP  /* a step of the thread ends */
} tidei_lab_op;

/* The device's memory; what arrays take of the host's: pinned and unified memory. */
enum { TIDEI_LAB_DEVICE, TIDEI_LAB_PINNED, TIDEI_LAB_BUDGETS };

typedef struct tidei_lab_event {
    uint64_t amount;
    uint32_t block;
    uint8_t op, budget;
    uint16_t thread;
} tidei_lab_event;

/* How much device work a policy was told to be queued, at a making of a recorded run. */
typedef struct tidei_lab_told {
    size_t event;
    uint64_t slack_ns;
} tidei_lab_told;

/* What policies are told that a new MiB costs, from so many backed bytes on. */
typedef struct tidei_lab_told_price {
    uint64_t backed, mib_ns;
} tidei_lab_told_price;

/* What collections take that look at so many arrays, by ever more of them: the first until there,
** straight in between, and so on beyond the last two if they rise. Without points it is the model's
** line. */
#define TIDEI_LAB_CURVE 8
typedef struct tidei_lab_curve {
    size_t n;
    struct {
        uint64_t arrays, ns;
    } at[TIDEI_LAB_CURVE];
} tidei_lab_curve;

typedef struct tidei_lab_program {
    const char *name; /* static, or the caller's for as long as the program lives */
    tidei_lab_event *events;
    size_t n, cap;
    uint32_t blocks;
    unsigned threads;
    bool failed; /* host memory was exhausted while it was written */
    tidei_lab_model model;
    /* (may be NULL) collections take one of these times what the model says, in thousandths, each
    ** as likely as another; instead of the model's spread */
    uint32_t *spread, nspread;
    /* of minor and of full collections: so many thousandths the first one takes, 0: as the others;
    ** what they take before the spread, which the oracle does not look at */
    uint32_t first_part[2];
    tidei_lab_curve pauses[2];
    /* (may be NULL) by event: between two of these makings policies are told what lies between;
    ** instead of what is queued in the lab, which a runtime does not know so well */
    tidei_lab_told *told;
    size_t ntold;
    /* (may be NULL) by backed bytes: what policies are told that new memory costs once the device's
    ** budget has so much; instead of the model's price, which a runtime learns as it grows. What
    ** growth took is in the program's times then */
    tidei_lab_told_price *prices;
    size_t nprices;
    uint64_t limit[TIDEI_LAB_BUDGETS]; /* that it is meant for; 0: none in particular */
    /* known when it was finished */
    uint64_t peak[TIDEI_LAB_BUDGETS], ideal_ns;
    size_t steps;
} tidei_lab_program;

/* Begins an empty program of one thread, with the usual model. */
void tidei_lab_begin(tidei_lab_program *p, const char *name);
/* Writing it. Amounts of 0 are nothing, but for sync points and steps; what is longer than any run
** may be is cut to what ends one. */
void tidei_lab_add(tidei_lab_program *p, unsigned thread, tidei_lab_op op, uint64_t amount);
uint32_t tidei_lab_make(tidei_lab_program *p, unsigned thread, unsigned budget, uint64_t bytes);
void tidei_lab_die(tidei_lab_program *p, unsigned thread, uint32_t block);
void tidei_lab_free(tidei_lab_program *p, unsigned thread, uint32_t block);
/* Plays it in the ideal way to know its peak and its time; again after a change of its model.
** TIDE_E_HOST_NOMEM; TIDE_E_UNSUPPORTED: it is longer than any run may be. */
tide_status tidei_lab_finish(tidei_lab_program *p);
void tidei_lab_clear(tidei_lab_program *p);
/* A collection that looks at so many arrays, as it takes a single thread, before the spread: by the
** program's curve, or by that model. */
uint64_t tidei_lab_program_pause(const tidei_lab_program *p, const tidei_lab_model *m, bool full,
                                 uint64_t arrays);

#endif
