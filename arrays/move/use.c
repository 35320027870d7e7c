/* use.c: use scopes (tide_use_begin .. tide_use_end): addresses for kernels and library calls that
** are not ours.
**
** At begin the stream is ordered, on the device, after what the uses need; at end one tick is taken
** that covers everything queued in between, and the uses are written into the storages' histories
** at that tick. The scope holds a reference and a pin on every storage, so nothing can go, move or
** be reused meanwhile. */
#include "arrays/arrays.h"
#include "arrays/move/lent.h"
#include "runtime/memory/capture.h"

/* What a tide_use_scope refers to. */
typedef struct use_scope {
    tidei_lent lent;
    tidei_runtime *rt;
    tidei_stream *s;
    bool holds_stream;
    size_t n;
    tidei_operand operands[TIDEI_USES_MAX];
    tidei_use uses[TIDEI_USES_MAX];
} use_scope;

static void let_go(use_scope *u) {
    for (size_t i = 0; i < u->n; i++) {
        tidei_storage_unpin(u->operands[i].st);
        tidei_operand_put(&u->operands[i]);
    }
    tidei_host_free(u->rt, u);
}

/* The runtime closes before the scope was ended: no later use is to be ordered after it. */
static void close_scope(tidei_lent *l) {
    use_scope *u = (use_scope *)l;
    tidei_stream_let_go(u->s);
    let_go(u);
}

/* Releases what the scope has so far. */
static void undo_begin(tidei_runtime *rt, tidei_thread *t, void *u, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    if (((use_scope *)u)->holds_stream) tidei_stream_let_go(((use_scope *)u)->s);
    let_go(u);
}

static tide_status gather(use_scope *u, const tide_use *uses, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!uses[i].mode || (uses[i].mode & ~(TIDE_READ | TIDE_WRITE)))
            return tidei_fail(TIDE_E_INVALID, "tide_use_begin",
                              "mode %d of use %zu is none of TIDE_READ, TIDE_WRITE, or both",
                              uses[i].mode, i);
        tide_status status = tidei_operand_get_of(u->rt, uses[i].array, "tide_use_begin",
                                                  TIDEI_LISTED(3, i), &u->operands[i]);
        if (status != TIDE_OK) return status;
        if (uses[i].mode & TIDE_WRITE && tidei_layout_repeats(&u->operands[i].lay)) {
            tidei_operand_put(&u->operands[i]);
            return tidei_fail(TIDE_E_INVALID, "tide_use_begin", "use %zu writes " TIDEI_STRETCHED,
                              i);
        }
        tidei_storage_pin(u->operands[i].st); /* the address is lent */
        u->n = i + 1;
        u->uses[i] = tidei_operand_use(&u->operands[i], (unsigned)uses[i].mode);
        tidei_operand_keep(&u->operands[i]); /* the scope keeps it */
    }
    return TIDE_OK;
}

/* The address of element [0, 0, ...], which with negative strides is not the lowest. */
static void *first_element(const tidei_operand *o) {
    if (!o->st->bytes) return NULL;
    return (void *)(uintptr_t)(o->st->addr +
                               (tidei_addr)o->lay.offset * tide_dtype_size(o->lay.dtype));
}

/* Orders the stream and holds it: even if it is released within the scope, it serves until the
** scope ends. */
static tide_status order(use_scope *u) {
    u->holds_stream = tidei_stream_hold(u->s) != NULL;
    if (!u->holds_stream)
        return tidei_fail(TIDE_E_INVALID, "tide_use_begin", "the stream was released");
    tide_status status = tidei_stream_usable(u->s);
    if (status != TIDE_OK) status = tidei_device_failed(u->s, status, "tide_use_begin");
    if (status == TIDE_OK) status = tidei_order(u->s, u->uses, (unsigned)u->n, "tide_use_begin");
    if (status != TIDE_OK) tidei_stream_let_go(u->s);
    return status;
}

tide_status tide_use_begin(tide_runtime *ref, tide_stream *stream, const tide_use *uses, size_t n,
                           void **ptrs, tide_use_scope **out) {
    TIDEI_OPERATION("tide_use_begin");
    for (size_t i = 0; uses && i < n && i < TIDEI_USES_MAX; i++)
        if (!uses[i].array) return tidei_null_array("tide_use_begin", TIDEI_LISTED(3, i));
    tidei_thread *t = tidei_enter(ref, "tide_use_begin");
    if (!t) return tidei_last_status();
    if (!out || (n && (!uses || !ptrs)))
        return tidei_fail(TIDE_E_INVALID, "tide_use_begin", "%s is NULL",
                          !out    ? "out"
                          : !uses ? "the list of uses"
                                  : "the list of addresses");
    if (n > TIDEI_USES_MAX)
        return tidei_fail(TIDE_E_INVALID, "tide_use_begin",
                          "%zu uses; at most %d can be had at once", n, TIDEI_USES_MAX);
    tidei_stream *s = tidei_stream_of(t, stream, "tide_use_begin");
    if (!s) return tidei_last_status();
    tidei_runtime *rt = s->dev->rt;
    tide_status refused = tidei_capture_refused(rt, "tide_use_begin", "lends addresses");
    if (refused != TIDE_OK) return refused;
    if (atomic_load(&s->dev->d->lost)) return tidei_lost(s->dev, "tide_use_begin");
    use_scope *u = tidei_host_alloc(rt, sizeof *u);
    if (!u) return tidei_fail_host_memory("tide_use_begin", sizeof *u);
    u->rt = rt;
    u->s = s;
    tidei_hold(t, undo_begin, u, 0);
    tide_status status = gather(u, uses, n);
    tidei_moves_wait(rt->moves); /* a move that began before the pins were seen has ended */
    if (status == TIDE_OK) status = tidei_uses_return(s, u->uses, (unsigned)u->n, "tide_use_begin");
    if (status == TIDE_OK) status = order(u);
    tidei_let(t, u);
    if (status != TIDE_OK) {
        let_go(u);
        return status;
    }
    status = tidei_lend(rt, TIDEI_REF_SCOPE, &u->lent, close_scope, "tide_use_begin");
    if (status != TIDE_OK) return close_scope(&u->lent), status;
    for (size_t i = 0; i < n; i++) ptrs[i] = first_element(&u->operands[i]);
    *out = u->lent.ref;
    return TIDE_OK;
}

/* A longjmp left the end of the scope. No stamp names the scope's work, so this waits for it before
** anything is released. */
static void undo_end(tidei_runtime *rt, tidei_thread *t, void *u, uintptr_t of) {
    tidei_saved_error e;
    (void)rt, (void)t, (void)of;
    tidei_error_save(&e);
    (void)!tidei_stream_finish(((use_scope *)u)->s);
    tidei_error_restore(&e);
    close_scope(u);
}

/* Waits for the scope's work where a storage had no room for its stamp: otherwise nobody would wait
** for it. */
static tide_status wait_for_work(use_scope *u) {
    tidei_thread *t = tidei_thread_look(u->rt);
    tidei_hold(t, undo_end, u, 0);
    tide_status status = tidei_stream_wait(u->s, true);
    tidei_let(t, u);
    return status;
}

tide_status tide_use_end(tide_use_scope *ref) {
    TIDEI_OPERATION("tide_use_end");
    use_scope *u = (use_scope *)tidei_take_back(TIDEI_REF_SCOPE, ref, "tide_use_end");
    if (!u) return tidei_last_status();
    pthread_mutex_lock(&u->s->lock);
    uint64_t tick = tidei_stream_tick(u->s);
    u->s->last_op = "tide_use_end";
    bool known = tidei_publish_uses(u->s, u->uses, (unsigned)u->n, tick);
    tidei_stream_after_work(u->s);
    tidei_record_submit(u->s, tidei_record_begin(u->s), "tide_use_end");
    pthread_mutex_unlock(&u->s->lock);
    tide_status status = known ? TIDE_OK : wait_for_work(u);
    bool lost = atomic_load(&u->s->dev->d->lost);
    tidei_dev *d = u->s->dev;
    tidei_stream_let_go(u->s);
    let_go(u);
    if (lost) return tidei_lost(d, "tide_use_end");
    return status == TIDE_OK ? TIDE_OK : tidei_fail_as("tide_use_end");
}

struct call {
    void (*fn)(void *arg);
    void *arg;
};
static void run_call(const void *params) {
    const struct call *c = params;
    c->fn(c->arg);
}

tide_status tide_use_launch(tide_use_scope *ref, void (*fn)(void *arg), void *arg) {
    use_scope *u = tidei_ref_find(TIDEI_REF_SCOPE, ref, "tide_use_launch");
    if (!u) return tidei_last_status();
    if (!fn) return tidei_fail(TIDE_E_INVALID, "tide_use_launch", "the function is NULL");
    tidei_device *d = u->s->dev->d;
    tide_status refused =
        tidei_capture_refused(u->rt, "tide_use_launch", "queues a function of the program's");
    if (refused != TIDE_OK) return refused;
    if (!(d->info.flags & TIDEI_DEV_RUNS_HOST))
        return tidei_fail(TIDE_E_UNSUPPORTED, "tide_use_launch",
                          "%s runs no host functions; launch a kernel on tide_stream_native",
                          d->info.name);
    struct call c = {fn, arg};
    tidei_range ranges[TIDEI_USES_MAX];
    for (size_t i = 0; i < u->n; i++) ranges[i] = tidei_use_range(&u->uses[i]);
    tidei_launch l = {.name = "tide_use_launch",
                      .host_fn = run_call,
                      .params = &c,
                      .params_bytes = sizeof c,
                      .ranges = ranges,
                      .nranges = (unsigned)u->n};
    pthread_mutex_lock(&u->s->lock);
    tidei_count_locked(&u->s->launches);
    pthread_mutex_unlock(&u->s->lock);
    tide_status status = d->ops->launch(d, u->s->ds, &l);
    tidei_device_speak(d);
    return status == TIDE_OK ? TIDE_OK : tidei_device_failed(u->s, status, "tide_use_launch");
}
