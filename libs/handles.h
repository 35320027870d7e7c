/* handles.h: library handles as memory that gives way: one cache for all libraries, filled by a
** short table each.
**
** Model. A device has a table of slots. A slot is empty, idle, or taken; a thread takes it by one
** CAS and then owns what is in it. A call takes an idle handle of its kind, binds it to its stream
** and workspace, queues its work and gives it back: no thread and no stream owns one in between, so
** the ladder finds all handles outside a call, also those that a sleeping thread used last.
** What must stay true: a handle's bytes are counted against the limits from before it is made until
** it is destroyed. For the first of a kind the table says what to reserve; what it took is then
** measured, and counts for it and all later ones. Idle handles hold no more than the cap, the last
** used one of each kind apart; the least recently used go first. The ladder's purge takes idle
** handles except the last used one of each kind, its drop takes that one too. Where a handle of the
** kind exists another one is made only if it fits without a climb; otherwise the call waits for
** one. A handle holds no memory of a call: workspaces are blocks of our pool that the call uses
** like operands. */
#ifndef TIDEI_HANDLES_H
#define TIDEI_HANDLES_H

#include "runtime/runtime.h"

/* Describes a library's handles to the cache. The slots return the library's own status, 0 is
** success, and are called in the device's context; with no lock held, but for `create` and
** `destroy`, of which a device has one under way at a time. `lib` is the library's table of
** functions, which the caller passes on. */
typedef struct tidei_handle_kind {
    const char *name; /* "cuBLAS" */
    /* bytes of device memory a handle takes, roughly: reserved for the first one */
    size_t about;
    /* no handle takes more: what is measured beyond it another process took at that moment */
    size_t most;
    /* the table, for the ladder, which has no call to take it from; NULL: no longer loaded */
    const void *(*lib)(void);
    unsigned (*create)(const void *lib, void **out);
    unsigned (*destroy)(const void *lib, void *handle); /* may wait for the device */
    unsigned (*set_stream)(const void *lib, void *handle, void *native);
    /* (may be NULL: calls take their workspaces as arguments) Called after each set_stream. NULL,
    ** 0: the library is to use no workspace, its own ones neither. */
    unsigned (*set_workspace)(const void *lib, void *handle, void *at, size_t bytes);
    /* statuses that may mean a lack of memory; they do if the device is in fact short */
    const unsigned *short_codes;
    unsigned nshort;
} tidei_handle_kind;

typedef struct tidei_handles tidei_handles; /* the caches of a runtime */
tide_status tidei_handles_open(tidei_runtime *rt, tidei_handles **out);
void tidei_handles_close(tidei_handles *h); /* no call is under way */

/* A call of a library as work on a stream. `uses` are its operands; with `workspace` the last of
** them is what set_workspace is told, without it is told of none. `run` queues the work on the
** native `stream`, which the handle was told, and returns the library's status; it may be called
** again after a status that turned out to mean a lack of memory. Then `again` (may be NULL:
** operands are as they were), called outside the submission, first restores what the failed
** attempt may have overwritten. `describe` says what was asked for, for the message of a failure:
** "a product of (3, 4) by (4, 5)".
** Where the calling thread captures (memory/capture.h) the call becomes a node, which has a copy of
** `arg`, and is made when a graph is built. Then, with `bare_first`, it is made without its
** workspace first, and with it only if the library refuses that. */
typedef struct tidei_library_call {
    const tidei_handle_kind *kind;
    const void *lib;
    tidei_stream *s;
    const tidei_use *uses;
    unsigned n;
    bool workspace;
    unsigned (*run)(const struct tidei_library_call *c, void *handle, void *stream,
                    const tidei_submission *w);
    tide_status (*again)(const struct tidei_library_call *c);
    void (*describe)(const struct tidei_library_call *c, char *buf, size_t cap);
    void *arg;
    size_t arg_bytes; /* 0: the call cannot be captured */
    bool bare_first;
    const char *op;
} tidei_library_call;

/* A call has three steps. Between begin and end the ladder leaves one handle of the kind on s's
** device, so that memory for the call's results and workspace is not made by destroying the handle
** that it is about to use; begin makes one where there is none, and climbs for it. The handle
** itself is taken for the time of `run` or `ask` only. Pairs nest. */
tide_status tidei_library_begin(
    /* c->uses, n, run, again need not be there yet; on failure no end */
    const tidei_library_call *c);
void tidei_library_end(const tidei_library_call *c);
/* Submits the call. The uses' devices must be reachable: tidei_peer_need before. */
tide_status tidei_library_run(const tidei_library_call *c);
/* Asks the library something that it answers without queueing work (how large a workspace must be),
** in the context. A failure is reported as a call's. */
tide_status tidei_library_ask(const tidei_library_call *c,
                              unsigned (*ask)(const tidei_library_call *c, void *handle));
/* begin in two halves, and end, for callers that make a result before the library is known to be
** there: keep, then provide, which makes a handle where there is none. */
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
