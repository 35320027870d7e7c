/* own_policies.c: registering policies, and opening shared objects of them; own_policy.h has the
** model. */
#include "gc/own_policy.h"
#include "runtime/base/loader.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <tide/policy.h>

#define OP             "tide_policy_register"
#define ENTRY          "tide_policy_entry"
#define NAME_MAX_BYTES 40

_Static_assert(TIDE_POLICY_PARAMS_MAX == TIDEI_POLICY_PARAMS, "as many parameters");
_Static_assert((int)TIDE_PARAM_NUMBER == (int)TIDEI_NUMBER &&
                   (int)TIDE_PARAM_BYTES == (int)TIDEI_BYTES &&
                   (int)TIDE_PARAM_TIME == (int)TIDEI_TIME &&
                   (int)TIDE_PARAM_SWITCH == (int)TIDEI_SWITCH,
               "kinds of parameters are the same");

typedef struct record { /* of a table, and its texts behind it */
    struct record *_Atomic next;
    const void *from; /* a loaded table's address; NULL: registered */
    tidei_policy policy;
    tide_policy table;
    tidei_param params[TIDEI_POLICY_PARAMS];
    char texts[];
} record;

static struct record *_Atomic records; /* they are only added, at the end */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* ---- whether a table is as it must be ---- */

#define END(field) TIDEI_END(tide_policy, field)
static const uint16_t ends[] = {END(struct_size), END(name),   END(summary), END(user),
                                END(state_bytes), END(params), END(nparams), END(unguarded),
                                END(reserved),    END(decide), END(observe)};
#undef END
static const tidei_sized sizes = {"tide_policy", ends, TIDEI_COUNT(ends),
                                  TIDEI_END(tide_policy, decide)};

static bool in_word(char c) { return tidei_is_letter(c) || tidei_is_digit(c) || c == '_'; }

/* Whether it is of such characters, and not too long. `more`: allowed beside those of words. */
static bool is_name(const char *name, const char *more) {
    size_t n = 0;
    if (!name || !*name) return false;
    while (name[n] && n <= NAME_MAX_BYTES && (in_word(name[n]) || strchr(more, name[n]))) n++;
    return !name[n] && n <= NAME_MAX_BYTES;
}

static tide_status check_param(const tide_policy *p, size_t i) {
    const tide_policy_param *x = &p->params[i];
    if (!is_name(x->name, ""))
        return tidei_fail(TIDE_E_INVALID, OP,
                          "parameter %zu has a name that is not of letters, digits and _, 1 to %d",
                          i, NAME_MAX_BYTES);
    for (size_t k = 0; k < i; k++)
        if (!strcmp(p->params[k].name, x->name))
            return tidei_fail(TIDE_E_INVALID, OP, "two parameters are called %s", x->name);
    if (x->kind < TIDE_PARAM_NUMBER || x->kind > TIDE_PARAM_SWITCH)
        return tidei_fail(TIDE_E_INVALID, OP, "parameter %s: there is no kind %d", x->name,
                          (int)x->kind);
    if (!(x->low >= 0 && x->low <= x->usual && x->usual <= x->high && isfinite(x->high)))
        return tidei_fail(TIDE_E_INVALID, OP,
                          "parameter %s: 0 <= low <= usual <= high does not hold of %g, %g, %g",
                          x->name, x->low, x->usual, x->high);
    return TIDE_OK;
}

static tide_status check_params(const tide_policy *p) {
    if (p->nparams > TIDE_POLICY_PARAMS_MAX)
        return tidei_fail(TIDE_E_INVALID, OP, "%zu parameters; at most %d", p->nparams,
                          TIDE_POLICY_PARAMS_MAX);
    if (p->nparams && !p->params)
        return tidei_fail(TIDE_E_INVALID, OP, "params is NULL, and nparams %zu", p->nparams);
    tide_status status = TIDE_OK;
    for (size_t i = 0; status == TIDE_OK && i < p->nparams; i++) status = check_param(p, i);
    return status;
}

/* The caller's table as today's, where it is as it must be. */
static tide_status check(const tide_policy *given, tide_policy *out) {
    char shown[TIDEI_SHOWN_MAX];
    tide_status status = tidei_sized_check(&sizes, given->struct_size, OP);
    if (status != TIDE_OK) return status;
    memset(out, 0, sizeof *out); /* slots that an older caller lacks */
    memcpy(out, given, given->struct_size);
    if (!out->name) return tidei_fail(TIDE_E_INVALID, OP, "name is NULL");
    if (!is_name(out->name, "-."))
        return tidei_fail(
            TIDE_E_INVALID, OP,
            "the name \"%s\" is not of letters, digits, '_', '-' and '.', 1 to %d of them",
            tidei_line_of(shown, sizeof shown, out->name), NAME_MAX_BYTES);
    if (!out->decide) return tidei_fail(TIDE_E_INVALID, OP, "decide is NULL");
    if (out->state_bytes > TIDE_POLICY_STATE_MAX)
        return tidei_fail(TIDE_E_INVALID, OP, "state_bytes is %zu; at most %zu", out->state_bytes,
                          TIDE_POLICY_STATE_MAX);
    return check_params(out);
}

/* ---- copying it ---- */

static size_t length(const char *text) { return (text ? strlen(text) : 0) + 1; }

static size_t texts_of(const tide_policy *p) {
    size_t n = length(p->name) + length(p->summary);
    for (size_t i = 0; i < p->nparams; i++)
        n += length(p->params[i].name) + length(p->params[i].meaning);
    return n;
}

/* Copies a text to *at, which moves on; none is an empty one. */
static const char *keep(char **at, const char *text) {
    char *to = *at;
    size_t n = length(text);
    if (text) memcpy(to, text, n);
    *at += n;
    return to;
}

/* NULL: there is no host memory. */
static record *copy(const tide_policy *p, const void *from) {
    size_t bytes = sizeof(record) + texts_of(p);
    record *r = tidei_host_alloc(NULL, bytes);
    if (!r) return tidei_fail_host_memory(OP, bytes), NULL;
    char *at = r->texts;
    r->from = from;
    r->table = *p;
    for (size_t i = 0; i < p->nparams; i++) {
        const tide_policy_param *x = &p->params[i];
        r->params[i] = (tidei_param){
            keep(&at, x->name),   (tidei_param_kind)x->kind, x->usual, x->low, x->high,
            keep(&at, x->meaning)};
    }
    r->policy = (tidei_policy){.name = keep(&at, p->name),
                               .unguarded = p->unguarded != 0,
                               .summary = keep(&at, p->summary),
                               .params = r->params,
                               .nparams = p->nparams,
                               .own = &r->table};
    r->table.name = r->policy.name;
    r->table.summary = r->policy.summary;
    r->table.params = NULL; /* the caller's */
    return r;
}

/* ---- the list ---- */

static record *first(void) { return atomic_load_explicit(&records, memory_order_acquire); }
static record *after(record *r) { return atomic_load_explicit(&r->next, memory_order_acquire); }

static record *loaded(const void *from) {
    record *r = first();
    while (r && r->from != from) r = after(r);
    return r;
}

const tidei_policy *tidei_own_policy_at(size_t i) {
    record *r = first();
    while (r && (r->from || i--)) r = after(r);
    return r ? &r->policy : NULL;
}

/* Puts it at the end. False: one stands there already for that name, or address, and it is gone. */
static bool add(record *r) {
    struct record *_Atomic *end = &records;
    pthread_mutex_lock(&adding);
    bool there = r->from ? loaded(r->from) != NULL : tidei_policy_find(r->policy.name) != NULL;
    if (!there) {
        for (record *x; (x = atomic_load_explicit(end, memory_order_relaxed));) end = &x->next;
        atomic_store_explicit(end, r, memory_order_release);
    }
    pthread_mutex_unlock(&adding);
    if (there) tidei_host_free(NULL, r);
    return !there;
}

tide_status tide_policy_register(const tide_policy *policy) {
    tide_policy table;
    if (!policy) return tidei_fail(TIDE_E_INVALID, OP, "the policy is NULL");
    tide_status status = check(policy, &table);
    if (status != TIDE_OK) return status;
    record *r = copy(&table, NULL);
    if (!r) return tidei_last_status();
    return add(r) ? TIDE_OK
                  : tidei_fail(TIDE_E_INVALID, OP, "there is a policy \"%s\" already", table.name);
}

/* ---- shared objects ---- */

/* The record of a table that was found; NULL: the error says why it is none. */
static record *take(const tide_policy *found) {
    tide_policy table;
    record *r = loaded(found);
    if (r || check(found, &table) != TIDE_OK || !(r = copy(&table, found))) return r;
    return add(r) ? r : loaded(found);
}

static record *find_in(void *library, const char *path, char *why, size_t cap) {
    char shown[TIDEI_SHOWN_MAX];
    const tide_policy *found = tidei_library_symbol(library, ENTRY);
    if (!found) {
        tidei_format(why, cap, "%s has no symbol " ENTRY, tidei_line_of(shown, sizeof shown, path));
        return NULL;
    }
    tidei_saved_error e;
    tidei_error_save(&e);
    record *r = take(found);
    if (!r)
        tidei_format(why, cap, "%s: " ENTRY " is refused: %s",
                     tidei_line_of(shown, sizeof shown, path), tide_error_last()->message);
    tidei_error_restore(&e);
    return r;
}

const tidei_policy *tidei_own_policy_load(const char *path, char *why, size_t cap) {
    char words[512], shown[TIDEI_SHOWN_MAX];
    void *library = tidei_library_open(path, RTLD_NOW | RTLD_LOCAL, words, sizeof words);
    if (!library) { /* the loader's words mostly name the file */
        bool named = !strncmp(words, path, strlen(path));
        tidei_format(why, cap, "%s%s%s", named ? "" : tidei_line_of(shown, sizeof shown, path),
                     named ? "" : " is not opened: ", words);
        return NULL;
    }
    record *r = find_in(library, path, why, cap);
    if (!r) tidei_library_close(library);
    return r ? &r->policy : NULL;
}
