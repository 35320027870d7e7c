/* policy.h: a policy of one's own: when to collect before memory runs out.
**
** A collector knows what is dead only once it has run, and running it costs time. A policy is asked
** at safe points, sees a snapshot of what the runtime knows there, and answers which collection to
** ask for, or none. The same table serves live (tide_config.policy, TIDE_POLICY) and in virtual
** time (`tide study --policy`). It is registered by a program (tide_policy_register) and then named
** wherever a policy is named, or lies in a shared object that is named by a path with a `/` in it:
** `./mine.so`, `./mine.so(share=0.5)`. docs/own-policy.md writes one from nothing.
**
** Bytes are of one budget: a device's memory, or what arrays take of the host's. Each device of
** each runtime, and the host's budget of each, has a state of its own. */
#ifndef TIDE_POLICY_H
#define TIDE_POLICY_H

#include <tide/collector.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Where the question comes from. */
enum {
    TIDE_POLICY_AT_ALLOC = 0,    /* an array is about to be made */
    TIDE_POLICY_AT_SYNC = 1,     /* the host is about to wait for the device */
    TIDE_POLICY_AT_SAFEPOINT = 2 /* tide_safepoint, or another device's sync point */
};
/* Collections that may be asked for. */
enum { TIDE_POLICY_MINOR = 2, TIDE_POLICY_FULL = 4 };

/* What the runtime knows. Valid during the call. */
typedef struct tide_policy_snapshot {
    size_t struct_size; /* the library's: a later one may have more fields at the end */
    uint64_t now_ns;    /* of a clock that never goes back; never 0; in a study the virtual one */
    int32_t where;      /* TIDE_POLICY_AT_* */
    uint32_t levels;    /* TIDE_POLICY_MINOR, TIDE_POLICY_FULL: what the collectors offer; not 0 */
    /* of these the one to ask for, as TIDE_COLLECT_*: a minor one; a full one after a minor one
    ** that freed less than a quarter of the growth, or once what minor ones left has cost enough */
    int32_t level;
    uint32_t threads; /* attached to the runtime: a collection may stop them all */
    /* bytes taken by arrays and workspaces, live or dead and not yet found, with what granules
    ** lose */
    uint64_t used;
    uint64_t rounding; /* of these what granules lose */
    uint64_t request;  /* bytes wanted now, not in `used`; 0 where no array is made */
    /* what `used` may come to: the hard limit, else the soft one, else the device, less the state
    ** of libraries (cuBLAS, ...) */
    uint64_t limit;
    uint64_t hard, soft; /* the limits on `backed` and `library` together; UINT64_MAX: none */
    uint64_t library;    /* bytes of libraries' state */
    uint64_t total;      /* bytes of the device */
    uint64_t available;  /* bytes free on the device or backed by us; may be some seconds old */
    uint64_t backed;     /* bytes taken from the driver: use grows up to there at no cost */
    uint64_t slack_ns;   /* device work still queued: a pause this long costs nothing */
    /* ns that a byte beyond `backed` takes; 0: nothing, or freed memory is not kept either */
    double fresh_ns;
    /* of earlier collections */
    uint64_t opened_ns;   /* time of the first question */
    uint64_t ended_ns;    /* end of the last collection; 0: there was none */
    uint64_t base;        /* `used` after the last collection, or the least since: a collection
                          ** finds at most used - base */
    double minor_ns;      /* average pause of a minor one; 0: there was none */
    double full_ns;       /* the same of a full one */
    double minor_freed;   /* bytes that a ns of a minor one freed, on average */
    double full_freed;    /* the same of a full one */
    double yield;         /* average share of the growth that they freed; 0: there was none */
    const double *params; /* values of the policy's parameters, in the order of its table */
    /* the largest request for which no block would have to be moved, at least: its pool has a free
    ** piece of that size, or can grow by as much; 0: none, or nobody knows (where no array is made,
    ** of pools other than `tide`, of the host's budget, in a study) */
    uint64_t largest;
} tide_policy_snapshot;

/* The answer; `decide` fills it in. */
typedef struct tide_policy_decision {
    size_t struct_size; /* the library's, as in tide_policy_snapshot */
    /* TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL, 0 (as it comes): none. One that is not offered becomes
    ** the snapshot's `level`. A negative one: it could not decide, and `reason` is what went wrong,
    ** which need not be static then; an answer that makes no sense, as others (below). */
    int32_t level;
    int32_t reserved;
    /* where `level` is 0: used + request at which to be asked again where an array is made; 0 (as
    ** it comes): at the next one; UINT64_MAX: never. Sync points and safe points ask in any case.
    ** Without a limit it is asked after growth by a 64th of the device at the latest. */
    uint64_t wake_at;
    const char *reason; /* why, in a few words; static; never NULL (as it comes) */
} tide_policy_decision;

/* A collection that ran. */
typedef struct tide_policy_collection {
    size_t struct_size; /* the library's, as in tide_policy_snapshot */
    int32_t level;      /* TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL */
    int32_t early;      /* a policy asked for it; 0: an allocation failed, or tide_collect */
    uint64_t start_ns;  /* when it began */
    uint64_t pause_ns;  /* how long the program stood */
} tide_policy_collection;

/* How a parameter's value is written, as in `mine(share=0.5,pause=5ms)`. */
enum {
    TIDE_PARAM_NUMBER = 0, /* 0.5, 1e3 */
    TIDE_PARAM_BYTES = 1,  /* 4096, 256MiB */
    TIDE_PARAM_TIME = 2,   /* in ns; written 50us, 20ms, 1s */
    TIDE_PARAM_SWITCH = 3  /* 0, 1 */
};
/* A parameter: 0 <= low <= usual <= high. This struct does not grow. */
typedef struct tide_policy_param {
    const char *name; /* of letters, digits and `_` */
    int32_t kind;     /* TIDE_PARAM_NUMBER, TIDE_PARAM_BYTES, TIDE_PARAM_TIME, TIDE_PARAM_SWITCH */
    int32_t reserved;
    double usual, low, high;
    const char *meaning; /* (may be NULL) a few words */
} tide_policy_param;

#define TIDE_POLICY_PARAMS_MAX 12
#define TIDE_POLICY_STATE_MAX  ((size_t)1 << 20)

/* A policy. Zero everything, set struct_size = sizeof(tide_policy), fill in what matters.
**
** The slots are called without any lock of the library, by whatever thread comes to a safe point;
** by one thread at a time for each state, and at the same time for several. They call nothing of
** the library, block nowhere, read no clock (`now_ns` is the time) and take microseconds: every
** array that is made may ask. One that computes from its arguments and its state alone does the
** same in a study as live. They may be left by longjmp or an exception: then the call that they
** were in is gone as docs/embedding.md says, nothing is collected, and the policy is asked again.
** What they write outside of the state may be met by other threads. A crash is the process's; under
** `tide study` it is only the run's.
**
** An answer that makes no sense (a level that is none, no reason, a `wake_at` other than 0 that is
** reached already) means: do not collect, ask again at the next array. The log has a warning for
** the first one of a runtime; a study counts them. */
typedef struct tide_policy {
    size_t struct_size;
    /* what it is named by: of letters, digits, `_`, `-` and `.`, up to 40 of them */
    const char *name;
    const char *summary; /* (may be NULL) when it collects, for lists */
    void *user;          /* given to both slots; lives as long as the process */
    /* bytes of state, up to TIDE_POLICY_STATE_MAX: zeroed when the runtime opens, or a run of a
    ** study begins; aligned as malloc aligns */
    size_t state_bytes;
    /* (may be NULL) its parameters, nparams of them, up to TIDE_POLICY_PARAMS_MAX */
    const tide_policy_param *params;
    size_t nparams;
    /* not 0: no guard. With it, after a collection that freed nothing and took more than a
    ** twentieth of the time there is none before a tenth of the room is used or a hundred times its
    ** pause has passed. */
    int32_t unguarded;
    int32_t reserved;
    /* Decides. `state`: as the last call left it. Where collections cannot be asked for, or the
    ** runtime is collecting, it is not called. */
    void (*decide)(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out);
    /* (optional) A collection ran, whoever wanted it: the snapshots just before it and after what
    ** it found was freed; both have the averages with this collection in them. */
    void (*observe)(void *user, void *state, const tide_policy_snapshot *before,
                    const tide_policy_snapshot *after, const tide_policy_collection *c);
} tide_policy;

/* Registers a copy of the table, of its texts and parameters, for the rest of the process, which
** has no way to take it out. Runtimes that are open stay with theirs. Any time, from any thread.
** TIDE_E_INVALID: the policy is NULL, struct_size is none, or the message says which field is not
** as it must be; or a policy has that name. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_policy_register(const tide_policy *policy);

/* The one symbol that a policy's shared object has: `const tide_policy tide_policy_entry = {...};`.
** It is found by dlopen, once, and stays open for the rest of the process; it is not linked with
** the library, which has no such symbol itself. Its name may be one that is taken. Only a path that
** the program gave (tide_config.policy), or the environment (TIDE_POLICY, which a setuid program
** does not read), or the command line is ever opened. */
extern TIDE_API const tide_policy tide_policy_entry;

#if defined(__cplusplus)
}
#endif
#endif
