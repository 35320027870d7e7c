/* ir.h: the typed program of one fused pass, and how it is called: the contract between the front
** end (text, types, plan) and the back ends (the host's blocked interpreter, CUDA text for NVRTC).
**
** A program is a list of SSA nodes in topological order. Every node has its dtype; operands of an
** operation have the dtypes that the operation's rule in ops.def wants (the front end inserts CAST
** nodes), so that a back end need not convert anything. Scalars are run-time parameters, never part
** of a program. A program with a reduction has one body value, which is folded over the reduced
** dimensions; a program without stores each of its results. A *chain* is a program in which folds
** are nodes among others: all go over the same reduced dimensions, and values that depend on them
** are stored, one for each row (the elements that are folded together) or one for each element.
** What must stay true: a program does not name shapes, strides, addresses or scalar values; so its
** kernels are few. */
#ifndef TIDEI_IR_H
#define TIDEI_IR_H

#include "runtime/base/dtype.h"
#include "runtime/runtime.h"
#include <tide/expr.h>

#define TIDEI_NODES_MAX   256
#define TIDEI_INPUTS_MAX  32
#define TIDEI_SCALARS_MAX 64
#define TIDEI_OUTS_MAX    TIDE_MAX_RESULTS

/* Leaves and CAST first, then the operations of ops.def in its order. */
typedef enum {
    TIDEI_OP_INPUT,  /* a: input slot. dtype: the input's */
    TIDEI_OP_SCALAR, /* a: scalar slot. dtype: the scalar's */
    TIDEI_OP_LINEAR, /* row-major index in the iteration space; i64 */
    TIDEI_OP_CAST,   /* a: value; the rule of tide_cast */
#define TIDEI_OP(ident, ...) TIDEI_OP_##ident,
#include "arrays/expr/ops.def"
#undef TIDEI_OP
    TIDEI_OP_COUNT
} tidei_op;

/* A node of a chain beside these. a: the body, whose type the fold accumulates in; c: tidei_fold.
** dtype: the stored result's. */
enum { TIDEI_OP_FOLD = 255 };
_Static_assert((int)TIDEI_OP_COUNT < (int)TIDEI_OP_FOLD, "operations fit a byte");

typedef struct tidei_node {
    uint8_t op;       /* tidei_op */
    uint8_t dtype;    /* tide_dtype of the value */
    uint16_t a, b, c; /* operands: earlier nodes, or a slot */
} tidei_node;

typedef enum { /* folds; what they start from and what NaN does: ops.h */
               TIDEI_FOLD_NONE,
               TIDEI_FOLD_SUM,
               TIDEI_FOLD_PROD,
               TIDEI_FOLD_MIN,
               TIDEI_FOLD_MAX,
               TIDEI_FOLD_ANY,
               TIDEI_FOLD_ALL,
               TIDEI_FOLD_ARGMIN,
               TIDEI_FOLD_ARGMAX,
               TIDEI_FOLD_MEAN, /* a sum divided at the end by the count */
               /* scans: running folds, whose results keep all dimensions; in the order of scan.h */
               TIDEI_FOLD_CUMSUM,
               TIDEI_FOLD_CUMPROD,
               TIDEI_FOLD_CUMMIN,
               TIDEI_FOLD_CUMMAX,
               TIDEI_FOLDS
} tidei_fold;
static inline bool tidei_is_scan(int fold) { return fold >= TIDEI_FOLD_CUMSUM; }

/* Folds and their types: the body's node has dtype acc, the stored result dtype out.
**   sum, prod    acc i64, u64, f64, c64, c128: out = acc;  acc f32: out f32, f16 or bf16
**   mean         acc f64, c64, c128: out = acc;            acc f32: out f32, f16 or bf16
**   min, max     acc bool, any integer, f64: out = acc;    acc f32: out f32, f16 or bf16
**   any, all     acc bool: out bool
**   argmin, argmax  acc bool, any integer, f32, f64: out i64
** Scans and theirs, where acc is the body's own type: in what they accumulate is scan.h's to say.
**   cumsum, cumprod  acc anything: out i64 for bool and signed, u64 for unsigned integers, else acc
**   cummin, cummax   acc bool, any integer, f16, bf16, f32, f64: out = acc */
typedef struct tidei_program {
    uint16_t nnodes, ninputs, nscalars, nouts;
    tidei_node nodes[TIDEI_NODES_MAX];
    uint8_t input_dtype[TIDEI_INPUTS_MAX];
    uint8_t scalar_dtype[TIDEI_SCALARS_MAX];
    uint16_t out_node[TIDEI_OUTS_MAX]; /* with a fold: out_node[0] is the body's value */
    /* without a fold: the node's own dtype; with one: the stored result's */
    uint8_t out_dtype[TIDEI_OUTS_MAX];
    uint8_t fold; /* tidei_fold; nouts == 1 unless NONE */
    /* the accumulator's, and the body value's own: the front end casts. See below */
    uint8_t acc_dtype;
    uint8_t nfolds;  /* above 0: a chain, whose `fold` is NONE; its nodes that are folds */
    uint64_t key[2]; /* XXH3-128 of all the above (tidei_program_seal) */
    /* What the back ends prepared for this program: each keeps a list of its own, freed by its
    ** forget(). */
    _Atomic(void *) prepared[2]; /* [0]: host, [1]: text */
} tidei_program;

/* computes key over a canonical form; unused array entries are zero */
void tidei_program_seal(tidei_program *p);
bool tidei_program_valid(
    const tidei_program *p); /* order, dtypes against ops.def, slots; for assertions and fuzzers */

/* One operand of a call. Offset and strides in elements; a stride of 0 stretches. */
typedef struct tidei_view {
    tidei_storage *st;
    int64_t offset;
    int64_t strides[TIDE_MAX_RANK];
} tidei_view;

/* A program with operands. The iteration space is `shape`, outermost first; its last `nred`
** dimensions are folded (the front end permutes them there; a fold has at least one, of length 1 if
** need be), outs have strides over the first ndim - nred ones. Every dimension is >= 1 and the
** views lie inside their storages; empty cases never get here. Neighbouring dimensions are already
** collapsed where all operands allow it (never across the border to the folded ones). An out may be
** the very view of an input (same storage, offset, strides: in place); otherwise outs overlap
** nothing. So for each element all inputs are read before any out is written: (x, y) -> (y, x) over
** (x, y) swaps. Arg folds give the row-major index within the folded dimensions *before*
** collapsing; collapsing keeps it. A scan goes along the last dimension, which stays by itself
** (nred is 1), and its out has strides over all of them; one that goes backwards has the views
** begin at the last element, with their strides along it negative, while LINEAR stays the index in
** row-major order of the elements as they lie. A chain's outs have strides over all dimensions too:
** those that are one for each row have 0 along the folded ones. */
typedef struct tidei_call {
    tidei_program *prog;
    const struct tidei_pass *pass; /* whose numbers the scalars are (front.h); NULL: nobody's */
    int ndim, nred;
    bool backwards; /* scans: see above; others: unspecified */
    int64_t inner;  /* scans: elements of the body behind each step of the axis, as it lies */
    int64_t shape[TIDE_MAX_RANK];
    tidei_view in[TIDEI_INPUTS_MAX];
    tidei_view out[TIDEI_OUTS_MAX];
    unsigned char scalars[TIDEI_SCALARS_MAX][16]; /* one element each, of scalar_dtype */
    uint64_t found[8]; /* chains: what the back end's `suits` found, for its `run` */
} tidei_call;

/* Merges dimensions in place (and drops those of length 1), as above. */
void tidei_call_collapse(tidei_call *c);

/* Is told of each launch of a call as it has been queued: what it uses, inputs first, in the order
** of the addresses with which the parameters begin; origin: what each address is added to. Launches
** with addresses elsewhere are told of with n 0. */
typedef struct tidei_listener {
    void (*heard)(struct tidei_listener *l, const tidei_launch *launch, const tidei_use *uses,
                  const size_t *origin, unsigned n);
} tidei_listener;

typedef struct tidei_backend {
    const char *name;
    /* Compiles if it must, allocates workspaces (may climb), submits to s. */
    tide_status (*run)(tidei_stream *s, tidei_call *c, const char *op);
    void (*forget)(tidei_runtime *rt,
                   tidei_program *p); /* frees what prepared[] holds for it; p is in use nowhere */
    /* (may be NULL: never) Whether `run` takes this call of a chain, all of which but the outs'
    ** storages is known. Collapses it, and writes `found`; `run` then wants nothing changed but
    ** these storages. Queues nothing; may compile, and so climb and collect. */
    bool (*suits)(const tidei_stream *s, tidei_call *c);
    /* (may be NULL) As `run`, with somebody who listens. */
    tide_status (*run_heard)(tidei_stream *s, tidei_call *c, const char *op, tidei_listener *l);
} tidei_backend;
extern const tidei_backend tidei_backend_host, tidei_backend_text;
static inline const tidei_backend *tidei_backend_of(tidei_dev *d) {
    return d->d->info.flags & TIDEI_DEV_RUNS_TEXT ? &tidei_backend_text : &tidei_backend_host;
}

/* Programs used from C (casts, copies, fills, named operations) are found by content in the
** runtime's table: returns the sealed, shared program equal to *p, which lives as long as the
** runtime. NULL: host memory exhausted. */
tidei_program *tidei_program_shared(tidei_runtime *rt, const tidei_program *p);

/* Static facts of an operation, from ops.def. */
typedef struct tidei_op_info {
    const char *name; /* in expression text and in tide_<name> */
    int arity;
    int rule; /* TIDEI_RULE_*: operand classes and result type */
    /* TIDEI_CLASS_*: of the operands' type T, after the rule's casts, that have an expression */
    unsigned classes;
    int ulps;          /* of floats: tidei_op_ulps */
    const char *notes; /* special values, for the docs */
} tidei_op_info;
extern const tidei_op_info tidei_op_infos[TIDEI_OP_COUNT];
/* How far the back ends' results may lie apart for operands of type t; complex: each part. */
int tidei_op_ulps(int op, tide_dtype t);
enum {
    TIDEI_CLASS_BOOL = 1,
    TIDEI_CLASS_INT = 2,
    TIDEI_CLASS_FLOAT = 4,
    TIDEI_CLASS_COMPLEX = 8,
    TIDEI_CLASS_ANY = 15
};

/* prelude.h and functions.h as strings: what the expressions of ops.def need, for text back
** ends. */
extern const char tidei_prelude_text[], tidei_functions_text[];

/* How an operation types (front end) and which element types a back end must offer for it. T: the
** promoted type of the operands. */
typedef enum {
    TIDEI_RULE_ARITH,      /* any number T (not bool) -> T */
    TIDEI_RULE_ARITH_BOOL, /* as ARITH, bool too */
    TIDEI_RULE_REAL,       /* integers, floats (no bool, no complex) -> T */
    TIDEI_RULE_ORDER,      /* bool, integers, floats -> T (maximum, minimum) */
    TIDEI_RULE_FLOAT,      /* floats, complex -> T; integers and bool are cast to f64 first */
    TIDEI_RULE_FLOAT_REAL, /* floats only -> T; integers and bool are cast to f64 first */
    TIDEI_RULE_INT,        /* integers -> T */
    TIDEI_RULE_BITS,       /* bool, integers -> T */
    TIDEI_RULE_COMPARE_EQ, /* anything -> bool */
    TIDEI_RULE_COMPARE,    /* bool, integers, floats -> bool */
    TIDEI_RULE_LOGIC,      /* operands cast to bool -> bool */
    /* floats, complex: per element -> bool; integers and bool: operands cast to f64 */
    TIDEI_RULE_TEST,
    TIDEI_RULE_TEST_REAL, /* as TEST, no complex */
    TIDEI_RULE_SELECT,    /* (bool, T, T) -> T, any T */
    TIDEI_RULE_ABS,       /* as ARITH; complex -> its real type */
    TIDEI_RULE_FLOAT_ABS, /* as FLOAT; complex -> its real type */
    TIDEI_RULE_COMPLEX,   /* as FLOAT_REAL -> the complex type with such parts */
    TIDEI_RULE_EXPONENT,  /* as FLOAT_REAL -> i32 */
    TIDEI_RULE_KEEP_INT,  /* floats -> T; integers and bool: identity, no node is made */
    TIDEI_RULE_LEAF,      /* INPUT, SCALAR, LINEAR */
    TIDEI_RULE_CAST
} tidei_rule;

#endif
