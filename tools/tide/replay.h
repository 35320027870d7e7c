/* replay.h: playing a trace against a pool.
**
** Model. K copies of the trace play on K streams, copy j starting j*N/K events late; they take
** turns event by event, and one that ended stays ended. An event is a tick of its copy's stream. A
** block's storage is made on that stream, and its free is its last use there; a block that comes
** with another stream's pending work waits for that, on the device, at its birth. Without `touch`
** ticks have no work behind them and no block's memory is written. With it each birth is a kernel
** that writes a pattern of the block's own, each free one that compares.
** A pass plays everything once; what lives at its end is freed behind the timed part, so that
** passes are alike. */
#ifndef TIDE_REPLAY_H
#define TIDE_REPLAY_H

#include "tools/tide/gauge.h"
#include "tools/tide/touch.h"
#include "tools/tide/trace.h"

typedef struct tidei_replay_options {
    /* as tide_config has them; NULL: the environment's, then the default */
    const char *device, *pool;
    const char *limit; /* as tide_config has it, or NULL */
    /* > 0: the limit is this times the schedule's peak, and two pages; `limit` is NULL */
    double limit_factor;
    unsigned streams; /* 1 to TIDEI_GAUGE_STREAMS */
    uint64_t lag;     /* ticks of a stream that are never complete */
    unsigned pinned;  /* percent of the blocks, pinned while they live */
    bool touch;
} tidei_replay_options;

typedef struct tidei_replay_figures { /* of one pass */
    uint64_t events, ns;              /* ns: of the timed part */
    size_t peak_live, peak_reserved;
    uint64_t driver_calls; /* for memory */
    uint64_t compactions, bytes_moved, bytes_remapped;
    uint64_t device_waits, climbs;
    uint64_t failed;               /* allocations that did not fit; their frees do nothing */
    uint64_t verified, mismatches; /* blocks compared, words that differed */
} tidei_replay_figures;

typedef struct tidei_replay_copy {
    tidei_stream *s;
    tidei_storage **blocks; /* by number; NULL: not alive */
    unsigned number;
} tidei_replay_copy;

typedef struct tidei_replay {
    tidei_replay_options o;
    const tidei_trace *trace;
    tidei_gauge gauge;
    tidei_runtime *rt;
    tidei_dev *dev;
    tidei_touch touch;
    tidei_replay_copy copies[TIDEI_GAUGE_STREAMS];
    bool untouched;            /* a host device has as much memory as we like: nobody writes it */
    uint64_t passes;           /* so far */
    uint64_t failed, verified; /* in this pass */
    tidei_saved_error failure; /* the report of the first failed allocation; TIDE_OK: none failed */
} tidei_replay;

/* The trace stays the caller's. The device is opened as tide_open would; where no memory is
** written, a host device of TIDE_HOST_DEVICE_MEMORY, or else of more than the machine has.
** TIDE_E_INVALID: an option that nobody can serve. */
tide_status tidei_replay_open(const tidei_replay_options *o, const tidei_trace *trace,
                              tidei_replay **out);
/* Plays once. A failed allocation is a figure; what else goes wrong ends the replay. */
tide_status tidei_replay_pass(tidei_replay *r, tidei_replay_figures *out);
void tidei_replay_close(tidei_replay *r); /* NULL is legal */

/* The most bytes that live at one time when so many copies play. */
uint64_t tidei_replay_peak(const tidei_trace *trace, unsigned streams);
/* Whether a block is among the pinned ones: the same in every run. */
bool tidei_replay_pins(unsigned percent, unsigned copy, uint32_t block);

#endif
