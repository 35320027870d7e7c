/* adapt.h: structures of arrays between the host and the device, each as what it is: a Diagonal
** stays a Diagonal.
**
** The arrays of such a structure are of type tide_data, which says where the elements are: in host
** memory or on the device. A rule, registered under the structure's name, says where in it they
** lie; all else is copied byte by byte. So one structure serves both sides, and the code that knows
** it does too. */
#ifndef TIDE_ADAPT_H
#define TIDE_ADAPT_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* An array, wherever it is. A zeroed one is absent, and stays so wherever the structure goes. */
typedef struct tide_data {
    /* on the device; NULL: in host memory. Where it is given, it alone counts */
    tide_array *array;
    void *host;             /* element [0, 0, ...]; the library only reads it */
    const int64_t *strides; /* of the host's elements, in elements, of any sign; NULL: row-major */
    tide_dtype dtype;
    int32_t ndim;
    int64_t shape[TIDE_MAX_RANK];
} tide_data;

/* Row-major data in host memory, which stays the caller's. Errors in the arguments are told by
** whoever gets it. Never collects. Never blocks. */
TIDE_API tide_data tide_data_host(tide_dtype t, int ndim, const int64_t *shape, const void *host);
/* An array of the device; its reference stays the caller's. On a NULL or freed one: absent, with
** the error set. Never collects. Never blocks. */
TIDE_API tide_data tide_data_array(tide_array *a);

/* ---- rules ---- */

enum {
    TIDE_ADAPT_DEVICE = 1, /* to the device */
    TIDE_ADAPT_HOST = 2,   /* to the host */
    TIDE_ADAPT_NARROW = 4  /* with DEVICE: f64 becomes f32, and c128 c64 */
};

/* `count` things that lie one behind the other from `offset` on. */
typedef struct tide_adapt_field {
    const char *name; /* for errors */
    const char *type; /* NULL: each is a tide_data; else the name of a registered structure */
    size_t offset;    /* in bytes */
    size_t count;
} tide_adapt_field;

/* A member that is a tide_data, or an array of them; and one that is a structure `inner`,
** registered as `type`, or an array. */
#define TIDE_FIELD(structure, member)                                                              \
    { #member, NULL, offsetof(structure, member), TIDE_FIELD_COUNT_(structure, member, tide_data) }
#define TIDE_FIELD_OF(structure, member, inner, type)                                              \
    { #member, type, offsetof(structure, member), TIDE_FIELD_COUNT_(structure, member, inner) }
#define TIDE_FIELD_COUNT_(structure, member, of) (sizeof(((structure *)0)->member) / sizeof(of))

typedef struct tide_adapt_rule {
    const char *type; /* the structure's name */
    size_t bytes;     /* its size */
    const tide_adapt_field *fields;
    size_t nfields;
    /* (may be NULL) Called on a copy whose arrays have all been moved, inner structures first, to
    ** set what follows from them: a length, a pointer into the structure; the arrays stay as they
    ** are. `from` is the original, `how` the flags. A status but TIDE_OK undoes the move, and is
    ** its result. Nobody tells it of a move that is undone after it: it takes nothing that would
    ** have to be given back. */
    tide_status (*moved)(void *user, void *copy, const void *from, unsigned how);
    void *user;
} tide_adapt_rule;

/* Registers the rule of a type. `rule`, what it points to included, stays the caller's and lives
** until it is unregistered, or the runtime closed. The types of inner structures are looked up
** where the rule is used. *id (may be NULL), never 0, is for tide_adapt_unregister. TIDE_E_INVALID:
** the type is registered already, the rule lacks something, or a field lies beyond the structure.
** Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_adapt_register(tide_runtime *rt,
                                                        const tide_adapt_rule *rule, uint64_t *id);
/* Takes a rule back. Moves that are under way, and open tide_batches, have what they need of it:
** only its `moved` they may still call, with its `user`. An id that is not registered is
** TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_adapt_unregister(tide_runtime *rt, uint64_t id);

/* ---- moving ---- */

/* Makes *to, which must not overlap *from, a copy of *from whose arrays are on the other side;
** `how` is TIDE_ADAPT_DEVICE, TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW, or TIDE_ADAPT_HOST. All or
** nothing: on failure *to is untouched. On the device: arrays of the caller's, as tide_from_host
** makes them (a collector looks after them where *to lies where it looks; under "refcount" the
** caller, or a scope, holds a reference on each). What is there already is a view of it. On the
** host: row-major memory that is *to's until tide_adapt_release; a sync point for what comes from
** the device. The host memory of *from may be reused when the call returns. TIDE_E_INVALID: an
** unknown type, named, another `how`, NULL; TIDE_E_SHAPE: a tide_data whose `ndim` or dimensions
** are none; what `moved` returns is the call's status. To the host it waits until what writes an
** array is done, to the device as tide_from_host does. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_adapt(tide_runtime *rt, const char *type, const void *from,
                                               unsigned how, void *to);
/* Gives back what tide_adapt made for *x, without waiting for a collector: host memory; and of
** arrays the caller's reference ("refcount"), or the memory unless somebody has retained them. They
** are absent afterwards, so twice is legal, as is NULL. An unknown type is the error
** TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API void tide_adapt_release(tide_runtime *rt, const char *type, void *x);

#if defined(__cplusplus)
}
#endif
#endif
