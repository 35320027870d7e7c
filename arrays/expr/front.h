/* front.h: what the files of the front end share: the parsed expression, its typed graph, its plan.
**
**   parse.c      text -> tidei_ast     once an expression; knows nothing of types
**   types.c      ast -> tidei_graph    once a signature (the operands' element types): promotion,
**                                      casts, weak numbers; once more where numbers of the call
**                                      are compared that a type's range lacks
**   plan.c       graph -> tidei_plan   once a signature: which values are stored, one program each
**   chains.c     folds and what hangs on them, that one kernel may compute
**   run.c        plan -> calls         every time: shapes, results, temporaries
**   run_chains.c chains, where shapes permit
**   program.c    programs themselves, and the table of them
**   collapse.c   dimensions that lie behind each other in every operand become one
**   copy.c       elements moved by programs of one or two nodes
**   expr.c, named.c, reduce.c, spread.c   the public functions
**
** Each list is in topological order: operands come before their users. So no pass but the parser
** recurses, and the parser's depth is bounded. What must stay true: nothing here depends on shapes
** before run.c, so an expression has one plan a signature, and few programs. */
#ifndef TIDEI_FRONT_H
#define TIDEI_FRONT_H

#include "arrays/arrays.h"
#include "arrays/expr/ir.h"

/* ---- the parsed expression (parse.c) ---- */

#define TIDEI_DEPTH_MAX 256  /* nested parentheses, calls, signs; bounds the parser's stack */
#define TIDEI_AST_MAX   4096 /* nodes of one expression */

enum {
    TIDEI_AST_PARAM,  /* a: parameter */
    TIDEI_AST_NUMBER, /* a: index into numbers */
    TIDEI_AST_OP,     /* what: tidei_op; a, b, c: operands */
    TIDEI_AST_CAST,   /* what: tide_dtype; a: operand */
    TIDEI_AST_FOLD,   /* what: tidei_fold; a: body, b: index into folds */
    TIDEI_AST_INDEX   /* a: the axis, as written, plus TIDE_MAX_RANK */
};
typedef struct tidei_ast_node {
    uint8_t kind, what;
    uint16_t a, b, c;
    uint32_t at; /* where it stands in the text, in bytes: for errors */
} tidei_ast_node;

enum { TIDEI_AXES_ALL = -1, TIDEI_AXES_GIVEN = -2 };
typedef struct tidei_axes {
    /* number of axes; 0: no axes. TIDEI_AXES_ALL; TIDEI_AXES_GIVEN: arguments of the call (named
    ** functions) */
    int8_t n;
    int8_t keepdims;
    int8_t axis[TIDE_MAX_RANK]; /* as written: may count from the end; unused ones are 0 */
    int8_t reverse, initial;    /* of scans, whose axis is one, or TIDEI_AXES_ALL: not given */
} tidei_axes;

typedef struct tidei_ast {
    const char *op;   /* the public function, for errors; static */
    const char *text; /* NULL: a named function, made without text */
    uint32_t nparams, nresults, nnodes, nnumbers, nfolds;
    tidei_ast_node *nodes; /* one block of memory with the next two */
    tide_arg *numbers;
    tidei_axes *folds; /* distinct ones */
    uint16_t results[TIDE_MAX_RESULTS];
    uint32_t param_at[TIDE_MAX_ARGS];
} tidei_ast;

/* Parses; the text is borrowed and stays with the ast. Memory by tidei_host_alloc(rt); ends with
** tidei_ast_free. */
tide_status tidei_ast_parse(tidei_runtime *rt, const char *text, const char *op, tidei_ast *out);
void tidei_ast_free(tidei_runtime *rt, tidei_ast *ast);
/* The error with its column, the text and a caret; the operation is the text. Named functions: the
** plain message. */
__attribute__((format(printf, 4, 5))) tide_status
tidei_ast_fail(const tidei_ast *ast, uint32_t at, tide_status s, const char *fmt, ...);
/* Makes the text the operation of the thread's error. */
void tidei_ast_name_error(const tidei_ast *ast);
const char *tidei_fold_name(int fold); /* "sum" */

/* ---- weak numbers (weak.c) ----
** Numbers compute among themselves as i64, f64 and c128 would, on the host, and stay weak. */
enum { TIDEI_WEAK = 16 }; /* in a signature: TIDEI_WEAK + one of the next; below: a tide_dtype */
#define TIDEI_SIG_MAX (TIDE_MAX_ARGS + TIDE_MAX_RESULTS)
/* The type a weak argument computes in: bool, i64, f64 or c128. */
tide_dtype tidei_weak_dtype(const tide_arg *v);
/* out = op(in[0..2]) for operands of type t. False when an integer does not fit i64. POW of
** integers: in[1] >= 0 is the caller's to check. */
bool tidei_weak_eval(int op, tide_dtype t, const tide_arg *in, tide_arg *out);

/* ---- the typed graph (types.c) ---- */

/* Kinds in their order: bool 0, integers 1, floats 2, complex 3. */
static inline int tidei_rank(tide_dtype t) {
    tidei_kind k = tidei_dtype_kind(t);
    return k <= TIDEI_KIND_INT ? (int)k : (int)k - 1;
}
static inline unsigned tidei_class(tide_dtype t) { return 1u << tidei_rank(t); } /* TIDEI_CLASS_* */
_Static_assert(TIDEI_CLASS_BOOL == 1 && TIDEI_CLASS_INT == 2 && TIDEI_CLASS_FLOAT == 4 &&
                   TIDEI_CLASS_COMPLEX == 8,
               "classes are bits by rank");
/* the type of op's result for operands of type t */
tide_dtype tidei_op_result(int op, tide_dtype t);
/* The accumulator's and the result's type for a body of type t; false where the fold is not
** offered. */
bool tidei_fold_types(int fold, tide_dtype t, tide_dtype *acc, tide_dtype *out);
/* The message where it is not offered: a format for the names of the fold and of t. The second is
** for folds over no axes, and takes the fold's name. */
#define TIDEI_FOLD_OFFERED "%s is offered for bool, integers, floats, not for %s"
#define TIDEI_FOLD_NO_AXES "%s folds at least one axis: none is given"
/* Whether the fold of one element is that element, in the fold's type; then a fold over no axes is
** a cast. */
static inline bool tidei_fold_keeps(int fold) {
    return fold != TIDEI_FOLD_ARGMIN && fold != TIDEI_FOLD_ARGMAX;
}

/* In a graph a TIDEI_OP_FOLD has its axes besides: b: their index. */

/* What a SCALAR's `a` is from here on: no weak number, but one that each pass finds from the shape
** that it runs over, the axis as in the ast: the axis' length, or the elements between neighbours
** along it. With TIDEI_OP_LINEAR they give index(axis). */
enum { TIDEI_AXIS_LENGTH = 0xf000, TIDEI_AXIS_STEP = TIDEI_AXIS_LENGTH + 2 * TIDE_MAX_RANK };

/* as tidei_node; INPUT: a is the parameter, SCALAR: a is the weak number, or of a shape */
typedef struct tidei_gnode {
    uint8_t op, dtype;
    uint16_t a, b, c;
    uint32_t at;
} tidei_gnode;

typedef struct tidei_weak {
    /* TIDEI_OP_INPUT: parameter a. TIDEI_OP_SCALAR: a constant. Else computed from a, b, c */
    uint8_t op;
    uint8_t operand; /* the type it computes in */
    uint8_t dtype;   /* its own: bool, i64, f64, c128 */
    bool constant;   /* value holds */
    bool natural;    /* the exponent of integers: must not be negative */
    uint16_t a, b, c;
    uint16_t slot; /* among the values of one call, unless constant */
    uint32_t at;
    tide_arg value;
} tidei_weak;

#define TIDEI_WEAK_SLOTS_MAX 256 /* numbers computed at each call; they live on the stack, 6 KiB */

/* A number that each call computes anew is compared with elements of this type. If the number is
** not in the type's range, no number of the type compares as it does: then the comparison is
** another one, in a graph of its own. */
typedef struct tidei_limit {
    uint16_t weak; /* UINT16_MAX: no result needs it */
    uint8_t dtype;
} tidei_limit;

/* The graph has only the nodes that the results need, and one node for each distinct value. */
typedef struct tidei_graph {
    uint32_t nnodes, nweaks, nslots, nlimits;
    tidei_gnode *nodes;
    tidei_weak *weaks;
    tidei_limit *limits;
    uint16_t results[TIDE_MAX_RESULTS]; /* nodes */
} tidei_graph;

/* sig[i]: parameter i; dst[i] (dst may be NULL): the element type that result i is stored as;
** beyond[i]: whether the number of limit i is in its type's range (tidei_beyond). NULL: each is.
** The list of limits does not depend on that. */
tide_status tidei_graph_build(tidei_runtime *rt, const tidei_ast *ast, const uint8_t *sig,
                              const uint8_t *dst, const int8_t *beyond, tidei_graph *out);
void tidei_graph_free(tidei_runtime *rt, tidei_graph *g);
int tidei_gnode_operands(const tidei_gnode *n); /* how many of a, b, c are nodes */

/* ---- the plan (plan.c) ----
** A *stored* value is written to memory by a pass of its own: every fold, and what splits an
** expression that is too large for one program. All else is fused. The passes of stored values run
** in their order; then the results that are no stored value themselves are written, those of one
** shape by one pass. */

/* values stored by one expression; their layouts live on the stack, 10 KiB */
#define TIDEI_STORED_MAX 64
/* a source: a parameter, or from here on a stored value */
enum { TIDEI_SOURCE_STORED = TIDE_MAX_ARGS };

typedef struct tidei_pass {
    tidei_program *prog;
    uint8_t in[TIDEI_INPUTS_MAX];                /* the sources of its inputs */
    uint16_t scalar[TIDEI_SCALARS_MAX];          /* `a` of its SCALAR nodes */
    unsigned char values[TIDEI_SCALARS_MAX][16]; /* of the constant ones, encoded */
} tidei_pass;

typedef struct tidei_stored {
    tidei_pass pass;
    uint8_t dtype, fold;
    int8_t result; /* which result it is; -1: a temporary */
    /* the last stored value whose pass reads it; TIDEI_STORED_MAX: the results do */
    uint8_t last_use;
    uint8_t chain; /* its number, or TIDEI_NO_CHAIN */
    uint16_t axes; /* of a fold: index into the ast's folds */
    uint16_t node;
} tidei_stored;
enum { TIDEI_NO_CHAIN = UINT8_MAX };

/* A chain (chains.c): stored folds over the same axes, and results that hang on them, which one
** kernel may compute (run_chains.c). It runs in the place of its last stored value: nothing before
** that but its own values reads one of them. */
typedef struct tidei_chain {
    tidei_pass pass;    /* its inputs are none of its own values */
    uint64_t members;   /* stored values (bits) */
    uint8_t last;       /* of the members */
    bool whole;         /* nothing is left of the expression besides */
    unsigned results;   /* results (bits) that are no stored values */
    unsigned positions; /* results (bits) that hold index() */
    /* what each out of the program is: a result, or from TIDE_MAX_RESULTS on a stored value */
    uint8_t outs[TIDEI_OUTS_MAX];
} tidei_chain;

/* A pass that writes several results of one shape, made when first needed. */
typedef struct tidei_group {
    struct tidei_group *next;
    unsigned results; /* bits */
    tidei_pass pass;
} tidei_group;

typedef struct tidei_plan {
    struct tidei_plan *next;
    bool into;
    /* of the parameters; with `into` then those of the destinations */
    uint8_t sig[TIDEI_SIG_MAX];
    /* tidei_beyond of each limit's number; NULL: all are in range */
    int8_t *beyond;
    /* plans of the same signature, for other values of `beyond` */
    _Atomic(struct tidei_plan *) others;
    tidei_graph graph;
    uint16_t *stored_of; /* node -> stored value or UINT16_MAX */
    uint32_t nstored;
    tidei_stored *stored;
    uint32_t nchains;
    tidei_chain *chains;
    struct {
        uint8_t dtype;
        bool is_stored; /* a stored value is written straight to it */
        uint8_t bundle; /* results of different bundles do not fit one program */
        uint8_t nsources;
        uint8_t sources[TIDEI_INPUTS_MAX]; /* the sources that give its shape */
    } results[TIDE_MAX_RESULTS];
    _Atomic(tidei_group *) groups;
    _Atomic(struct tidei_shortcut *) shortcuts; /* a list that only grows (shortcuts.c) */
    _Atomic unsigned no_shortcuts;              /* calls of which none could be made */
} tidei_plan;

/* `into`: sig goes on with the destinations' types. `beyond`: of nlimits numbers, or NULL. */
tide_status tidei_plan_build(tidei_runtime *rt, const tidei_ast *ast, const uint8_t *sig, bool into,
                             const int8_t *beyond, uint32_t nlimits, tidei_plan **out);
void tidei_plan_free(tidei_runtime *rt, tidei_plan *p);
void tidei_shortcuts_free(tidei_runtime *rt, tidei_plan *p);
/* Finds the chains of a plan that is complete but for them. */
tide_status tidei_plan_find_chains(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p);
/* Encodes the constants among a pass' numbers. */
tide_status tidei_pass_encode(const tidei_ast *ast, const tidei_graph *g, tidei_pass *pass,
                              const tidei_program *p);
/* The pass for these results (bits). Lock-free when it exists. */
tide_status tidei_plan_group(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p,
                             unsigned results, const tidei_pass **out);

/* ---- running (run.c) ---- */

typedef struct tidei_expr tidei_expr;
/* Where a runtime keeps expressions and programs: they live as long as it does, but for released
** expressions. Lists are pushed by CAS and only grow, so that looking something up takes no lock.
** Programs outlive their expressions because work in flight still reads them, and the next
** expression of their form finds them: there are as many as distinct forms, each up to a few KiB
** (on CUDA with a kernel), whatever the shapes and numbers. A caller that generates forms without
** end fills memory. */
#define TIDEI_BUCKETS 1024 /* of each table; a power of two */
/* expressions kept by text; beyond, a text is parsed at each call, but its programs are kept */
#define TIDEI_TEXTS_MAX 4096
struct tidei_exprs {
    _Atomic(struct tidei_program_entry *) programs[TIDEI_BUCKETS];
    _Atomic uint32_t nprograms;
    _Atomic(tidei_expr *) texts[TIDEI_BUCKETS];
    _Atomic uint32_t ntexts;
    _Atomic(tidei_expr *) ops[TIDEI_OP_COUNT];
    _Atomic(tidei_expr *) folds[TIDEI_FOLDS];
    pthread_mutex_t lock;
    tidei_expr *all; /* under lock */
};
tide_status tidei_exprs_open(tidei_runtime *rt);
void tidei_exprs_close(tidei_runtime *rt); /* all work is complete; before the kernels' */
void tidei_programs_close(tidei_runtime *rt, struct tidei_exprs *x);
static inline struct tidei_exprs *tidei_exprs_of(tidei_runtime *rt) {
    return tidei_arrays_of(rt)->exprs;
}

/* What a tide_expr refers to, and the named functions' own. */
struct tidei_expr {
    tidei_runtime *rt;
    tide_expr *ref; /* the public reference; NULL: only the library uses it */
    tidei_ast ast;
    char *text; /* NULL: a named function */
    uint64_t hash;
    _Atomic(tidei_plan *) plans;
    tidei_expr *next_text;    /* in its bucket */
    tidei_expr *next, **prev; /* under the lock of exprs */
};
/* The expression op(a, b, ..), or fold(a) over axes that the call brings; made once. `name`:
** "tide_add". NULL on failure. */
tidei_expr *tidei_expr_named_op(tidei_runtime *rt, int op, const char *name);
tidei_expr *tidei_expr_named_fold(tidei_runtime *rt, int fold, const char *name);

/* The axes of a named reduction. */
typedef struct tidei_given_axes {
    const int *axes; /* NULL: all; else there is at least one */
    int n, keepdims;
} tidei_given_axes;

/* Runs e over n arguments, of which no array is NULL: makes m arrays, or writes into m existing
** ones (dsts, else NULL; none is NULL). `op` names the public function.
** Nothing is left behind on failure. */
tide_status tidei_expr_run(tidei_expr *e, const char *op, const tide_arg *args, size_t n,
                           const tidei_given_axes *axes, tide_array **outs, tide_array *const *dsts,
                           size_t m);
/* The same of an expression by text, which is found by its content, with one result. For a public
** function `op` that uses it: errors have its name, not the text. */
tide_status tidei_expr_map(tidei_runtime *rt, const char *text, const char *op,
                           const tide_arg *args, size_t n, tide_array **out,
                           tide_array *const *dst);

#endif
