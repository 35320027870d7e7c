/* adapt.c: structures of arrays between host and device: rules, the outline that they make of a
** structure, and the move.
**
** Rules are in a list of the runtime's. Moving a structure, or making batches of it, first lays it
** out flat, under the list's lock, and then needs no rule any more. A move builds a copy aside, and
** hands it out only when it is whole. */
#include "arrays/expr/copy.h"
#include "arrays/move/adapt.h"
#include "gc/gc.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

#include <inttypes.h>
#include <stdalign.h>

#define DEPTH_MOST 16 /* structures within each other: a rule that contains itself ends here */
/* structures and arrays of one type; a wrong rule could ask for any number */
#define VISITS_MOST 65536
#define PATH_MAX_   128 /* characters of a name; an error can show so many */

typedef struct tidei_rule {
    struct tidei_rule *next;
    const tide_adapt_rule *rule;
    uint64_t id;
} tidei_rule;

/* ---- the list ---- */

static tidei_rule **find_rule(tidei_runtime *rt, const char *type) {
    tidei_rule **p = &tidei_arrays_of(rt)->rules;
    while (*p && strcmp((*p)->rule->type, type)) p = &(*p)->next;
    return p;
}

static tide_status check_field(const tide_adapt_rule *r, const tide_adapt_field *f,
                               const char *op) {
    size_t end = f->type ? f->count : 0; /* an inner structure has a byte at least */
    if (!f->name || !f->count)
        return tidei_fail(TIDE_E_INVALID, op, "a field of \"%s\" has no name, or a count of 0",
                          r->type);
    if ((!f->type && __builtin_mul_overflow(f->count, sizeof(tide_data), &end)) ||
        __builtin_add_overflow(end, f->offset, &end) || end > r->bytes)
        return tidei_fail(TIDE_E_INVALID, op, "field %s of \"%s\" ends beyond its %zu bytes",
                          f->name, r->type, r->bytes);
    return TIDE_OK;
}

static tide_status check_rule(const tide_adapt_rule *r, const char *op) {
    if (!r || !r->type || !*r->type || !r->bytes || (r->nfields && !r->fields))
        return tidei_fail(TIDE_E_INVALID, op,
                          "the rule is NULL, or has no type, no size or no fields");
    for (size_t i = 0; i < r->nfields; i++) {
        tide_status s = check_field(r, &r->fields[i], op);
        if (s != TIDE_OK) return s;
    }
    return TIDE_OK;
}

tide_status tide_adapt_register(tide_runtime *ref, const tide_adapt_rule *rule, uint64_t *id) {
    static const char op[] = "tide_adapt_register";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return tidei_last_status();
    tide_status s = check_rule(rule, op);
    if (s != TIDE_OK) return s;
    tidei_rule *node = tidei_host_alloc(rt, sizeof *node);
    if (!node) return tidei_fail_host_memory(op, sizeof *node);
    pthread_mutex_t *lock = &tidei_arrays_of(rt)->adapt_lock;
    pthread_mutex_lock(lock);
    bool known = *find_rule(rt, rule->type) != NULL;
    if (!known) {
        node->rule = rule;
        node->id = ++tidei_arrays_of(rt)->last_rule;
        node->next = tidei_arrays_of(rt)->rules;
        tidei_arrays_of(rt)->rules = node;
        if (id) *id = node->id;
    }
    pthread_mutex_unlock(lock);
    if (!known) return TIDE_OK;
    tidei_host_free(rt, node);
    return tidei_fail(TIDE_E_INVALID, op, "the type \"%s\" is registered already", rule->type);
}

tide_status tide_adapt_unregister(tide_runtime *ref, uint64_t id) {
    static const char op[] = "tide_adapt_unregister";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return tidei_last_status();
    pthread_mutex_t *lock = &tidei_arrays_of(rt)->adapt_lock;
    pthread_mutex_lock(lock);
    tidei_rule **p = &tidei_arrays_of(rt)->rules;
    while (*p && (*p)->id != id) p = &(*p)->next;
    tidei_rule *gone = *p;
    if (gone) *p = gone->next;
    pthread_mutex_unlock(lock);
    if (!gone) return tidei_fail(TIDE_E_INVALID, op, "no rule %" PRIu64 " is registered", id);
    tidei_host_free(rt, gone);
    return TIDE_OK;
}

void tidei_rules_close(tidei_runtime *rt) {
    tidei_arrays *a = tidei_arrays_of(rt);
    for (tidei_rule *x; (x = a->rules);) {
        a->rules = x->next;
        tidei_host_free(rt, x);
    }
}

/* ---- a structure, depth first ---- */

struct tour {
    tidei_runtime *rt;
    const char *op;
    size_t visits;
    /* what is done at an array, and (may be NULL) behind a structure */
    void (*leaf)(void *user, size_t offset, const char *name);
    void (*follow)(void *user, size_t offset, const tide_adapt_rule *r);
    void *user;
};

static tide_status visit(struct tour *t, const char *type, size_t room, size_t offset,
                         const char *path, int depth);

static tide_status visit_field(struct tour *t, const tide_adapt_rule *r, const tide_adapt_field *f,
                               size_t offset, const char *path, int depth) {
    for (size_t i = 0; i < f->count; i++) {
        char name[PATH_MAX_], number[24] = "";
        if (f->count > 1) tidei_format(number, sizeof number, "[%zu]", i);
        if (tidei_format(name, sizeof name, "%s%s%s%s", path, *path ? "." : "", f->name, number) <
            0)
            *name = 0;
        if (++t->visits > VISITS_MOST)
            return tidei_fail(TIDE_E_INVALID, t->op,
                              "%s of \"%s\": more than %d arrays and structures", name, r->type,
                              VISITS_MOST);
        size_t room = (r->bytes - f->offset) / f->count;
        if (!f->type) {
            t->leaf(t->user, offset + f->offset + i * sizeof(tide_data), name);
            continue;
        }
        tidei_rule *inner = *find_rule(t->rt, f->type);
        size_t step = inner ? inner->rule->bytes : 0;
        tide_status s = visit(t, f->type, room, offset + f->offset + i * step, name, depth + 1);
        if (s != TIDE_OK) return s;
    }
    return TIDE_OK;
}

/* Visits a structure of this type at `offset`, where there is `room` for it. */
static tide_status visit(struct tour *t, const char *type, size_t room, size_t offset,
                         const char *path, int depth) {
    tidei_rule *node = *find_rule(t->rt, type);
    if (!node)
        return tidei_fail(TIDE_E_INVALID, t->op, "no rule is registered for the type \"%s\"%s%s",
                          type, *path ? " of " : "", path);
    const tide_adapt_rule *r = node->rule;
    if (r->bytes > room)
        return tidei_fail(TIDE_E_INVALID, t->op, "%s has no room for the %zu bytes of a \"%s\"",
                          path, r->bytes, type);
    if (depth > DEPTH_MOST)
        return tidei_fail(TIDE_E_INVALID, t->op, "%s: a \"%s\" lies more than %d structures deep",
                          path, type, DEPTH_MOST);
    for (size_t i = 0; i < r->nfields; i++) {
        tide_status s = visit_field(t, r, &r->fields[i], offset, path, depth);
        if (s != TIDE_OK) return s;
    }
    if (r->moved && t->follow) t->follow(t->user, offset, r);
    return TIDE_OK;
}

static tide_status check_type(tidei_runtime *rt, const char *type, const char *op) {
    if (!type) return tidei_fail(TIDE_E_INVALID, op, "the type is NULL");
    return tidei_thread_get(rt) ? TIDE_OK : tidei_last_status();
}

/* ---- outlines ---- */

static void count_leaf(void *user, size_t offset, const char *name) {
    (void)offset;
    (void)name;
    ((tidei_outline *)user)->nleaves++;
}
static void count_follow(void *user, size_t offset, const tide_adapt_rule *r) {
    (void)offset;
    (void)r;
    ((tidei_outline *)user)->nfollows++;
}

static void put_leaf(void *user, size_t offset, const char *name) {
    tidei_outline *p = user;
    tidei_leaf *l = &p->leaves[p->nleaves++];
    size_t n = strnlen(name, sizeof l->name - 1);
    l->offset = offset;
    memcpy(l->name, name, n);
}
static void put_follow(void *user, size_t offset, const tide_adapt_rule *r) {
    tidei_outline *p = user;
    p->follows[p->nfollows++] = (tidei_follow){offset, r->moved, r->user};
}

/* Allocates an outline's arrays, zeroed; one entry at least, so that NULL means that there was no
** memory. */
static tide_status outline_room(tidei_runtime *rt, const char *op, tidei_outline *p) {
    size_t leaves = (p->nleaves + 1) * sizeof *p->leaves,
           follows = (p->nfollows + 1) * sizeof *p->follows;
    p->leaves = tidei_host_alloc(rt, leaves);
    p->follows = tidei_host_alloc(rt, follows);
    if (p->leaves && p->follows) return TIDE_OK;
    tidei_outline_free(rt, p);
    return tidei_fail_host_memory(op, leaves + follows);
}

/* Makes the outline, under the lock: one tour counts, a second one of the same way fills in. */
static tide_status outline(tidei_runtime *rt, const char *type, const char *op, tidei_outline *p) {
    struct tour t = {.rt = rt, .op = op, .leaf = count_leaf, .follow = count_follow, .user = p};
    tide_status s = visit(&t, type, SIZE_MAX, 0, "", 0);
    if (s == TIDE_OK) s = outline_room(rt, op, p);
    if (s != TIDE_OK) return s;
    p->bytes = (*find_rule(rt, type))->rule->bytes;
    p->nleaves = p->nfollows = 0;
    t = (struct tour){.rt = rt, .op = op, .leaf = put_leaf, .follow = put_follow, .user = p};
    return visit(&t, type, SIZE_MAX, 0, "", 0);
}

tide_status tidei_outline_make(tidei_runtime *rt, const char *type, const char *op,
                               tidei_outline *out) {
    tide_status s = check_type(rt, type, op);
    tidei_outline p = {0};
    if (s != TIDE_OK) return s;
    pthread_mutex_lock(&tidei_arrays_of(rt)->adapt_lock);
    s = outline(rt, type, op, &p);
    pthread_mutex_unlock(&tidei_arrays_of(rt)->adapt_lock);
    if (s == TIDE_OK) *out = p;
    return s;
}

tide_status tidei_outline_of_arrays(tidei_runtime *rt, size_t n, const char *op,
                                    tidei_outline *out) {
    tidei_outline p = {.bytes = n * sizeof(tide_data), .nleaves = n};
    tide_status s = outline_room(rt, op, &p);
    if (s != TIDE_OK) return s;
    for (size_t i = 0; i < n; i++) {
        p.leaves[i].offset = i * sizeof(tide_data);
        tidei_format(p.leaves[i].name, sizeof p.leaves[i].name, "array %zu", i);
    }
    *out = p;
    return TIDE_OK;
}

void tidei_outline_free(tidei_runtime *rt, tidei_outline *p) {
    tidei_host_free(rt, p->leaves);
    tidei_host_free(rt, p->follows);
    *p = (tidei_outline){0};
}

tide_status tidei_outline_follow(tidei_runtime *rt, const tidei_outline *p, void *copy,
                                 const void *from, unsigned how, const char *op) {
    TIDEI_UNCANCELLED;
    for (size_t i = 0; i < p->nfollows; i++) {
        const tidei_follow *f = &p->follows[i];
        tidei_callback in;
        tidei_callback_begin(&in, rt, TIDEI_IN_MOVED, NULL);
        tide_status s =
            f->moved(f->user, (char *)copy + f->offset, (const char *)from + f->offset, how);
        tidei_callback_end(&in);
        if (s != TIDE_OK)
            return tidei_fail(s, op, "a rule's callback returned %s", tide_status_name(s));
    }
    return TIDE_OK;
}

/* ---- one array ---- */

/* Whether the host's data is row-major and of type `to` already, so that it need not be copied. */
static bool as_it_lies(const tide_data *d, tide_dtype to) {
    tidei_layout l = {.dtype = d->dtype, .ndim = d->ndim};
    memcpy(l.shape, d->shape, sizeof l.shape);
    if (d->strides) memcpy(l.strides, d->strides, (size_t)d->ndim * sizeof *l.strides);
    return to == d->dtype && (!d->strides || tidei_layout_contiguous(&l));
}

static size_t bytes_of(const tide_data *d, tide_dtype t) {
    size_t n = tidei_dtype_size(t);
    for (int i = 0; i < d->ndim; i++) n *= (size_t)d->shape[i];
    return n;
}

static tide_status no_host(const char *name, const char *op) {
    return tidei_fail(TIDE_E_INVALID, op, "%s: its host memory is NULL", name);
}

/* *out: row-major host memory of type `to`, to be freed. */
static tide_status pack_new(tidei_runtime *rt, const tide_data *d, tide_dtype to, const char *op,
                            void **out) {
    size_t bytes = bytes_of(d, to);
    void *p = tidei_host_take(rt, tidei_max_size(bytes, 1));
    if (!p) return tidei_fail_host_memory(op, bytes);
    tidei_data_pack(d, to, p);
    *out = p;
    return TIDE_OK;
}

static tide_array *upload(tidei_runtime *rt, const tide_data *d, tide_dtype to, const char *op) {
    void *packed = NULL;
    if (as_it_lies(d, to)) return tide_from_host(rt->ref, to, d->ndim, d->shape, d->host);
    if (pack_new(rt, d, to, op, &packed) != TIDE_OK) return NULL;
    tidei_thread *t = tidei_thread_get(rt);
    tidei_hold(t, tidei_undo_host, packed, 0);
    tide_array *a = tide_from_host(rt->ref, to, d->ndim, d->shape, packed);
    tidei_let(t, packed);
    tidei_host_free(rt, packed);
    return a;
}

/* An array of the structure, of the runtime that moves it. */
static tide_status get_array(tidei_runtime *rt, tide_array *a, const char *name, const char *op,
                             tidei_operand *out) {
    tide_status s = tidei_operand_get(a, op, 3, out);
    if (s != TIDE_OK || out->rt == rt) return s;
    tidei_operand_put(out);
    return tidei_fail(TIDE_E_INVALID, op, "%s belongs to another runtime", name);
}

/* A new array over the same memory, or of another type. */
static tide_array *again(tidei_runtime *rt, tide_array *a, bool narrow, const char *name,
                         const char *op) {
    tidei_operand o;
    if (get_array(rt, a, name, op, &o) != TIDE_OK) return NULL;
    tide_dtype to = narrow ? tidei_narrowed(o.lay.dtype) : o.lay.dtype;
    if (to == o.lay.dtype) return tidei_array_over(rt, tidei_operand_give(&o), &o.lay, op);
    tidei_operand_put(&o);
    return tide_cast(a, to);
}

/* Other threads may collect meanwhile: the array is retained until the caller has it. */
static tide_status to_device(tidei_runtime *rt, const tide_data *d, bool narrow, const char *name,
                             const char *op, tide_data *out) {
    tide_array *a;
    if (d->array) {
        a = again(rt, d->array, narrow, name, op);
    } else {
        tide_status s = tidei_data_check(d, name, op);
        if (s != TIDE_OK) return s;
        if (!d->host && bytes_of(d, d->dtype)) return no_host(name, op);
        a = upload(rt, d, narrow ? tidei_narrowed(d->dtype) : d->dtype, op);
    }
    if (!a) return tidei_fail_as(op);
    if (!tide_retain(a)) {
        tidei_array_drop(a);
        return tidei_fail_as(op);
    }
    *out = tide_data_array(a);
    return TIDE_OK;
}

static tide_status download(tidei_runtime *rt, tide_array *a, const char *name, const char *op,
                            tide_data *out) {
    tidei_operand o;
    tide_status s = get_array(rt, a, name, op, &o);
    if (s != TIDE_OK) return s;
    tide_data d = tide_data_host(o.lay.dtype, o.lay.ndim, o.lay.shape, NULL);
    size_t bytes = bytes_of(&d, d.dtype);
    d.host = tidei_scratch_host(rt, bytes);
    s = !d.host ? tidei_fail_host_memory(op, bytes)
        : bytes ? tidei_operand_read(&o, d.host, op)
                : TIDE_OK;
    if (d.host) tidei_let(o.t, d.host);
    tidei_operand_put(&o);
    if (s == TIDE_OK)
        *out = d;
    else
        tidei_host_free(rt, d.host);
    return s;
}

static tide_status to_host(tidei_runtime *rt, const tide_data *d, const char *name, const char *op,
                           tide_data *out) {
    if (d->array) return download(rt, d->array, name, op, out);
    tide_status s = tidei_data_check(d, name, op);
    if (s != TIDE_OK) return s;
    if (!d->host && bytes_of(d, d->dtype)) return no_host(name, op);
    void *p;
    s = pack_new(rt, d, d->dtype, op, &p);
    if (s == TIDE_OK) *out = tide_data_host(d->dtype, d->ndim, d->shape, p);
    return s;
}

/* ---- the whole ---- */

#define OP "tide_adapt"

static tide_status move_leaf(tidei_runtime *rt, const tidei_leaf *l, const void *from, unsigned how,
                             void *copy) {
    tide_data d = tidei_leaf_get(from, l), made = {0};
    tide_status s = TIDE_OK;
    if (!tidei_data_absent(&d))
        s = how & TIDE_ADAPT_DEVICE ? to_device(rt, &d, how & TIDE_ADAPT_NARROW, l->name, OP, &made)
                                    : to_host(rt, &d, l->name, OP, &made);
    if (s == TIDE_OK) tidei_leaf_set(copy, l, made);
    return s;
}

/* Drops the first n arrays of a copy that is not handed out; keeps the error. */
static void undo(tidei_runtime *rt, const tidei_outline *p, const void *copy, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tide_data d = tidei_leaf_get(copy, &p->leaves[i]);
        if (d.array) {
            tide_release(d.array);
            tidei_array_drop(d.array);
        } else {
            tidei_host_free(rt, d.host);
        }
    }
}

/* Hands the copy out: from here on the caller's roots keep its arrays. */
static void hand_out(const tidei_outline *p, void *copy, void *to) {
    memcpy(to, copy, p->bytes);
    for (size_t i = 0; i < p->nleaves; i++) tide_release(tidei_leaf_get(copy, &p->leaves[i]).array);
    tidei_keep(to);
}

struct moving {
    tidei_outline p;
    size_t n; /* leaves that are moved */
    alignas(max_align_t) char copy[];
};

static void undo_move(tidei_runtime *rt, tidei_thread *t, void *moving, uintptr_t of) {
    struct moving *m = moving;
    (void)t, (void)of;
    undo(rt, &m->p, m->copy, m->n);
    tidei_outline_free(rt, &m->p);
    tidei_host_free(rt, m);
}

static tide_status move(tidei_runtime *rt, struct moving *m, const void *from, unsigned how) {
    tide_status s = TIDE_OK;
    memcpy(m->copy, from, m->p.bytes);
    while (m->n < m->p.nleaves &&
           (s = move_leaf(rt, &m->p.leaves[m->n], from, how, m->copy)) == TIDE_OK)
        m->n++;
    return s == TIDE_OK ? tidei_outline_follow(rt, &m->p, m->copy, from, how, OP) : s;
}

tide_status tide_adapt(tide_runtime *ref, const char *type, const void *from, unsigned how,
                       void *to) {
    TIDEI_OPERATION("tide_adapt");
    tidei_outline p;
    if (how != TIDE_ADAPT_DEVICE && how != (TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW) &&
        how != TIDE_ADAPT_HOST)
        return tidei_fail(TIDE_E_INVALID, OP,
                          "how is %u; wanted: TIDE_ADAPT_DEVICE, TIDE_ADAPT_DEVICE | "
                          "TIDE_ADAPT_NARROW, or TIDE_ADAPT_HOST",
                          how);
    if (!from || !to) return tidei_fail(TIDE_E_INVALID, OP, "`%s` is NULL", from ? "to" : "from");
    tidei_thread *t = tidei_enter(ref, OP);
    if (!t) return tidei_last_status();
    tidei_runtime *rt = tidei_thread_runtime(t);
    tide_status s = tidei_outline_make(rt, type, OP, &p);
    if (s != TIDE_OK) return s;
    struct moving *m = tidei_host_alloc(rt, sizeof *m + p.bytes);
    if (!m) {
        tidei_outline_free(rt, &p);
        return tidei_fail_host_memory(OP, sizeof *m + p.bytes);
    }
    m->p = p;
    tidei_hold(t, undo_move, m, 0);
    s = move(rt, m, from, how);
    tidei_let(t, m);
    if (s == TIDE_OK) hand_out(&m->p, m->copy, to);
    if (s == TIDE_OK) m->n = 0; /* the arrays are the caller's */
    undo_move(rt, t, m, 0);
    return s;
}

/* ---- giving back ---- */

/* Gives an array back: under reference counting the caller's reference; a tracing collector's array
** dies unless it was retained. */
static void give_array(tide_array *a) {
    if (!a->hidden) return;
    tidei_header *h = tidei_cell_header(a);
    if (h->home == &h->cell)
        tide_release(a);
    else if (atomic_load_explicit(&h->refs, memory_order_acquire) == 0)
        tide_free(a);
}

struct giving {
    tidei_runtime *rt;
    void *x;
};
static void give_leaf(void *user, size_t offset, const char *name) {
    const struct giving *g = user;
    tidei_leaf l = {.offset = offset};
    tide_data d = tidei_leaf_get(g->x, &l);
    (void)name;
    if (d.array)
        give_array(d.array);
    else
        tidei_host_free(g->rt, d.host);
    tidei_leaf_set(g->x, &l, (tide_data){0});
}

void tide_adapt_release(tide_runtime *ref, const char *type, void *x) {
    if (!x || tidei_forked()) return;
    tidei_runtime *rt = tidei_entered(ref, "tide_adapt_release");
    struct giving g = {rt, x};
    struct tour t = {.rt = rt, .op = "tide_adapt_release", .leaf = give_leaf, .user = &g};
    if (!rt || check_type(rt, type, t.op) != TIDE_OK) return;
    pthread_mutex_lock(&tidei_arrays_of(rt)->adapt_lock);
    (void)visit(&t, type, SIZE_MAX, 0, "", 0);
    pthread_mutex_unlock(&tidei_arrays_of(rt)->adapt_lock);
}
