/* handles.h: library handles as memory that gives way: one cache for all libraries, filled by a
** short table each.
**
** Model. A device has a table of slots. A slot is empty, idle, or taken; it changes hands by one
** CAS, and who has taken it owns what is in it. A call takes an idle handle of its kind, binds it
** to its stream and workspace, queues its work and gives it back: no thread and no stream owns one
** in between, so the reclaimer finds all that are outside a call, also those a parked thread used
** last.
** What must stay true: a handle's bytes are counted against the limits from before it is made until
** it is destroyed. The first of a kind reserves what the table says, and what it took, measured,
** counts for it and all later ones. Idle handles hold no more than the cap, but for the last used
** one of each kind; what exceeds it goes by least recent use. The ladder's purge takes those that
** are idle but for the last used one of each kind, its drop that one too. Duplicates are a luxury:
** where one of the kind exists, another one is made only if it fits without a climb, else its turn
** is waited for. A handle outlives no call's memory: workspaces are blocks of our pool that the
** call uses like operands. */
#ifndef TIDEI_HANDLES_H
#define TIDEI_HANDLES_H

#include "runtime/runtime.h"

/* What a library is to the cache. The slots return the library's own status, 0 is success, and are
** called in the device's context; with no lock held, but for `create` and `destroy`, of which a
** device has one under way at a time. `lib` is the caller's: the library's table of functions. */
typedef struct tidei_handle_kind {
    const char *name; /* "cuBLAS" */
    /* bytes of device memory a handle takes, roughly: reserved for the first one */
    size_t about;
    /* more no handle takes: what is measured beyond it somebody else took at that moment */
    size_t most;
    /* the table, for the reclaimer, which has no caller; NULL: not loaded any more */
    const void *(*lib)(void);
    unsigned (*create)(const void *lib, void **out);
    unsigned (*destroy)(const void *lib, void *handle); /* may wait for the device */
    unsigned (*set_stream)(const void *lib, void *handle, void *native);
    /* (may be NULL: it takes workspaces by the call) After each set_stream. NULL, 0: it is to do
    ** without, its own ones included. */
    unsigned (*set_workspace)(const void *lib, void *handle, void *at, size_t bytes);
    /* statuses that may stand for a lack of memory; they do where the device is in fact short */
    const unsigned *short_codes;
    unsigned nshort;
} tidei_handle_kind;

typedef struct tidei_handles tidei_handles; /* the caches of a runtime */
tide_status tidei_handles_open(tidei_runtime *rt, tidei_handles **out);
void tidei_handles_close(tidei_handles *h); /* no call is under way */

/* A call of a library as work on a stream. `uses` are its operands; with `workspace` the last of
** them is what set_workspace is told, without it is told of none. `run` queues the work and returns
** the library's status; it may be called again after a status that turned out to mean a lack of
** memory. Then `again` (may be NULL: operands are as they were), called outside the window, first
** brings back what the failed attempt may have overwritten. `describe` says what was asked for, for
** the message of a failure: "a product of (3, 4) by (4, 5)". */
typedef struct tidei_library_call {
    const tidei_handle_kind *kind;
    const void *lib;
    tidei_stream *s;
    const tidei_use *uses;
    unsigned n;
    bool workspace;
    unsigned (*run)(const struct tidei_library_call *c, void *handle, const tidei_submission *w);
    tide_status (*again)(const struct tidei_library_call *c);
    void (*describe)(const struct tidei_library_call *c, char *buf, size_t cap);
    void *arg;
    const char *op;
} tidei_library_call;

/* A call has three steps. Between begin and end the ladder leaves one handle of the kind on s's
** device alone, so that what the call needs besides, its results and its workspace, is not made of
** the handle that it is about to use; begin makes one where there is none, climbing for it. The
** handle itself is taken for the time of `run` or `ask` only. Pairs nest. */
tide_status tidei_library_begin(
    /* c->uses, n, run, again need not be there yet; on failure no end */
    const tidei_library_call *c);
void tidei_library_end(const tidei_library_call *c);
/* Submits the call. The uses' devices must be reachable: tidei_peer_need before. */
tide_status tidei_library_run(const tidei_library_call *c);
/* A question that the library answers without queueing work (how large a workspace must be), in the
** context. A failure is reported as that of a call. */
tide_status tidei_library_ask(const tidei_library_call *c,
                              unsigned (*ask)(const tidei_library_call *c, void *handle));
/* The two halves of begin, and end: for who makes a result before the library is known to be there.
** provide, between the others, makes a handle where there is none. */
void tidei_library_keep(tidei_dev *d, const tidei_handle_kind *kind);
void tidei_library_unkeep(tidei_dev *d, const tidei_handle_kind *kind);
tide_status tidei_library_provide(const tidei_library_call *c);

/* Another cap (TIDE_HANDLE_CACHE) on what idle handles of a device hold together, for all devices
** of the runtime, at once. */
void tidei_handles_set_cap(tidei_runtime *rt, size_t bytes);

/* For status texts and tests: handles that exist on the device, those of them outside a call, and
** the bytes of each. */
typedef struct tidei_handle_figures {
    unsigned made, idle;
    size_t bytes, idle_bytes;
} tidei_handle_figures;
void tidei_handles_figures(tidei_dev *d, const tidei_handle_kind *kind /* NULL: all */,
                           tidei_handle_figures *out);

#endif
