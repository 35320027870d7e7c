/* calls.h: random calls of every public function, and what must be true after each of them.
**
** Model. A *world* is what one thread knows: runtimes, arrays, references of every kind, and what
** was done to each. A *call* is a row of a table. Its function draws arguments from the world,
** among them freed, ended, foreign and senseless ones, calls the library, and hands the outcome to
** the judge (judge.c). The judge compares it with what the arguments were: a freed array must give
** TIDE_E_FREED. What the call made or ended then changes the world (world.c). Callbacks of the
** library make calls of the same table.
**
** Content: an array remembers a digest of its elements until something writes to the memory that it
** shares with its views. So elements that change by themselves are found whenever somebody looks.
**
** What is left out, since the headers forbid it or the outcome is the caller's fault:
** - An array is an address, so it is never senseless bits, and under reference counting not used
**   after its last release. A freed one is used as long as it is held.
** - While a host view or a use scope is open, the arrays in its memory are neither read nor
**   written; they are looked at, freed and released. Use scopes end in the order in which they
**   began.
** - Callbacks call what their contract lets them: those of collectors and of deaths drop and look,
**   a log asks for figures, caches and sources of batches do anything but end, open, or choose what
**   is current.
** - Threads share runtimes, streams and pools, and arrays that all only read; all else is their
**   own.
** - Arrays whose elements would take for ever (a view stretched to 2^40) are not computed with.
** - Collections are exact only under reference counting, so after dropping all, `live` is compared
**   there. */
#ifndef TIDETEST_CALLS_H
#define TIDETEST_CALLS_H

#include "arrays/arrays.h"
#include "runtime/pool/pools.h"
#include "runtime/runtime.h"
#include <tide/tide.h>

enum {
    RUNTIMES = 3,
    ARRAYS = 128,
    THINGS = 48,
    LOANS = 24,
    CACHES = 12,
    COLLECTORS = 12,
    NOTES = 256,
    MOVED = 6,
    LINES = 512,
    LINE = 400,
    SAYINGS = 512, /* more than calls from within make while one goes on */
    SAYING = 320,
    DATA_BYTES = 1 << 16,
    DEPTH = 8,
    ROOM = 1 << 15
};
#define NOBODY (-1) /* a place of a runtime: it was closed */

typedef struct world world;
typedef struct frame frame;
typedef struct call call;

/* ---- what a world knows ---- */

typedef struct runtime {
    world *w;
    tide_runtime *ref; /* NULL: the place is empty */
    char name[24];     /* in the lines: "r3" */
    unsigned busy;     /* calls under way that have it among their arguments */
    bool shared;       /* with other threads, which it outlives */
    bool boehm;
    bool valid;    /* not for a senseless one */
    int devices;   /* there are at least so many */
    size_t memory; /* of a device, about */
    unsigned scopes;
    unsigned forgotten; /* arrays of boehm that nobody freed */
    bool checked;       /* the host device compares orders: it must report nothing */
    bool closing;
    _Atomic bool opening;
    uint64_t rules[2]; /* ids of the world's rules that are registered there; 0: it is not */
    tide_allocator host;
    /* pieces held; the allocation from now that fails, 0: none */
    _Atomic long host_held, host_fails;
} runtime;

/* Memory that an array shares with its views. */
typedef struct content {
    unsigned holders; /* arrays, and what has frozen it; 0: the place is free */
    unsigned version; /* changes with each write */
    unsigned frozen;  /* host views and use scopes: nobody reads or writes it otherwise */
    bool unordered;   /* the caller's order alone counts, which there is none of */
    bool common;      /* other threads read it: nobody writes it */
} content;

typedef struct array {
    tide_array *a; /* NULL: the place is empty */
    char name[24]; /* "a17" */
    unsigned busy;
    int rt; /* place of its runtime */
    bool freed, shared, counted;
    bool valid;     /* none of those that a call must refuse */
    unsigned refs;  /* that the world may give back */
    unsigned scope; /* the scope that holds one of these; 0: none */
    /* as it was when it was made */
    tide_dtype dtype;
    int ndim;
    int64_t shape[TIDE_MAX_RANK], size;
    bool stretched, dense;
    int device;
    tide_memory memory;
    content *in;
    bool digested;
    unsigned digested_at; /* version */
    uint64_t digest;
} array;

/* What is held by reference: streams, pools, expressions, use scopes, host views, iterators. */
typedef struct thing {
    tidei_ref_kind kind;
    void *ref; /* NULL: the place is empty */
    char name[24];
    unsigned busy;
    int rt;
    bool over, shared, valid;
    unsigned born;
    int device;
    int params, results; /* of an expression; -1: not known */
    char text[1100];
    tide_host_view view;
    content *frozen[8];
    unsigned nfrozen;
    bool writable;  /* what it has frozen may have been written */
    void *lent;     /* an address within a use scope */
    bool may_write; /* there */
    size_t narrays; /* of an iterator's batch; 0: a structure */
    int64_t *order;
} thing;

typedef struct external_alloc { /* memory by address */
    unsigned char *at;          /* NULL: the place is empty */
    size_t bytes;
    int rt; /* NOBODY: of the runtimes for PyTorch */
    int device;
    bool claimed; /* its bytes were written, and stay as they are */
} external_alloc;

typedef struct cache { /* a tide_reclaimable */
    world *w;
    uint64_t id;
    int rt;
    _Atomic bool registered;
    unsigned inside;
} cache;

typedef struct foreign { /* a tide_collector */
    world *w;
    uint64_t id; /* 0: the caller did not ask for it */
    int rt;
    _Atomic bool attached;
} foreign;

typedef struct note { /* of a death */
    world *w;
    bool used;
    int rt;
    _Atomic unsigned told;
} note;

struct pair { /* structures that tide_adapt moves */
    int64_t tag;
    tide_data first, more[2];
};
struct outer {
    struct pair inner;
    double weight;
    tide_data last;
};
typedef struct moved {
    bool used;
    int rt;
    bool outer;
    struct outer x;
} moved;

/* ---- a call ---- */

typedef tide_array *unary_fn(tide_array *a);
typedef tide_array *binary_fn(tide_array *a, tide_array *b);
typedef tide_array *ternary_fn(tide_array *a, tide_array *b, tide_array *c);
typedef tide_array *fold_fn(tide_array *a, const int *axes, int n, int keepdims);
typedef tide_array *maker_fn(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
typedef union call_fn {
    unary_fn *unary;
    binary_fn *binary;
    ternary_fn *ternary;
    fold_fn *fold;
    maker_fn *maker;
} call_fn;

/* What a call may give beside the usual refusals, and where it may be made. */
enum {
    NEVER_FAILS = 1,
    NEVER_WORKS = 2,   /* on a host device */
    MAY_EMPTY = 4,     /* TIDE_E_EMPTY */
    MAY_PARSE = 8,     /* TIDE_E_PARSE */
    MAY_FILE = 16,     /* TIDE_E_IO, TIDE_E_FORMAT */
    MAY_MATRIX = 32,   /* TIDE_E_SINGULAR, TIDE_E_CONVERGENCE */
    MAY_NODEVICE = 64, /* TIDE_E_NODEVICE */
    OUTSIDE = 128,     /* in no callback */
    DROPS = 256,       /* also where a callback may only drop arrays */
    ENDS = 8192,       /* also while the runtime closes */
    FIGURES = 512,     /* also where a log may ask */
    ALONE = 1024,      /* only while no other thread is there */
    WAITS = 2048,      /* for other threads' callbacks: in none, unless alone */
    OFTEN = 4096,      /* makes what the others need: drawn several times as often */
};

struct call {
    const char *name; /* as in tests/exports.txt */
    void (*run)(world *w);
    call_fn fn;
    unsigned flags;
};

#define ROW(name, flags)                                                                           \
    { "tide_" #name, on_##name, {NULL}, flags } /* for the function, by on_name */
#define ROW_OF(name, run, member, flags)                                                           \
    { "tide_" #name, run, {.member = tide_##name}, flags }
#define LAST_ROW                                                                                   \
    { NULL, NULL, {NULL}, 0 }

/* The tables, by subject; each ends with a row without a name. */
extern const call runtime_calls[], array_calls[], compute_calls[], data_calls[], memory_calls[],
    scan_calls[], order_calls[], index_calls[], shape_calls[], graph_calls[];

enum { BUSY = 96 }; /* arguments of one call */
struct frame {
    const call *c;
    frame *outer;
    int rt;           /* place of the runtime that the call is mostly about */
    uint64_t allowed; /* statuses that the arguments may cause, bit by bit */
    bool must_fail;
    bool settled;        /* the first argument was drawn: the others are to be of its runtime */
    bool null_array;     /* an operand is NULL: an earlier error may be left standing */
    bool bytes;          /* a text is not UTF-8, so a message need not be */
    const char *subject; /* text that an error may name as its operation; NULL: none */
    bool nested;         /* calls were made from within */
    bool called, judged;
    unsigned line;
    tide_error before;
    char before_text[TIDEI_MESSAGE_MAX];
    unsigned *busy[BUSY];
    unsigned nbusy;
};

typedef struct tally { /* of a row of the tables, all worlds together */
    _Atomic uint64_t worked, failed;
} tally;

struct world {
    uint64_t seed_given, seed, dice;
    unsigned number; /* of the world, from 0 */
    uint64_t done;   /* calls, without those in callbacks */
    bool alone;      /* no other thread is there: runtimes come and go */
    bool traced;     /* each line goes to stderr at once */
    char folder[64]; /* for files */
    frame *frame;
    unsigned depth;
    unsigned serial; /* of names */
    const call *deck[1024];
    unsigned ndeck, dealt;
    runtime runtimes[RUNTIMES], odd_runtimes[8];
    array arrays[ARRAYS], odd_array;
    content contents[ARRAYS + 8 * THINGS];
    thing things[THINGS], odd_things[16];
    external_alloc external_allocs[LOANS];
    cache caches[CACHES];
    foreign collectors[COLLECTORS];
    note notes[NOTES];
    moved moveds[MOVED];
    tide_runtime *closed[8]; /* references to runtimes that are no more */
    unsigned nclosed, nodd, nsaid;
    unsigned line;
    char lines[LINES][LINE];
    char sayings[SAYINGS][SAYING];
    unsigned dropping; /* callbacks under way that must make nothing */
    char complaint[6000];
    char last_log[256];
    unsigned wish; /* what the next tide_empty_in should make; 0: anything */
    /* by the depth of the call: texts for it, and room for what it writes */
    char expression[DEPTH][1024], damaged[DEPTH][6000], room[DEPTH][ROOM + 64];
    _Alignas(16) unsigned char data[DATA_BYTES]; /* what they read; fixed */
    tide_adapt_field fields[2][2];
    tide_adapt_rule rules[2];
    char types[2][24];
};

/* ---- world.c ---- */

extern _Thread_local world *here; /* of the calling thread; NULL: it has none */

void world_begin(world *w, uint64_t seed, unsigned number, bool alone);
/* Runs a call that was drawn at random; every so many, looks at all that must be true of the
** runtimes. */
void world_step(world *w);
void world_end(world *w); /* drops and closes all that is not shared */

/* `of`: shares its memory; or NULL */
array *world_add(world *w, tide_array *a, int rt, const array *of);
void world_forget(world *w, array *x);
void world_forget_thing(world *w, thing *t);
void world_release(world *w, array *x); /* the world has given one of its references back */
void world_wrote(array *x);
void world_freeze(thing *t, array *x);
/* adds one; drops another for it */
thing *world_thing(world *w, tidei_ref_kind kind, void *ref, int rt);
array *room_for_array(world *w); /* an empty place, or one whose array was dropped just now */
void world_drop(world *w, array *x);
/* structures that tide_adapt made: before the runtime closes */
void world_give_moved(world *w, int rt);
/* by ordinary calls: nothing of that runtime lives */
void world_drop_all(world *w, int rt);
void scopes_ended(world *w, int rt, unsigned from); /* that one and all inside */
void runtime_closed(world *w, runtime *r);
void look_at_content(world *w, array *x); /* it must be what it was */
void look_that_all_is_gone(world *w, runtime *r);
void world_ended(thing *t); /* its user ended it */
bool is_oldest_scope(const world *w, const thing *t);
runtime *runtime_of(world *w, int place);

/* ---- runtime_calls.c ---- */

/* of ROOM bytes and some that stay as they are, for what the call writes */
char *room(world *w);
/* Room for a function that returns a length like snprintf: *cap as it is told; now and then NULL,
** whatever *cap is. */
char *draw_buffer(world *w, size_t *cap);
void judge_text(world *w, size_t n, const char *buf, size_t cap);
size_t draw_struct_size(world *w, size_t whole, size_t least);

/* ---- array_calls.c ---- */

void wrote(world *w, array *x, tide_status s); /* a call that writes to x ended so */
array *draw_target(world *w, unsigned wanted); /* for such a call */

/* ---- what others give back for it ---- */

void give_external_alloc(world *w, external_alloc *l,
                         int rt);    /* memory_calls.c; if it is of that runtime */
void give_moved(world *w, moved *m); /* data_calls.c */

/* ---- draw.c ---- */

uint64_t dice(world *w);
unsigned below(world *w, unsigned n);
bool chance(world *w, unsigned percent);
#define ONE_OF(w, type, ...)                                                                       \
    (((const type[]){__VA_ARGS__})[below((w), sizeof((const type[]){__VA_ARGS__}) / sizeof(type))])

int64_t draw_int(world *w);                   /* small ones, and the ends of types */
size_t draw_size(world *w);                   /* the same */
double draw_double(world *w);                 /* also not-a-number and infinity */
int draw_enum(world *w, int first, int last); /* mostly one of these; else must_fail */
int draw_axis(world *w, int ndim);
tide_dtype draw_dtype(world *w);
tide_dtype draw_dtype_of(world *w, unsigned kinds); /* bits by tidei_kind */
tide_arg draw_number(world *w, tide_dtype t);       /* mostly one that t represents */
const char *say_number(world *w, tide_arg v);
void *draw_bits(world *w); /* a reference to nothing */

typedef struct shape {
    int ndim;
    const int64_t *at; /* dims, or NULL */
    int64_t dims[16];
    const char *text; /* C-like */
} shape;
void draw_shape(world *w, size_t size, shape *s); /* for elements of `size` bytes */
void small_shape(world *w, int ndim, shape *s);
const char *say_dims(world *w, int ndim, const int64_t *dims);

/* What an array should be like; the first group is a demand that is met if it can be. */
enum {
    REAL = 1,        /* no complex one */
    FLOATS = 2,      /* f32, f64, c64, c128 */
    INTEGER = 4,     /* or bool */
    ONE = 8,         /* element */
    VECTOR = 16,     /* one axis at least */
    MATRIX = 32,     /* two */
    SQUARE = 64,     /* of the last two axes */
    WRITABLE = 128,  /* not stretched, nobody else's */
    REACHABLE = 256, /* by the host */
    UNIFIED = 512,   /* memory */
    DENSE = 1024,    /* row-major */
    FROZEN = 2048,   /* may be frozen */
    FREED = 4096,    /* may be freed */
    CLOSED = 8192,   /* its runtime may be */
    ABSENT = 16384,  /* may be NULL */
    VAST = 32768,    /* may have any number of elements */
    SMALL = 65536,   /* a few hundred elements at most: several may be broadcast together */
    ANY = FROZEN | FREED | CLOSED | ABSENT | VAST
};
array *draw_array(world *w, unsigned wanted);
/* One that broadcasts with x where there is one. */
array *draw_partner(world *w, const array *x, unsigned wanted);
runtime *draw_runtime(world *w);
/* `wanted`: ABSENT, CLOSED and FREED (ended), or 0. */
thing *draw_thing(world *w, tidei_ref_kind kind, unsigned wanted);

const char *draw_slice(world *w);
/* An expression of `params` parameters, or of some number that it returns; *results likewise. */
typedef struct expression {
    const char *text;
    int params, results; /* -1: not known */
} expression;
void draw_expression(world *w, int params, bool elementwise, expression *e);
/* mostly `sound`; else odd bytes, too long, NULL: must_fail */
const char *draw_text(world *w, const char *sound);
const char *quote(world *w, const char *text);

/* ---- judge.c ---- */

const char *say(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The arguments will make the call fail, so; or may. */
void expect(world *w, tide_status s);
void may(world *w, tide_status s);
void hold(world *w, unsigned *busy); /* until the call is over */
/* The line of the call that is made next. From here on the error record is watched. */
void calling(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The outcome of what was called: */
bool gave(world *w, tide_status s); /* a status; true: TIDE_OK (or TIDE_END) */
/* a value that stands for failure, or another; true: it did not fail */
bool told(world *w, bool failed);
void done(world *w); /* nothing */
/* An array, which enters the world; NULL: the call failed. */
enum { ROW_MAJOR = 1, SAME = 2 /* it is `of` itself, which does not enter again */ };
array *made(world *w, tide_array *a, const array *of, unsigned promises);
/* The same of a further one, of a call that was judged already. */
array *made_beside(world *w, tide_array *a, const array *of, unsigned promises);
/* What a failed call must leave alone: filled by `mark`, looked at by `marked`. */
void mark(void *p, size_t bytes);
void marked(world *w, const void *p, size_t bytes);
/* A promise was not kept: says so, and ends the program. */
void broken(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* the last calls, and what was broken; fit for a signal handler */
void show_world(const world *w, int fd);

void run_call(world *w, const call *c, int rt); /* rt NOBODY: of some runtime */
void run_named(world *w, const char *name, int rt);
/* From a callback: some calls whose flags have one of `among`; 0: any that is legal in most. */
void wander(world *w, int rt, unsigned among);
void calls_begin(void); /* before all else */
unsigned calls_count(void);
const call *calls_at(unsigned i);
tally *calls_tally(unsigned i);

/* Checks what must be true of a runtime; `quiet`: nobody else is inside. */
void look_at_runtime(world *w, runtime *r, bool quiet);

#endif
