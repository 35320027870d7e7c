/* embed.c: an interpreter with a mark-and-sweep collector of its own, and arrays as values of its
** language.
**
** The language is written behind its operands, as PostScript is: `1 2 +` pushes 3, `/x 3 def`
** defines x, `{ ... }` is a block, `{ ... } { ... } try` runs the second block with the error's
** text where the first one fails. An array is an object as others are: its finalizer calls
** tide_release, and a table of five functions (tide_collector) lets the runtime ask for a
** collection when device memory makes it worth one. docs/embedding.md goes through it step by step.
** What must stay true:
** - What the collector has to find is on the state's stack, held by a frame, or a word's value. An
**   operand stays on the stack until its result is made.
** - Who touches a state's objects holds its lock: the thread that runs it, or one that collects.
** - What makes arrays runs in a scope of the library's, and an object retains the array that it
**   keeps: so an error may leave from anywhere by longjmp.
** A state runs on one thread at a time, on any. The program shows many temporaries under a limit
** of 4 MiB, errors, two threads, and two runtimes that close in any order.
**   embed [ARRAYS]     how many temporaries, by default 1000000
** Exit 0, 1 failed (each figure is checked), 2 bad input. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>

#define DEPTH 1000 /* values on the stack, and calls; a program that needs more is in error */
/* Objects before the heap is collected without being asked: what they are is small, and what
** arrays weigh the runtime knows better. */
#define ENOUGH 65536

/* ---- values ---- */

enum kind { LIST, BLOCK, TEXT, WORD, ARRAY };

struct value {
    enum { NUMBER, OBJECT, CALL } is; /* CALL: of a word, in a block */
    double number;
    struct object *object;
};

struct object {
    struct object *next; /* of all objects of the state */
    struct object *gray; /* the next one that is marked and whose parts are not */
    enum kind kind;
    int marked;
    struct value *items; /* LIST, BLOCK */
    size_t n, room;
    char *text;                  /* TEXT; a WORD's name */
    const struct native *native; /* WORD: what the program in C gives it; or NULL */
    int defined;                 /* WORD: value is what it stands for */
    struct value value;
    struct object *word; /* WORD: the next one */
    tide_array *array;   /* ARRAY: a reference of the object's own */
};

/* An object that C code holds while nothing else does. */
struct frame {
    struct object *held;
    struct frame *outer;
    int depth;
};

/* Where an error goes, and what is to be undone on the way. */
struct handler {
    jmp_buf jump;
    struct handler *outer;
    struct frame *frames;
    size_t top;
    int scopes;
};

struct state {
    tide_runtime *rt;
    struct value stack[DEPTH];
    size_t top;
    struct object *all, *gray, *words;
    size_t objects, enough;
    struct frame *frames;
    struct handler *handler;
    char error[600];
    /* the lock: who comes takes a number, and waits until it is called */
    pthread_mutex_t mutex;
    pthread_cond_t called;
    atomic_uint numbers, calling;
    _Atomic(const char *) holder;
    /* as a collector of the runtime's */
    uint64_t id;
    int registered;
    unsigned collections, asked; /* all; what the runtime asked for */
    atomic_llong device_bytes;   /* that arrays of this state keep alive */
};

/* A word in C. What makes arrays is `scoped`. */
struct native {
    const char *name;
    void (*fn)(struct state *s);
    int scoped;
};

/* ---- errors ---- */

static _Noreturn __attribute__((format(printf, 2, 3))) void fail(struct state *s,
                                                                 const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    longjmp(s->handler->jump, 1);
}

/* A call of the library's went well, or its error becomes one of the language. */
static void check(struct state *s, int well) {
    if (well) return;
    snprintf(s->error, sizeof s->error, "%s", tide_error_last()->message);
    tide_error_clear();
    longjmp(s->handler->jump, 1);
}

/* Runs fn; 0 if an error left it. What it pushed is gone then, and what it took stays taken. */
static int protect(struct state *s, void (*fn)(struct state *s, const void *arg), const void *arg) {
    struct handler h = {.outer = s->handler, .frames = s->frames, .top = s->top};
    h.scopes = tide_scope_depth(s->rt);
    if (h.scopes < 0) tide_error_clear(); /* the runtime was closed, and the language goes on */
    s->handler = &h;
    if (setjmp(h.jump) == 0) {
        fn(s, arg);
        s->handler = h.outer;
        return 1;
    }
    s->handler = h.outer;
    s->frames = h.frames;
    if (s->top > h.top) s->top = h.top; /* what is above the top may have been collected */
    if (h.scopes >= 0 && tide_scope_unwind(s->rt, h.scopes) != TIDE_OK) tide_error_clear();
    return 0;
}

/* ---- the stack ---- */

static void push(struct state *s, struct value v) {
    if (s->top == DEPTH) fail(s, "more than %d values on the stack", DEPTH);
    s->stack[s->top++] = v;
}

static void push_number(struct state *s, double number) {
    push(s, (struct value){.is = NUMBER, .number = number});
}

/* The value `down` below the top; it stays there. */
static struct value peek(struct state *s, size_t down) {
    if (down >= s->top) fail(s, "the stack is empty");
    return s->stack[s->top - 1 - down];
}

static double number_at(struct state *s, size_t down) {
    struct value v = peek(s, down);
    if (v.is != NUMBER) fail(s, "a number is wanted");
    return v.number;
}

static int64_t count_at(struct state *s, size_t down) {
    double number = number_at(s, down);
    if (!(number >= 0 && number <= 1e15) || (double)(int64_t)number != number)
        fail(s, "%g is no count", number);
    return (int64_t)number;
}

static struct object *object_at(struct state *s, size_t down, enum kind kind) {
    static const char *const names[] = {"a list", "a block", "a text", "a name", "an array"};
    struct value v = peek(s, down);
    if (v.is != OBJECT || v.object->kind != kind) fail(s, "%s is wanted", names[kind]);
    return v.object;
}

/* Takes the n values below the top away: the operands below their result. */
static void finish(struct state *s, size_t n) {
    s->stack[s->top - 1 - n] = s->stack[s->top - 1];
    s->top -= n;
}

static void hold(struct state *s, struct frame *f, struct object *o) {
    *f = (struct frame){o, s->frames, s->frames ? s->frames->depth + 1 : 1};
    if (f->depth > DEPTH) fail(s, "calls are nested too deeply");
    s->frames = f;
}

static void let_go(struct state *s, struct frame *f) { s->frames = f->outer; }

/* ---- the collector ---- */

static void mark(struct state *s, struct value v) {
    if (v.is == NUMBER || v.object->marked) return;
    v.object->marked = 1;
    v.object->gray = s->gray;
    s->gray = v.object;
}

static void mark_object(struct state *s, struct object *o) {
    mark(s, (struct value){.is = OBJECT, .object = o});
}

static void mark_parts(struct state *s, const struct object *o) {
    for (size_t i = 0; i < o->n; i++) mark(s, o->items[i]);
    mark(s, o->value); /* the number 0 in what is no word */
}

static void mark_all(struct state *s) {
    for (size_t i = 0; i < s->top; i++) mark(s, s->stack[i]);
    for (struct frame *f = s->frames; f; f = f->outer) mark_object(s, f->held);
    for (struct object *w = s->words; w; w = w->word) mark_object(s, w);
    while (s->gray) {
        struct object *o = s->gray;
        s->gray = o->gray;
        mark_parts(s, o);
    }
}

static void finalize(struct object *o) {
    tide_release(o->array); /* a few atomic steps; NULL is legal, and so is a closed runtime */
    free(o->items);
    free(o->text);
    free(o);
}

static void sweep(struct state *s) {
    for (struct object **link = &s->all; *link;) {
        struct object *o = *link;
        if (o->marked) {
            o->marked = 0;
            link = &o->next;
        } else {
            *link = o->next;
            s->objects--;
            finalize(o);
        }
    }
}

static void collect(struct state *s) {
    mark_all(s);
    sweep(s);
    s->enough = 2 * s->objects > ENOUGH ? 2 * s->objects : ENOUGH;
    s->collections++;
}

/* On the stack, so that a collection finds it. */
static struct object *new_object(struct state *s, enum kind kind) {
    if (s->objects >= s->enough) collect(s);
    struct object *o = calloc(1, sizeof *o);
    if (!o) fail(s, "out of memory for objects");
    o->kind = kind;
    o->next = s->all;
    s->all = o;
    s->objects++;
    push(s, (struct value){.is = OBJECT, .object = o});
    return o;
}

/* ---- the lock ---- */

static _Thread_local const char me; /* its address names the thread */

static int holds(struct state *s) { return atomic_load(&s->holder) == &me; }

static void enter(struct state *s) {
    pthread_mutex_lock(&s->mutex);
    unsigned number = atomic_fetch_add(&s->numbers, 1);
    while (number != atomic_load(&s->calling)) pthread_cond_wait(&s->called, &s->mutex);
    atomic_store(&s->holder, &me);
    pthread_mutex_unlock(&s->mutex);
}

static void leave(struct state *s) {
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->holder, NULL);
    atomic_fetch_add(&s->calling, 1);
    pthread_cond_broadcast(&s->called);
    pthread_mutex_unlock(&s->mutex);
}

/* A loop's back edge: whoever waits for the lock has it, and the runtime its safe point. */
static void back_edge(struct state *s) {
    if (atomic_load(&s->numbers) - atomic_load(&s->calling) > 1) {
        leave(s);
        enter(s);
    }
    tide_safepoint(s->rt);
}

/* ---- the collector's table ---- */

/* On the thread that runs this state, or on another one that is short of memory. */
static int on_collect(void *user, int level) {
    struct state *s = user;
    int mine = holds(s);
    (void)level; /* there is one kind */
    if (!mine) enter(s);
    collect(s);
    s->asked++;
    if (!mine) leave(s);
    return TIDE_COLLECT_DONE;
}

static void on_pressure(void *user, int64_t delta_bytes) {
    struct state *s = user;
    atomic_fetch_add(&s->device_bytes, delta_bytes);
}

/* While this thread waits, another one may collect. */
static void on_blocking(void *user, void (*fn)(void *wait), void *wait) {
    struct state *s = user;
    int mine = holds(s);
    if (mine) leave(s);
    fn(wait);
    if (mine) enter(s);
}

static void on_detach(void *user) {
    struct state *s = user;
    s->registered = 0;
}

static int register_collector(struct state *s) {
    const tide_collector table = {.struct_size = sizeof table,
                                  .name = "embed",
                                  .caps = TIDE_COLLECTOR_TRACING,
                                  .user = s,
                                  .collect = on_collect,
                                  .pressure = on_pressure,
                                  .blocking = on_blocking,
                                  .detach = on_detach};
    s->registered = tide_collector_register(s->rt, &table, &s->id) == TIDE_OK;
    return s->registered;
}

/* ---- texts become blocks ---- */

static struct object *push_text(struct state *s, const char *text, size_t length) {
    struct object *o = new_object(s, TEXT);
    o->text = strndup(text, length);
    if (!o->text) fail(s, "out of memory for a text");
    return o;
}

/* Takes the top of the stack into the list or block below it. */
static void append(struct state *s) {
    struct object *to = peek(s, 1).object;
    if (to->n == to->room) {
        size_t room = to->room ? 2 * to->room : 8;
        struct value *items = realloc(to->items, room * sizeof *items);
        if (!items) fail(s, "out of memory for %zu items", room);
        to->items = items;
        to->room = room;
    }
    to->items[to->n++] = s->stack[--s->top];
}

static struct object *word(struct state *s, const char *name, size_t length) {
    struct object *w = s->words;
    while (w && (strncmp(w->text, name, length) != 0 || w->text[length])) w = w->word;
    if (w) return w;
    w = push_text(s, name, length);
    w->kind = WORD;
    w->word = s->words;
    s->words = w;
    s->top--;
    return w;
}

/* 'a text', /a name to push, a number, or a word to call; goes on behind it. */
static const char *read_one(struct state *s, const char *p) {
    if (*p == '\'') {
        size_t length = strcspn(p + 1, "'");
        if (!p[1 + length]) fail(s, "a text does not end");
        push_text(s, p + 1, length);
        return p + length + 2;
    }
    size_t length = strcspn(p, " \n{}");
    char *end;
    double number = strtod(p, &end);
    if (end == p + length)
        push_number(s, number);
    else if (*p == '/' && length > 1)
        push(s, (struct value){.is = OBJECT, .object = word(s, p + 1, length - 1)});
    else
        push(s, (struct value){.is = CALL, .object = word(s, p, length)});
    return p + length;
}

/* Pushes the block that ends at `close`, and goes on behind it. */
static const char *read_block(struct state *s, const char *p, char close) {
    new_object(s, BLOCK);
    for (;; append(s)) {
        p += strspn(p, " \n");
        if (*p == close) return close ? p + 1 : p;
        if (!*p || *p == '}') fail(s, *p ? "a } without its {" : "a { without its }");
        p = *p == '{' ? read_block(s, p + 1, '}') : read_one(s, p);
    }
}

/* ---- running ---- */

static void run(struct state *s, struct object *block);

static void in_scope(struct state *s, void (*fn)(struct state *s)) {
    check(s, tide_scope_begin(s->rt) == TIDE_OK);
    fn(s);
    check(s, tide_scope_end(s->rt) == TIDE_OK);
}

static void call(struct state *s, struct object *w) {
    if (w->defined && w->value.is == OBJECT && w->value.object->kind == BLOCK)
        run(s, w->value.object);
    else if (w->defined)
        push(s, w->value);
    else if (!w->native)
        fail(s, "%s is not defined", w->text);
    else if (w->native->scoped)
        in_scope(s, w->native->fn);
    else
        w->native->fn(s);
}

static void run(struct state *s, struct object *block) {
    struct frame f;
    hold(s, &f, block);
    for (size_t i = 0; i < block->n; i++) {
        if (block->items[i].is == CALL)
            call(s, block->items[i].object);
        else
            push(s, block->items[i]);
    }
    let_go(s, &f);
}

static void run_held(struct state *s, const void *frame) {
    run(s, ((const struct frame *)frame)->held);
}

/* ---- words of the language ---- */

static void do_def(struct state *s) {
    struct object *w = object_at(s, 1, WORD);
    w->value = peek(s, 0);
    w->defined = 1;
    s->top -= 2;
}

static void do_drop(struct state *s) {
    peek(s, 0);
    s->top--;
}

static void do_dup(struct state *s) { push(s, peek(s, 0)); }

static void do_greater(struct state *s) {
    push_number(s, number_at(s, 1) > number_at(s, 0));
    finish(s, 2);
}

static void do_if(struct state *s) {
    struct object *block = object_at(s, 0, BLOCK);
    double condition = number_at(s, 1);
    s->top -= 2;
    if (condition != 0) run(s, block); /* which holds it */
}

static void do_repeat(struct state *s) {
    struct frame body;
    int64_t times = count_at(s, 1);
    hold(s, &body, object_at(s, 0, BLOCK));
    s->top -= 2;
    for (int64_t i = 0; i < times; i++) {
        run(s, body.held);
        back_edge(s);
    }
    let_go(s, &body);
}

static void do_error(struct state *s) { fail(s, "%s", object_at(s, 0, TEXT)->text); }

static void do_try(struct state *s) {
    struct frame body, otherwise;
    hold(s, &otherwise, object_at(s, 0, BLOCK));
    hold(s, &body, object_at(s, 1, BLOCK));
    s->top -= 2;
    if (!protect(s, run_held, &body)) {
        push_text(s, s->error, strlen(s->error));
        run(s, otherwise.held);
    }
    let_go(s, &otherwise);
}

/* ---- arrays ---- */

/* As a value of the language. The scope that it was made in takes the maker's reference. */
static void push_array(struct state *s, tide_array *a) {
    check(s, a != NULL);
    struct object *o = new_object(s, ARRAY);
    o->array = tide_retain(a);
    check(s, o->array != NULL);
}

static tide_array *array_at(struct state *s, size_t down) {
    return object_at(s, down, ARRAY)->array;
}

static tide_arg arg_at(struct state *s, size_t down) {
    struct value v = peek(s, down);
    return v.is == NUMBER ? tide_arg_float(v.number) : tide_arg_array(array_at(s, down));
}

static void do_zeros(struct state *s) {
    int64_t shape[1] = {count_at(s, 0)};
    push_array(s, tide_zeros(s->rt, TIDE_F32, 1, shape));
    finish(s, 1);
}

static void do_arange(struct state *s) {
    push_array(s, tide_arange(s->rt, TIDE_F32, 0, number_at(s, 0), 1));
    finish(s, 1);
}

/* Two numbers stay numbers, and need no runtime. */
static void arithmetic(struct state *s, double numbers, const char *expression) {
    if (peek(s, 1).is == NUMBER && peek(s, 0).is == NUMBER) {
        push_number(s, numbers);
    } else {
        const tide_arg operands[] = {arg_at(s, 1), arg_at(s, 0)};
        check(s, tide_scope_begin(s->rt) == TIDE_OK);
        push_array(s, tide_map_args(s->rt, expression, operands, 2));
        check(s, tide_scope_end(s->rt) == TIDE_OK);
    }
    finish(s, 2);
}

#define A (peek(s, 1).number) /* 0 of what is no number */
#define B (peek(s, 0).number)
static void do_add(struct state *s) { arithmetic(s, A + B, "(a, b) -> a + b"); }
static void do_subtract(struct state *s) { arithmetic(s, A - B, "(a, b) -> a - b"); }
static void do_multiply(struct state *s) { arithmetic(s, A * B, "(a, b) -> a * b"); }
static void do_divide(struct state *s) { arithmetic(s, A / B, "(a, b) -> a / b"); }

/* operands, an expression, how many operands: `x 2 '(x, a) -> sqrt(x*x + a)' 2 map` */
static void do_map(struct state *s) {
    tide_arg operands[TIDE_MAX_ARGS];
    size_t n = (size_t)count_at(s, 0);
    const char *expression = object_at(s, 1, TEXT)->text;
    if (n > TIDE_MAX_ARGS) fail(s, "more than %d operands", TIDE_MAX_ARGS);
    for (size_t i = 0; i < n; i++) operands[i] = arg_at(s, 1 + n - i);
    push_array(s, tide_map_args(s->rt, expression, operands, n));
    finish(s, 2 + n);
}

static void do_sum(struct state *s) {
    tide_arg sum;
    check(s, tide_item(tide_map(s->rt, "(a) -> sum(f64(a))", array_at(s, 0)), &sum) == TIDE_OK);
    push_number(s, sum.value.f);
    finish(s, 1);
}

/* Runs a block for each row of an array; the list of what the block left. The rows are arrays of
** this word's own until it ends, or an error leaves through it. */
static void do_rows(struct state *s) {
    struct frame array, body;
    hold(s, &body, object_at(s, 0, BLOCK));
    hold(s, &array, object_at(s, 1, ARRAY));
    s->top -= 2;
    int64_t rows = tide_array_dim(array.held->array, 0);
    check(s, rows >= 0);
    struct object *list = new_object(s, LIST);
    for (int64_t i = 0; i < rows; i++) {
        tide_range row = tide_range_index(i);
        push_array(s, tide_slice_ranges(array.held->array, 1, &row));
        run(s, body.held);
        if (object_at(s, 1, LIST) != list) fail(s, "the block of rows leaves one value");
        append(s);
    }
    let_go(s, &body);
}

static void do_reshape(struct state *s) {
    int64_t shape[2] = {count_at(s, 1), count_at(s, 0)};
    push_array(s, tide_reshape(array_at(s, 2), 2, shape));
    finish(s, 3);
}

static void do_print(struct state *s) {
    size_t length = tide_array_text(array_at(s, 0), NULL, 0);
    check(s, length > 0);
    struct object *o = new_object(s, TEXT);
    o->text = calloc(1, length + 1);
    if (!o->text) fail(s, "out of memory for a text");
    check(s, tide_array_text(array_at(s, 1), o->text, length + 1) == length);
    printf("%s\n", o->text);
    s->top -= 2;
}

static const struct native natives[] = {
    {"def", do_def, 0},     {"drop", do_drop, 0},     {"dup", do_dup, 0},
    {">", do_greater, 0},   {"if", do_if, 0},         {"repeat", do_repeat, 0},
    {"error", do_error, 0}, {"try", do_try, 0},       {"+", do_add, 0},
    {"-", do_subtract, 0},  {"*", do_multiply, 0},    {"/", do_divide, 0},
    {"zeros", do_zeros, 1}, {"arange", do_arange, 1}, {"map", do_map, 1},
    {"sum", do_sum, 1},     {"rows", do_rows, 1},     {"reshape", do_reshape, 1},
    {"print", do_print, 1},
};

/* ---- a state, from outside ---- */

static void add_natives(struct state *s, const void *arg) {
    (void)arg;
    for (size_t i = 0; i < sizeof natives / sizeof natives[0]; i++)
        word(s, natives[i].name, strlen(natives[i].name))->native = &natives[i];
}

/* Unregisters, and finalizes all objects, before its runtime is closed or after. */
static void state_close(struct state *s) {
    if (!s) return;
    if (s->registered && tide_collector_unregister(s->rt, s->id) != TIDE_OK) tide_error_clear();
    sweep(s); /* nothing is marked */
    pthread_cond_destroy(&s->called);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static struct state *state_new(tide_runtime *rt) {
    struct state *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->rt = rt;
    s->enough = ENOUGH;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->called, NULL);
    if (protect(s, add_natives, NULL) && register_collector(s)) return s;
    state_close(s);
    return NULL;
}

static void run_text(struct state *s, const void *text) {
    struct frame program;
    read_block(s, text, 0);
    hold(s, &program, object_at(s, 0, BLOCK));
    s->top--;
    run(s, program.held);
    let_go(s, &program);
}

/* Runs a program; 0 and its text in s->error where an error leaves it. */
static int state_run(struct state *s, const char *text) {
    enter(s);
    /* arrays that this thread makes from here on are this state's */
    if (s->registered && tide_collector_use(s->rt, s->id) != TIDE_OK) tide_error_clear();
    int well = protect(s, run_text, text);
    leave(s);
    return well;
}

/* ---- what the program shows ---- */

static void expect(int true_it_is, const char *what) {
    if (true_it_is) return;
    fprintf(stderr, "embed: not so: %s; the last error: %s\n", what, tide_error_last()->message);
    exit(1);
}

static void runs(struct state *s, const char *text) {
    if (state_run(s, text)) return;
    fprintf(stderr, "embed: %s: %s\n", text, s->error);
    exit(1);
}

/* The number on the top. */
static double answer(struct state *s, const char *text) {
    runs(s, text);
    expect(s->top > 0 && s->stack[s->top - 1].is == NUMBER, "there is an answer");
    return s->stack[--s->top].number;
}

static tide_runtime *open_runtime(void) {
    const tide_config config = {
        .struct_size = sizeof config, .collector = "refcount", .limit = "4MiB"};
    tide_runtime *rt;
    expect(tide_open(&config, &rt) == TIDE_OK, "the runtime opens");
    return rt;
}

static struct state *open_state(tide_runtime *rt) {
    struct state *s = state_new(rt);
    expect(s != NULL, "the state opens");
    return s;
}

static tide_runtime_figures figures(tide_runtime *rt) {
    tide_runtime_figures f = {.struct_size = sizeof f};
    expect(tide_collect(rt) == TIDE_OK && tide_runtime_info(rt, &f) == TIDE_OK,
           "there are figures");
    return f;
}

/* Repeats a loop whose turns make two arrays of 1 KiB each, and drop two. */
static int make_temporaries(struct state *s, long arrays) {
    char text[100];
    snprintf(text, sizeof text, "%ld { /x x 1 + 2 / def } repeat", arrays / 2);
    return state_run(s, text);
}

static void show_temporaries(tide_runtime *rt, long arrays) {
    struct state *s = open_state(rt);
    runs(s, "6 arange 10 * 2 3 reshape print  /x 256 zeros def");
    expect(make_temporaries(s, arrays), s->error);
    expect(answer(s, "x sum") == 256, "x is at the fixed point of (x + 1) / 2");
    tide_runtime_figures f = figures(rt);
    expect(f.allocations >= (uint64_t)arrays, "so many arrays were made");
    expect(f.peak_backed <= f.limit, "they fit under the limit");
    expect(s->asked >= arrays / 4096, "the runtime asked for collections");
    expect(f.arrays == 1, "x alone lives");
    printf(
        "temporaries: %ld arrays, %.0f MiB, at most %.1f MiB at a time; %u collections, of which "
        "the runtime asked for %u\n",
        arrays, (double)arrays / 1024, (double)f.peak_backed / (1 << 20), s->collections, s->asked);
    state_close(s);
}

/* ---- errors ---- */

static void fails(struct state *s, const char *text, const char *why) {
    expect(!state_run(s, text), text);
    if (strstr(s->error, why)) return;
    fprintf(stderr, "embed: %s: %s, and not: %s\n", text, s->error, why);
    exit(1);
}

/* From inside three words, in whose scopes arrays are, to whoever catches them. */
static void show_errors(tide_runtime *rt) {
    struct state *s = open_state(rt);
    runs(s, "/m 64 arange 4 16 reshape def  /caught 0 def "
            "/careful { { sum dup 500 > { 'too large' error } if } rows } def "
            "/deep { { 4 4 reshape { drop m careful } rows } rows } def");
    uint64_t before = figures(rt).arrays;
    double caught = answer(s, "5000 { { m deep drop } { drop /caught caught 1 + def } try } repeat "
                              "caught");
    expect(caught == 5000, "each error is caught");
    expect(tide_scope_depth(rt) == 0, "no scope is left");
    fails(s, "999 { 1 } repeat 10 arange", "values on the stack");
    expect(figures(rt).arrays == before, "no array is left");
    fails(s, "10 arange 10 arange { drop drop 9000 { 256 zeros drop } repeat y } { drop } try sum",
          "the stack is empty"); /* what was taken and collected does not come back */
    fails(s, "2.5 zeros", "no count");
    fails(s, "m deep", "too large");
    fails(s, "3 arange 4 arange +", "do not broadcast");
    fails(s, "m '(m) -> m +' 1 map", "column");
    fails(s, "10000000 zeros", "out of memory");
    fails(s, "/f { f } def f", "nested too deeply");
    fails(s, "1 2 + y", "y is not defined");
    expect(s->top == 0 && answer(s, "m sum") == 2016, "all goes on");
    printf("errors: 5000 left by longjmp through three scopes; nothing was left behind\n");
    state_close(s);
}

/* ---- threads ---- */

struct job {
    struct state *s;
    long arrays;
    int well;
};

static void *work(void *user) {
    struct job *job = user;
    job->well = make_temporaries(job->s, job->arrays);
    return NULL;
}

/* Two states of one runtime, each on a thread of its own; which thread, they need not know. */
static void show_threads(tide_runtime *rt, long arrays) {
    struct job job[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        job[i] = (struct job){.s = open_state(rt), .arrays = arrays};
        runs(job[i].s, "/x 256 zeros def");
        expect(pthread_create(&thread[i], NULL, work, &job[i]) == 0, "a thread begins");
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        expect(job[i].well, job[i].s->error);
        expect(answer(job[i].s, "x sum") == 256, "what a thread computed is there for another one");
        expect(job[i].s->asked > 0, "its garbage was found");
    }
    tide_runtime_figures f = figures(rt);
    expect(f.peak_backed <= f.limit, "both fit under the limit");
    printf("threads: two, %ld arrays each, both states moved there and back; %u and %u "
           "collections\n",
           arrays, job[0].s->collections, job[1].s->collections);
    for (int i = 0; i < 2; i++) state_close(job[i].s);
}

/* ---- closing ---- */

/* In the order that the digits of `order` say: runtimes 0 and 1, their states 2 and 3. */
static void close_in_order(const char *order) {
    tide_runtime *rt[2] = {open_runtime(), open_runtime()};
    struct state *s[2] = {open_state(rt[0]), open_state(rt[1])};
    for (int i = 0; i < 2; i++) runs(s[i], "/x 100 arange def");
    for (const char *p = order; *p; p++) {
        int which = *p - '0', i = which % 2;
        if (which >= 2) {
            state_close(s[i]);
            s[i] = NULL;
            continue;
        }
        tide_close(rt[i]);
        if (!s[i]) continue;
        expect(!s[i]->registered && atomic_load(&s[i]->device_bytes) == 0, "it was unregistered");
        expect(answer(s[i], "1 2 +") == 3, "the language goes on without its runtime");
        fails(s[i], "x sum", "closed");
    }
}

static void show_closing(void) {
    int n = 0;
    for (int code = 0; code < 256; code++) {
        char order[5] = {(char)('0' + code % 4), (char)('0' + code / 4 % 4),
                         (char)('0' + code / 16 % 4), (char)('0' + code / 64), 0};
        if (strlen(order) != 4 || !strchr(order, '0') || !strchr(order, '1') ||
            !strchr(order, '2') || !strchr(order, '3'))
            continue;
        close_in_order(order);
        n++;
    }
    expect(n == 24, "there are so many orders");
    printf("closing: two runtimes and their states, in each of the %d orders\n", n);
}

int main(int argc, char **argv) {
    char *end = NULL;
    long arrays = argc > 1 ? strtol(argv[1], &end, 10) : 1000000;
    if (argc > 2 || (end && *end) || arrays < 100000 || arrays > 100000000) {
        fprintf(stderr, "usage: embed [ARRAYS]     from 100000 on\n");
        return 2;
    }
    tide_runtime *rt = open_runtime();
    show_temporaries(rt, arrays);
    show_errors(rt);
    show_threads(rt, arrays / 5);
    tide_close(rt);
    show_closing();
    return 0;
}
