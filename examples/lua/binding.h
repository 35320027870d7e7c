/* binding.h: what the files of the Lua module share.
**
** Model. One `binding` serves all coroutines of one Lua state: it is the first upvalue of every
** function of the module, and ends with the state. It opens runtimes with Lua's own collector as
** theirs: an array is a userdata of one pointer, which holds a reference, and whose finalizer drops
** it. The runtime tells how many bytes Lua keeps alive; the next call that makes an array steps
** Lua's collector by as much (pace in lua_collector.c).
** What must stay true: Lua's errors are longjmps, so no C resource is held where one may come: what
** a call makes is in a userdata or in Lua's memory before it is made, and no error passes through
** the library. Lua's indices count from 1, the library's from 0: only arguments.c and bind.py
** translate. */
#ifndef TIDE_LUA_BINDING_H
#define TIDE_LUA_BINDING_H

#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <tide/tide.h>

#if LUA_VERSION_NUM < 502
#define lua_rawlen(L, i)           lua_objlen(L, i)
#define lua_setuservalue(L, i)     lua_setfenv(L, i)
#define lua_getuservalue(L, i)     lua_getfenv(L, i)
#define luaL_setfuncs(L, list, up) lua_binding_setfuncs(L, list, up)
void lua_binding_setfuncs(lua_State *L, const luaL_Reg *list, int up);
#endif
#if LUA_VERSION_NUM < 503 /* numbers are doubles; a whole one is an integer */
#define lua_isinteger(L, i) lua_binding_isinteger(L, i)
int lua_binding_isinteger(lua_State *L, int i);
#endif

typedef struct binding binding;
typedef struct cache cache;
typedef struct later later;
typedef struct tracer tracer;

/* A runtime that this state opened. It is reachable from its binding until the state ends. */
typedef struct opened {
    tide_runtime *rt;   /* a reference: one that is closed says so */
    uint64_t collector; /* Lua's, in it */
    binding *of;
    /* lua_place.c: places by coroutine, a reference; what the thread has now; where it began */
    int places, device, first_device;
    void *stream, *pool;
    int log;           /* a reference to the function that hears its lines */
    int texts, ntexts; /* lua_expr.c: expressions by text, a reference, and how many there are */
    struct opened *next;
} opened;

struct binding {
    lua_State *L;    /* inside a call of the library's: who made it; NULL otherwise */
    uint64_t thread; /* of the system's: to which the collectors are bound */
    bool collecting, ended;
    bool inside; /* a collection that the library asked for */
    bool placed; /* some coroutine has chosen a place */
    bool policies, delivering;
    int filling;           /* lua_batches.c: calls of fill that have not returned */
    const char *forbidden; /* what the library is inside of, which may not call it; NULL: nothing */
    bool stopped;          /* Lua's collector, meanwhile */
    unsigned failures;     /* of policies, as far as they were told */
    int cache_ask;         /* a reference, as full_cycle */
    int full_cycle; /* a reference to the function that runs one: pushing it takes no memory */
    const void *array_address, *expr_address; /* of metatables */
    int array_metatable;                      /* a reference to it */
    int module;                               /* a reference to the module's table */
    tracer *tracer;                           /* lua_fuse.c; NULL: not wanted yet */
    struct object *dead;                      /* objects that were found dead inside of one */
    cache *caches;
    later *later;
    _Atomic bool *waiting; /* it has something */
    opened *all, *current;
    /* pacing: what Lua's collector has not been told of yet; arrays made and their bytes; at
    ** how much it is looked at again; what makes a cycle of it; cycles since what is old was */
    double debt, made, made_bytes, look_at, cycle, since_old;
    uint64_t spent_ns, asked_ns; /* in steps, since that time */
    /* arrays that were found dead, and are released as others are made */
    tide_array **found;
    size_t nfound, found_most;
    tide_rng rng;
};

/* ---- arguments.c: errors ---- */
/* Raises an error, whose text begins with where the program is: the line that is nearest, the
** module's own apart. */
int fail(lua_State *L, const char *format, ...);
int fail_text(lua_State *L);   /* the same for parts in Lua: a function of the text */
void push_where(lua_State *L); /* that place, as "file:line: "; "" where there is none */

/* ---- lua_collector.c ---- */
binding *binding_new(lua_State *L);    /* pushes it, a userdata that ends with the state */
opened *binding_runtime(lua_State *L); /* the current one, opened if there is none */
opened *binding_runtime_of(lua_State *L, tide_array *a); /* the array's */
/* Pushes it. `log` is a reference to a function that hears its lines, or LUA_NOREF. */
opened *binding_open(lua_State *L, binding *b, tide_config *config, int log);
void binding_pace(lua_State *L, binding *b);    /* the debt has got to where it is looked at */
void binding_collect(lua_State *L, binding *b); /* what is dropped is found, whatever it takes */
void binding_found(binding *b, tide_array *a);  /* dead */
void binding_release_found(binding *b);         /* before somebody looks at memory */

/* The coroutine that is in a call of the library's, for what that calls on this thread; NULL: this
** thread is in none of this state's. */
lua_State *binding_here(binding *b);
/* Around what may call nothing of the library: meanwhile that is an error, and Lua's collector,
** which might run finalizers that do, stands still. */
void binding_forbid(lua_State *L, binding *b, const char *what);
void binding_allow(lua_State *L, binding *b, const char *before);

extern _Atomic unsigned policies_failed; /* so many of the process's, lua_policy.c */
/* This thread's number: an address would be the next one's too, once it has ended. 0: none yet. */
extern _Thread_local uint64_t binding_thread __attribute__((tls_model("initial-exec")));
void binding_enter_slowly(lua_State *L, binding *b);

/* At the head of every function. */
static inline binding *binding_enter(lua_State *L) {
    binding *b = lua_touserdata(L, lua_upvalueindex(1));
    if (b->thread != binding_thread || b->ended || b->forbidden || b->dead || b->placed ||
        atomic_load_explicit(b->waiting, memory_order_relaxed) ||
        atomic_load_explicit(&policies_failed, memory_order_relaxed) != b->failures)
        binding_enter_slowly(L, b);
    return b;
}

#define DEBT_OF_EACH 30e3 /* bytes, for an array of any size: so that small ones are not too many */

/* An array is about to be made. */
static inline void binding_before_array(lua_State *L, binding *b) {
    if (b->nfound) tide_release(b->found[--b->nfound]);
    b->debt += DEBT_OF_EACH;
    b->made++;
    if (b->debt >= b->look_at) binding_pace(L, b);
}

/* Around a call of the library's. No error of Lua's comes between the two. */
static inline void binding_within(binding *b, lua_State *L) { b->L = L; }
static inline void binding_without(binding *b) { b->L = NULL; }

/* ---- arguments.c: one call of a function that bind.py describes ---- */
typedef struct lua_function {
    const char *name;
    const char *const *params; /* names, in the order of the call; NULL ends them */
    const char *expression;    /* of an operation element by element: its text; NULL: none */
    tide_array *(*of_arrays)(const tide_arg *a); /* of one: the library's function */
    const char *text, *group;                    /* for help */
    const char *example;                         /* a program; NULL: none */
    int nparams;
    bool method;        /* its first parameter is an array */
    bool fused;         /* trace.lua has it */
    lua_CFunction call; /* NULL: a part that is written in Lua */
} lua_function;
extern const lua_function lua_functions[]; /* those that are written by hand at the end */
extern const size_t lua_nfunctions;
const lua_function *function_named(const char *name); /* NULL: there is none */
int part_load(lua_State *L, const char *name);        /* pushes a part of lua_parts as a function */
#define OWN(name) (&lua_functions[OWN_##name]) /* one of functions.md, which tables.h numbers */

typedef struct lua_part {
    const char *name, *text;
} lua_part;
extern const lua_part lua_parts[]; /* one without a name ends them */

typedef struct call {
    lua_State *L;
    binding *b;
    const lua_function *f;
    int named, given; /* where the table of named arguments is; how many stand before it */
} call;
call call_begin(lua_State *L, const lua_function *f);
/* Where parameter i is on the stack; 0: not given. */
int call_at(call *c, int i);
int call_error(call *c, int i, const char *expected); /* names the function and the parameter */
void call_push_error(lua_State *L);                   /* the library's, as a text */
int call_failed(lua_State *L);                        /* the library's error, as one of Lua's */

typedef struct numbers {
    int64_t at[TIDE_MAX_RANK];
    int n;
    bool given;
} numbers;
typedef struct axes {
    int at[TIDE_MAX_RANK];
    int n;
    bool given;
} axes;
typedef struct arrays {
    tide_array **at; /* Lua's memory, on the stack */
    size_t n;
} arrays;
typedef struct named_value {
    const char *name;
    int64_t value;
} named_value;

/* An array, or a number or table that becomes one; NULL: fuse_call is wanted. */
tide_array *arg_array(call *c, int i);
tide_array *arg_own_array(call *c, int i); /* an array that is there, which is written to */
tide_array *arg_array_or_null(call *c, int i);
tide_array *arg_places(call *c, int i);  /* of indices: counted from 0 then */
tide_array *arg_offsets(call *c, int i); /* places of which the last is one past the end */
tide_arg arg_tagged(call *c, int i, const tide_arg *otherwise);
arrays arg_arrays(call *c, int i);
numbers arg_shape(call *c, int i);
numbers arg_numbers(call *c, int i);
/* Axes, as the library counts them; of `rank` ones, -1: it knows how many. */
axes arg_axes(call *c, int i, int rank);
int arg_axis(call *c, int i, int otherwise, int rank);
int64_t arg_place(call *c, int i);
int64_t arg_int(call *c, int i, bool needed, int64_t otherwise);
double arg_double(call *c, int i, bool needed, double otherwise);
bool arg_switch(call *c, int i, bool otherwise);
tide_dtype arg_dtype(call *c, int i, tide_dtype otherwise);
int64_t arg_named(call *c, int i, const named_value *values, int64_t otherwise, bool flags);
const char *arg_text(call *c, int i);
int call_elementwise(lua_State *L, const lua_function *f);

/* ---- fields.c: structs as tables ---- */
enum { FIELD_TEXT, FIELD_SWITCH, FIELD_INT, FIELD_UINT, FIELD_INT64, FIELD_UINT64, FIELD_DOUBLE };
typedef struct field {
    const char *name; /* NULL ends them */
    size_t offset;
    int kind;
} field;
/* The table at i into a struct; `what` is the function that wants it. */
void fields_read(lua_State *L, int i, const char *what, const field *fields, void *out);
void fields_set(lua_State *L, const field *fields,
                const void *from); /* into the table on the top */

/* ---- lua_object.c: what has an end of its own ---- */
typedef struct object {
    void *ref;              /* NULL: it has ended */
    void (*end)(void *ref); /* gives it back */
    opened *of;
    struct object *next; /* in `dead` */
} object;
void *userdata_at(lua_State *L, int i, const char *metatable); /* NULL: it is none of that type */
/* Pushes an object that is not there yet: who makes it writes `ref`. */
object *object_new(lua_State *L, opened *o, const char *type, void (*end)(void *ref));
object *object_at(lua_State *L, int i, const char *type); /* NULL: there is none */
void object_end(object *x);
object *object_release(call *c, const char *type); /* of the first argument */
void objects_end(binding *b); /* those that were found dead where they could not end */
object *arg_object(call *c, int i, const char *type);
object *arg_object_or_null(call *c, int i, const char *type);
void type_metatable(lua_State *L, const char *type, int upvalue); /* pushes it */
void object_metatable(lua_State *L, const char *type, int upvalue);

void view_metatable(lua_State *L, int upvalue);     /* lua_view.c */
void iterator_metatable(lua_State *L, int upvalue); /* lua_batches.c */

/* ---- lua_place.c ---- */
void place_enter(lua_State *L, binding *b); /* at the head of a call, where any was chosen */

/* ---- lua_later.c: what Lua hears in its next call ---- */
later *later_new(void); /* NULL: there is no memory */
void later_end(later *q);
_Atomic bool *later_waiting(later *q); /* it has something */
void later_run(lua_State *L, binding *b);
void later_log(void *user, int level, const char *line); /* of tide_config; `user`: the runtime */
/* Has Lua warned of an error in a function that the library called. Any thread. */
void later_warn(later *q, const char *what, const char *text);

/* ---- lua_cache.c, lua_policy.c ---- */
int cache_ask(lua_State *L);
void caches_close(lua_State *L, opened *o); /* the runtime was closed */
void policies_end(binding *b);
void policies_tell(binding *b); /* what is wrong with them, once */
/* A file in Lua as its policy: pushes the name that stands for it. */
void policy_of_config(lua_State *L, tide_config *config);

/* ---- lua_array.c ---- */
#define NO_PLACE (-INT64_MAX)                      /* where Lua has 0: beyond any array */
extern const char array_type[];                    /* the metatable's name */
tide_array **array_slot(lua_State *L, binding *b); /* pushes an array that is not there yet */
tide_array *array_at(lua_State *L, int i);         /* NULL: there is none */
tide_array **array_slot_at(lua_State *L, int i);
tide_array *array_in(lua_State *L, const binding *b,
                     int i); /* the same, with the binding at hand */
/* Whether the first n values on the stack, which are all, are arrays; leaves metatables on it then.
** For operators, which are called often: 3 calls of Lua's for each operand. */
bool arrays_at(lua_State *L, const binding *b, int n, tide_arg *out);
int array_made(lua_State *L, tide_array *const *slot); /* 1, or the library's error */
/* An array of places as the library counts them, from 0, or of offsets. Pushes it. `what` is the
** function that wants it. */
tide_array *array_places_in(lua_State *L, binding *b, tide_array *from, const char *what);
tide_array *array_offsets_in(lua_State *L, binding *b, tide_array *from, const char *what);
/* The array on the top of the stack holds places, which count from 1 from now on. */
void array_places_out(lua_State *L, binding *b);
void array_metatable(lua_State *L, int upvalue);

/* ---- lua_values.c ---- */
/* A number that is whole, a float too. */
bool value_whole(lua_State *L, int i, int64_t *out);
const char *value_text(lua_State *L, int64_t v); /* pushes it */
tide_dtype value_dtype(lua_State *L, int i, const char *what);
/* A number, boolean or array. */
bool value_arg(lua_State *L, const binding *b, int i, tide_arg *out);
void value_push(lua_State *L, const tide_arg *v);
tide_dtype value_type(const tide_arg *v); /* that an array of it has */
/* Pushes an array of the (nested) table at i; TIDE_DTYPE_COUNT: as its values are. */
tide_array *value_array(lua_State *L, binding *b, tide_runtime *rt, int i, tide_dtype t);
/* The same in memory of the host's: pushes it. */
void *value_host(lua_State *L, int i, tide_dtype *t, numbers *shape);
/* Pushes memory with an array's elements, row-major; where they widen f16 and bf16 become f32. */
const char *value_host_copy(lua_State *L, binding *b, tide_array *a, tide_dtype *t, bool widen);
void value_push_element(lua_State *L, tide_dtype t, const char *from);
/* Writes the value at i as an element; `what` is the function that does. */
void value_write_element(lua_State *L, int i, const char *what, tide_dtype t, char *to);

/* ---- lua_expr.c ---- */
typedef struct operands {
    tide_arg at[TIDE_MAX_ARGS];
    size_t n;
} operands;
/* The arguments from `first` on, of the function `name`; numbers stay weak, tables become arrays.
** */
void operands_read(lua_State *L, binding *b, const char *name, int first, operands *o);
/* What the expression at `text` gives of them. */
int operands_apply(lua_State *L, binding *b, int text, const operands *o);
void texts_close(lua_State *L, opened *o);
void expr_metatable(lua_State *L, int upvalue);

/* ---- lua_fuse.c: stand-ins for arrays while a function is fused ---- */
bool fuse_stand_in(lua_State *L, binding *b, int i); /* at i is one */
bool fuse_wanted(call *c); /* one is among the arguments, and the function can be fused */
int fuse_call(call *c);    /* what it gives of them */

#endif
