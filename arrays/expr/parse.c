/* parse.c: expression text -> tidei_ast. The grammar stands in docs/expressions.md.
**
** A recursive descent over tokens, operators by precedence climbing. Every cycle of the recursion
** passes through unary(), which counts depth. Nodes are appended after their operands, so the list
** is in topological order, and `let` is only a second name for a node. A function that fails has
** set the error and returns NONE (or false). */
#include "arrays/expr/front.h"
#include "arrays/place.h"
#include "runtime/base/text.h"
#include <stdlib.h>

#define NONE      (-1)
#define TEXT_MAX  ((size_t)1 << 20) /* bytes; positions fit 32 bits with room to spare */
#define NAMES_MAX 256               /* parameters and let bindings of one expression */

/* ---- errors ---- */

const char *tidei_fold_name(int fold) {
    static const char *const names[] = {"none",   "sum",     "prod",   "min",    "max",
                                        "any",    "all",     "argmin", "argmax", "mean",
                                        "cumsum", "cumprod", "cummin", "cummax"};
    return fold >= 0 && (size_t)fold < TIDEI_COUNT(names) ? names[fold] : "?";
}

/* The operation of an error outlives the expression: the thread keeps a copy, cut if need be. */
static const char *kept_text(const char *text) {
    static _Thread_local char kept[256];
    return tidei_text_cut(text, kept, sizeof kept);
}

tide_status tidei_ast_fail(const tidei_ast *ast, uint32_t at, tide_status s, const char *fmt, ...) {
    char message[1024], place[48], window[TIDEI_WINDOW_MAX];
    int line;
    va_list ap;
    va_start(ap, fmt);
    tidei_vformat(message, sizeof message, fmt, ap);
    va_end(ap);
    if (!ast->text) return tidei_fail(s, ast->op, "%s", message);
    int column = tidei_text_column(ast->text, at, &line);
    if (line > 1)
        tidei_format(place, sizeof place, "line %d, column %d", line, column);
    else
        tidei_format(place, sizeof place, "column %d", column);
    return tidei_fail(s, kept_text(ast->text), "%s: %s\n%s", place, message,
                      tidei_text_window(ast->text, at, window));
}

void tidei_ast_name_error(const tidei_ast *ast) {
    const tide_error *e = tide_error_last();
    if (ast->text) tidei_fail(e->status, kept_text(ast->text), "%s", e->message);
}

/* ---- tokens ---- */

/* Operators are their characters; T2 joins two of them. */
#define T2(a, b) ((a) << 8 | (b))
enum { T_END = 0, T_NAME = 1, T_NUMBER = 2, T_BAD = 3 };

typedef struct token {
    int kind;
    uint32_t at, end;
    tide_arg number;
} token;

typedef struct parser {
    const char *text;
    token tok;
    int depth;
    tidei_ast *ast;
    uint32_t cap; /* of the ast's lists */
    uint32_t nnames;
    struct {
        uint32_t at, length;
        uint16_t node;
    } names[NAMES_MAX];
} parser;

/* The errors of functions that return a node, and of those that return a bool. */
#define FAIL(p, where, ...) (tidei_ast_fail((p)->ast, (where), TIDE_E_PARSE, __VA_ARGS__), NONE)
#define BAD(p, where, ...)  (tidei_ast_fail((p)->ast, (where), TIDE_E_PARSE, __VA_ARGS__), false)

static bool is_hexdigit(char c) {
    return tidei_is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}
static bool begins_name(char c) { return tidei_is_letter(c) || c == '_'; }
static bool in_name(char c) { return begins_name(c) || tidei_is_digit(c); }

/* [s, end) is all digits of `base`; false when the value does not fit 64 bits. */
static bool to_uint(const char *s, const char *end, unsigned base, uint64_t *out) {
    uint64_t v = 0;
    for (; s < end; s++) {
        unsigned digit = (unsigned)(*s <= '9' ? *s - '0' : (*s | 32) - 'a' + 10);
        if (v > (UINT64_MAX - digit) / base) return false;
        v = v * base + digit;
    }
    *out = v;
    return true;
}

static tide_arg integer(uint64_t v) {
    return v <= INT64_MAX ? tide_arg_int((int64_t)v) : tide_arg_uint(v);
}

/* A number at s: its value goes into t, its end into *end. */
static bool lex_number(parser *p, const char *s, token *t, const char **end) {
    const char *q = s;
    uint64_t u;
    bool fractional = false;
    if (s[0] == '0' && (s[1] | 32) == 'x') {
        for (q = s + 2; is_hexdigit(*q); q++) {}
        if (q == s + 2 || in_name(*q)) return BAD(p, t->at, "malformed hexadecimal number");
        if (!to_uint(s + 2, q, 16, &u))
            return BAD(p, t->at, "%.*s does not fit 64 bits", (int)(q - s), s);
        t->number = integer(u);
        return *end = q, true;
    }
    while (tidei_is_digit(*q)) q++;
    if (*q == '.') {
        fractional = true;
        for (q++; tidei_is_digit(*q); q++) {}
    }
    if ((*q | 32) == 'e' &&
        (tidei_is_digit(q[1]) || ((q[1] == '+' || q[1] == '-') && tidei_is_digit(q[2])))) {
        fractional = true;
        for (q += 2; tidei_is_digit(*q); q++) {}
    }
    bool imaginary = *q == 'i' && !in_name(q[1]);
    if ((in_name(*q) && !imaginary) || *q == '.') {
        while (in_name(*q) || *q == '.') q++;
        return BAD(p, t->at, "malformed number \"%.*s\"", (int)(q - s), s);
    }
    if (fractional || imaginary) {
        double v = tidei_parse_double(s, NULL);
        if (v > 1.7976931348623157e308)
            return BAD(p, t->at, "%.*s is beyond f64: write inf", (int)(q - s), s);
        t->number = imaginary ? tide_arg_complex(0, v) : tide_arg_float(v);
        return *end = q + imaginary, true;
    }
    if (*s == '0' && q > s + 1)
        return BAD(p, t->at, "an integer does not begin with 0 (hexadecimal: 0x)");
    if (!to_uint(s, q, 10, &u))
        return BAD(p, t->at, "%.*s does not fit 64 bits: write a float, %.*s.0", (int)(q - s), s,
                   (int)(q - s), s);
    t->number = integer(u);
    return *end = q, true;
}

static bool lex(parser *p, uint32_t from, token *t) {
    static const int pairs[] = {T2('-', '>'), T2('*', '*'), T2('/', '/'), T2('<', '<'),
                                T2('>', '>'), T2('=', '='), T2('!', '='), T2('<', '='),
                                T2('>', '='), T2('&', '&'), T2('|', '|')};
    const char *s = p->text + from;
    while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
    *t = (token){.kind = T_END, .at = (uint32_t)(s - p->text)};
    const char *end = s;
    if (begins_name(*s)) {
        t->kind = T_NAME;
        while (in_name(*end)) end++;
    } else if (tidei_is_digit(*s) || (*s == '.' && tidei_is_digit(s[1]))) {
        t->kind = T_NUMBER;
        if (!lex_number(p, s, t, &end)) return t->kind = T_BAD, false;
    } else if (*s) {
        for (size_t i = 0; i < TIDEI_COUNT(pairs) && !t->kind; i++)
            if (pairs[i] == T2((unsigned char)s[0], (unsigned char)s[1]))
                t->kind = pairs[i], end = s + 2;
        if (!t->kind && strchr("()+-*/%~!<>&^|=,;", *s)) t->kind = *s, end = s + 1;
        if (!t->kind) {
            end = s + tidei_text_character(s);
            t->kind = T_BAD;
            return BAD(p, t->at,
                       (unsigned char)*s < ' ' ? "unexpected control character"
                                               : "unexpected \"%.*s\"",
                       (int)(end - s), s);
        }
    }
    t->end = (uint32_t)(end - p->text);
    return true;
}

static bool next(parser *p) { return lex(p, p->tok.end, &p->tok); }

/* The current token for a message. */
static const char *found(parser *p, char buf[40]) {
    uint32_t n = p->tok.end - p->tok.at;
    if (p->tok.kind == T_END) return "the end";
    tidei_format(buf, 40, n > 30 ? "\"%.*s...\"" : "\"%.*s\"", n > 30 ? 30 : (int)n,
                 p->text + p->tok.at);
    return buf;
}

static bool expect(parser *p, int kind, const char *what) {
    char buf[40];
    if (p->tok.kind == kind) return next(p);
    return BAD(p, p->tok.at, "expected %s but found %s", what, found(p, buf));
}

/* ---- names ---- */

static bool same(const parser *p, const token *t, const char *name) {
    size_t n = strlen(name);
    return t->end - t->at == n && memcmp(p->text + t->at, name, n) == 0;
}

static int find_name(const parser *p, const token *t) {
    for (uint32_t i = p->nnames; i-- > 0;)
        if (p->names[i].length == t->end - t->at &&
            !memcmp(p->text + p->names[i].at, p->text + t->at, p->names[i].length))
            return p->names[i].node;
    return NONE;
}

/* What a call may name: operations, then folds and scans, then element types, then index; NULL
** after the last. */
enum {
    FIRST_OP = TIDEI_OP_CAST + 1,
    NOPS = TIDEI_OP_COUNT - FIRST_OP,
    NFOLDS = TIDEI_FOLDS - TIDEI_FOLD_SUM,
    INDEX = NOPS + NFOLDS + TIDE_DTYPE_COUNT
};
static const char *function_name(int i) {
    if (i < NOPS) return tidei_op_infos[FIRST_OP + i].name;
    if (i < NOPS + NFOLDS) return tidei_fold_name(TIDEI_FOLD_SUM + i - NOPS);
    if (i < INDEX) return tide_dtype_name(i - NOPS - NFOLDS);
    return i == INDEX ? "index" : NULL;
}

static int find_function(const parser *p, const token *t) {
    const char *name;
    for (int i = 0; (name = function_name(i)); i++)
        if (same(p, t, name)) return i;
    return NONE;
}

static bool constant(const parser *p, const token *t, tide_arg *v) {
    const struct {
        const char *name;
        tide_arg v;
    } all[] = {{"true", tide_arg_bool(1)},
               {"false", tide_arg_bool(0)},
               {"inf", tide_arg_float(__builtin_inf())},
               {"nan", tide_arg_float(__builtin_nan(""))},
               {"pi", tide_arg_float(3.14159265358979323846)}};
    for (size_t i = 0; i < TIDEI_COUNT(all); i++)
        if (same(p, t, all[i].name)) return *v = all[i].v, true;
    return false;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; at most 20 characters of each
** count. */
static int distance(const char *a, size_t na, const char *b, size_t nb) {
    enum { N = 20 };
    int d[N + 1][N + 1];
    if (na > N) na = N;
    if (nb > N) nb = N;
    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (!i || !j) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

/* Keeps the three nearest of the names offered. */
typedef struct nearest {
    const char *text;
    size_t length;
    struct {
        const char *name;
        size_t length;
        int distance;
    } best[3];
} nearest;

static void offer(nearest *n, const char *name, size_t length) {
    int d = distance(n->text, n->length, name, length), i = 2;
    if (d > 1 + (int)n->length / 3) return;
    if (n->best[i].name && n->best[i].distance <= d) return;
    for (; i > 0 && (!n->best[i - 1].name || n->best[i - 1].distance > d); i--)
        n->best[i] = n->best[i - 1];
    n->best[i].name = name;
    n->best[i].length = length;
    n->best[i].distance = d;
}

static void offer_functions(nearest *n) {
    const char *name;
    for (int i = 0; (name = function_name(i)); i++) offer(n, name, strlen(name));
}

static void offer_names(const parser *p, nearest *n) {
    for (uint32_t i = 0; i < p->nnames; i++) offer(n, p->text + p->names[i].at, p->names[i].length);
}

static int fail_unknown(parser *p, const token *t, const char *what, const nearest *n) {
    char list[160] = "";
    size_t used = 0;
    for (int i = 0; i < 3 && n->best[i].name && used < sizeof list; i++)
        used += (size_t)tidei_format(
            list + used, sizeof list - used, "%s%.*s",
            i ? ", " : "; nearest: ", (int)tidei_min_size(n->best[i].length, 40), n->best[i].name);
    if (!used && p->nnames && what[0] == 'n') {
        for (uint32_t i = 0; i < p->nnames && i < 3 && used < sizeof list; i++)
            used += (size_t)tidei_format(
                list + used, sizeof list - used, "%s%.*s",
                i ? ", " : "; there are: ", (int)tidei_min_size(p->names[i].length, 40),
                p->text + p->names[i].at);
        if (p->nnames > 3 && used < sizeof list)
            tidei_format(list + used, sizeof list - used, ", ...");
    }
    return FAIL(p, t->at, "unknown %s \"%.*s\"%s", what, (int)tidei_min_size(t->end - t->at, 60),
                p->text + t->at, list);
}

static bool bind(parser *p, const token *t, int node) {
    tide_arg v;
    int n = (int)(t->end - t->at);
    if (same(p, t, "let") || constant(p, t, &v))
        return BAD(p, t->at, "\"%.*s\" is reserved", n, p->text + t->at);
    if (n > 255) return BAD(p, t->at, "a name has at most 255 characters");
    if (find_name(p, t) != NONE)
        return BAD(p, t->at, "the name \"%.*s\" is taken", n, p->text + t->at);
    if (p->nnames == NAMES_MAX) return BAD(p, t->at, "more than %d names", NAMES_MAX);
    p->names[p->nnames].at = t->at;
    p->names[p->nnames].length = (uint32_t)n;
    p->names[p->nnames++].node = (uint16_t)node;
    return true;
}

/* ---- nodes ---- */

static int add(parser *p, tidei_ast_node n) {
    tidei_ast *a = p->ast;
    if (a->nnodes == p->cap)
        return FAIL(p, n.at, "an expression has at most %d operations: split it", TIDEI_AST_MAX);
    a->nodes[a->nnodes] = n;
    return (int)a->nnodes++;
}

static int add_number(parser *p, tide_arg v, uint32_t at) {
    tidei_ast *a = p->ast;
    int n =
        add(p, (tidei_ast_node){.kind = TIDEI_AST_NUMBER, .a = (uint16_t)a->nnumbers, .at = at});
    if (n != NONE) a->numbers[a->nnumbers++] = v;
    return n;
}

static int add_op(parser *p, int op, const int *in, uint32_t at) {
    return add(p, (tidei_ast_node){TIDEI_AST_OP, (uint8_t)op, (uint16_t)in[0], (uint16_t)in[1],
                                   (uint16_t)in[2], at});
}

/* ---- expressions ---- */

enum { PREC_LOWEST = 1, PREC_COMPARE = 3 };
static const struct binary {
    int token, prec, op;
} binaries[] = {
    {T2('|', '|'), 1, TIDEI_OP_LOGICAL_OR},
    {T2('&', '&'), 2, TIDEI_OP_LOGICAL_AND},
    {T2('=', '='), PREC_COMPARE, TIDEI_OP_EQ},
    {T2('!', '='), PREC_COMPARE, TIDEI_OP_NE},
    {'<', PREC_COMPARE, TIDEI_OP_LT},
    {T2('<', '='), PREC_COMPARE, TIDEI_OP_LE},
    {'>', PREC_COMPARE, TIDEI_OP_GT},
    {T2('>', '='), PREC_COMPARE, TIDEI_OP_GE},
    {'|', 4, TIDEI_OP_BIT_OR},
    {'^', 5, TIDEI_OP_BIT_XOR},
    {'&', 6, TIDEI_OP_BIT_AND},
    {T2('<', '<'), 7, TIDEI_OP_SHL},
    {T2('>', '>'), 7, TIDEI_OP_SHR},
    {'+', 8, TIDEI_OP_ADD},
    {'-', 8, TIDEI_OP_SUB},
    {'*', 9, TIDEI_OP_MUL},
    {'/', 9, TIDEI_OP_DIV},
    {T2('/', '/'), 9, TIDEI_OP_FLOORDIV},
    {'%', 9, TIDEI_OP_REM},
};

static const struct binary *find_binary(int tok) {
    for (size_t i = 0; i < TIDEI_COUNT(binaries); i++)
        if (binaries[i].token == tok) return &binaries[i];
    return NULL;
}

static int unary(parser *p);

static int expression(parser *p, int min_prec) {
    const struct binary *b;
    bool compared = false;
    int in[3] = {unary(p), 0, 0};
    while (in[0] != NONE && (b = find_binary(p->tok.kind)) && b->prec >= min_prec) {
        uint32_t at = p->tok.at;
        if (b->prec == PREC_COMPARE && compared)
            return FAIL(p, at, "comparisons do not chain: write (a < b) && (b < c)");
        compared = b->prec == PREC_COMPARE;
        if (!next(p) || (in[1] = expression(p, b->prec + 1)) == NONE) return NONE;
        in[0] = add_op(p, b->op, in, at);
    }
    return in[0];
}

/* A written integer, for an axis. */
static bool axis_value(parser *p, int8_t *out) {
    char buf[40];
    bool minus = p->tok.kind == '-';
    if (minus && !next(p)) return false;
    if (p->tok.kind != T_NUMBER || p->tok.number.kind != TIDE_ARG_INT)
        return BAD(p, p->tok.at, "expected an axis, a written integer, but found %s",
                   found(p, buf));
    int64_t v = minus ? -p->tok.number.value.i : p->tok.number.value.i;
    if (v < -TIDE_MAX_RANK || v >= TIDE_MAX_RANK)
        return BAD(p, p->tok.at, "an axis lies in [%d, %d]", -TIDE_MAX_RANK, TIDE_MAX_RANK - 1);
    *out = (int8_t)v;
    return next(p);
}

static bool axis_list(parser *p, tidei_axes *x) {
    token after;
    x->n = 0;
    if (p->tok.kind != '(') return axis_value(p, &x->axis[x->n++]);
    if (lex(p, p->tok.end, &after) && after.kind == ')') return next(p) && next(p); /* none */
    do {
        if (!next(p)) return false;
        if (x->n == TIDE_MAX_RANK) return BAD(p, p->tok.at, "more than %d axes", TIDE_MAX_RANK);
        if (!axis_value(p, &x->axis[x->n])) return false;
        for (int i = 0; i < x->n; i++)
            if (x->axis[i] == x->axis[x->n])
                return BAD(p, p->tok.at, "axis %d stands twice", x->axis[i]);
        x->n++;
    } while (p->tok.kind == ',');
    return expect(p, ')', "\",\" or \")\"");
}

/* The options of folds and of scans, and how a message lists them. */
enum { AXIS = 1, KEEPDIMS = 2, REVERSE = 4, INITIAL = 8 };
static const struct {
    const char *name;
    int bit;
} options[] = {{"axis", AXIS}, {"keepdims", KEEPDIMS}, {"reverse", REVERSE}, {"initial", INITIAL}};
static int options_of(int fold) {
    return tidei_is_scan(fold) ? AXIS | REVERSE | INITIAL : AXIS | KEEPDIMS;
}
static const char *options_text(int fold) {
    return tidei_is_scan(fold) ? "axis=, reverse= and initial=" : "axis= and keepdims=";
}

/* The name of an option, up to its "="; 0 if it is none. */
static int option_name(parser *p, int fold, token *name) {
    const char *f = tidei_fold_name(fold);
    token after = {.kind = T_END};
    *name = p->tok;
    if (name->kind == T_NAME && !lex(p, name->end, &after)) return 0;
    if (after.kind != '=') {
        if (fold == TIDEI_FOLD_MIN || fold == TIDEI_FOLD_MAX)
            return BAD(p, name->at,
                       "%s folds one operand; for two write %simum(a, b); options are %s", f, f,
                       options_text(fold));
        return BAD(p, name->at, "%s %s one operand; options are %s", f,
                   tidei_is_scan(fold) ? "scans" : "folds", options_text(fold));
    }
    for (size_t i = 0; i < TIDEI_COUNT(options); i++)
        if (same(p, name, options[i].name) && options[i].bit & options_of(fold))
            return next(p) && next(p) ? options[i].bit : 0;
    return BAD(p, name->at, "unknown option \"%.*s\": there are %s",
               (int)tidei_min_size(name->end - name->at, 60), p->text + name->at,
               options_text(fold));
}

static bool truth_value(parser *p, const token *option, int8_t *out) {
    tide_arg v;
    if (p->tok.kind != T_NAME || !constant(p, &p->tok, &v) || v.kind != TIDE_ARG_BOOL)
        return BAD(p, p->tok.at, "%.*s is true or false", (int)(option->end - option->at),
                   p->text + option->at);
    *out = (int8_t)v.value.i;
    return next(p);
}

static bool option_value(parser *p, int fold, int option, const token *name, tidei_axes *x) {
    switch (option) {
    case AXIS:
        if (!tidei_is_scan(fold)) return axis_list(p, x);
        x->n = 1;
        return axis_value(p, &x->axis[0]);
    case KEEPDIMS: return truth_value(p, name, &x->keepdims);
    case REVERSE: return truth_value(p, name, &x->reverse);
    default: return truth_value(p, name, &x->initial);
    }
}

/* What follows the body of a fold up to ")". */
static bool fold_options(parser *p, int fold, tidei_axes *x) {
    int given = 0;
    token name;
    while (p->tok.kind == ',') {
        int option = next(p) ? option_name(p, fold, &name) : 0;
        if (!option) return false;
        if (given & option)
            return BAD(p, name.at, "%.*s= stands twice", (int)(name.end - name.at),
                       p->text + name.at);
        given |= option;
        if (!option_value(p, fold, option, &name, x)) return false;
    }
    return true;
}

static int fold_call(parser *p, int fold, uint32_t at) {
    tidei_ast *a = p->ast;
    tidei_axes x = {.n = TIDEI_AXES_ALL};
    int body = expression(p, PREC_LOWEST);
    if (body == NONE || !fold_options(p, fold, &x) || !expect(p, ')', "\",\" or \")\""))
        return NONE;
    uint32_t i = 0;
    while (i < a->nfolds && memcmp(&a->folds[i], &x, sizeof x) != 0) i++;
    if (i == a->nfolds) a->folds[a->nfolds++] = x; /* fewer than nodes, so there is room */
    return add(p,
               (tidei_ast_node){TIDEI_AST_FOLD, (uint8_t)fold, (uint16_t)body, (uint16_t)i, 0, at});
}

static int op_call(parser *p, int op, const char *name, int arity, uint32_t at) {
    int in[3] = {0}, n = 0;
    if (p->tok.kind != ')')
        for (;;) {
            int v = expression(p, PREC_LOWEST);
            if (v == NONE) return NONE;
            if (n < 3) in[n] = v;
            n++;
            if (p->tok.kind != ',') break;
            if (!next(p)) return NONE;
        }
    if (!expect(p, ')', "\",\" or \")\"")) return NONE;
    if (n != arity)
        return FAIL(p, at, "%s takes %d operand%s, not %d", name, arity, arity > 1 ? "s" : "", n);
    if (op >= 0) return add_op(p, op, in, at);
    return add(
        p, (tidei_ast_node){
               .kind = TIDEI_AST_CAST, .what = (uint8_t)(-1 - op), .a = (uint16_t)in[0], .at = at});
}

static int index_call(parser *p, uint32_t at) {
    int8_t axis;
    if (!axis_value(p, &axis) || !expect(p, ')', "\")\"")) return NONE;
    return add(p, (tidei_ast_node){
                      .kind = TIDEI_AST_INDEX, .a = (uint16_t)(axis + TIDE_MAX_RANK), .at = at});
}

/* A name and "(" have been read. */
static int call(parser *p, const token *name) {
    int f = find_function(p, name);
    if (f == NONE) {
        nearest n = {p->text + name->at, name->end - name->at, {{0}}};
        if (find_name(p, name) != NONE)
            return FAIL(p, name->at,
                        "\"%.*s\" is a value, not a function: products are written with *",
                        (int)n.length, n.text);
        offer_functions(&n);
        return fail_unknown(p, name, "function", &n);
    }
    if (f < NOPS)
        return op_call(p, FIRST_OP + f, function_name(f), tidei_op_infos[FIRST_OP + f].arity,
                       name->at);
    if (f < NOPS + NFOLDS) return fold_call(p, TIDEI_FOLD_SUM + f - NOPS, name->at);
    if (f == INDEX) return index_call(p, name->at);
    return op_call(p, -1 - (f - NOPS - NFOLDS), function_name(f), 1, name->at);
}

static int name_or_call(parser *p) {
    token t = p->tok;
    tide_arg v;
    if (!next(p)) return NONE;
    if (same(p, &t, "let"))
        return FAIL(p, t.at,
                    "let stands at the beginning of the body: -> let name = value; result");
    if (p->tok.kind == '(' && !constant(p, &t, &v)) return next(p) ? call(p, &t) : NONE;
    if (constant(p, &t, &v)) return add_number(p, v, t.at);
    int node = find_name(p, &t);
    if (node != NONE) return node;
    if (find_function(p, &t) != NONE)
        return FAIL(p, t.at, "\"%.*s\" is a function: write %.*s(...)", (int)(t.end - t.at),
                    p->text + t.at, (int)(t.end - t.at), p->text + t.at);
    nearest n = {p->text + t.at, t.end - t.at, {{0}}};
    offer_names(p, &n);
    if (!n.best[0].name) offer_functions(&n);
    return fail_unknown(p, &t, "name", &n);
}

static int primary(parser *p) {
    char buf[40];
    token t = p->tok;
    if (t.kind == T_NAME) return name_or_call(p);
    if (t.kind == T_NUMBER) return next(p) ? add_number(p, t.number, t.at) : NONE;
    if (t.kind != '(') return FAIL(p, t.at, "expected a value but found %s", found(p, buf));
    if (!next(p)) return NONE;
    int v = expression(p, PREC_LOWEST);
    if (v == NONE) return NONE;
    if (p->tok.kind == ',')
        return FAIL(
            p, p->tok.at,
            "expected \")\" but found \",\": several results (e1, e2) stand alone at the end");
    return expect(p, ')', "\")\"") ? v : NONE;
}

static int power(parser *p) {
    int in[3] = {primary(p), 0, 0};
    if (in[0] == NONE || p->tok.kind != T2('*', '*')) return in[0];
    uint32_t at = p->tok.at;
    if (!next(p) || (in[1] = unary(p)) == NONE) return NONE;
    return add_op(p, TIDEI_OP_POW, in, at);
}

/* A sign before a written number is part of the number: -9223372036854775808 is an i64, though
** 9223372036854775808 is not. */
static bool negate(tide_arg *v) {
    if (v->kind == TIDE_ARG_INT)
        v->value.i = -v->value.i; /* was not negative */
    else if (v->kind == TIDE_ARG_UINT && v->value.u == (uint64_t)1 << 63)
        *v = tide_arg_int(INT64_MIN);
    else if (v->kind == TIDE_ARG_FLOAT)
        v->value.f = -v->value.f;
    else
        return false;
    return true;
}

static int unary(parser *p) {
    static const struct {
        int token, op;
    } signs[] = {
        {'-', TIDEI_OP_NEG}, {'+', -1}, {'~', TIDEI_OP_BIT_NOT}, {'!', TIDEI_OP_LOGICAL_NOT}};
    token sign = p->tok;
    int v = NONE;
    if (p->depth == TIDEI_DEPTH_MAX)
        return FAIL(p, sign.at, "nested more than %d deep", TIDEI_DEPTH_MAX);
    p->depth++;
    size_t i = 0;
    while (i < TIDEI_COUNT(signs) && signs[i].token != sign.kind) i++;
    if (i == TIDEI_COUNT(signs))
        v = power(p);
    else if (next(p)) {
        bool written = p->tok.kind == T_NUMBER;
        v = unary(p);
        if (v != NONE && signs[i].op >= 0) {
            tidei_ast_node *n = &p->ast->nodes[v];
            int in[3] = {v, 0, 0};
            if (!(written && sign.kind == '-' && n->kind == TIDEI_AST_NUMBER &&
                  negate(&p->ast->numbers[n->a])))
                v = add_op(p, signs[i].op, in, sign.at);
        }
    }
    p->depth--;
    return v;
}

/* ---- the whole ---- */

static bool parameter(parser *p) {
    char buf[40];
    token t = p->tok;
    uint32_t n = p->ast->nparams;
    if (t.kind != T_NAME)
        return BAD(p, t.at, "expected a parameter's name but found %s", found(p, buf));
    if (n == TIDE_MAX_ARGS) return BAD(p, t.at, "more than %d parameters", TIDE_MAX_ARGS);
    int node = add(p, (tidei_ast_node){.kind = TIDEI_AST_PARAM, .a = (uint16_t)n, .at = t.at});
    p->ast->param_at[p->ast->nparams++] = t.at;
    return node != NONE && bind(p, &t, node) && next(p);
}

static bool parameters(parser *p) {
    char buf[40];
    if (p->tok.kind == T_NAME) return parameter(p);
    if (p->tok.kind != '(')
        return BAD(p, p->tok.at, "expected \"(parameters) -> body\" but found %s", found(p, buf));
    if (!next(p)) return false;
    if (p->tok.kind == ')') return next(p);
    if (!parameter(p)) return false;
    while (p->tok.kind == ',')
        if (!next(p) || !parameter(p)) return false;
    return expect(p, ')', "\",\" or \")\"");
}

static bool lets(parser *p) {
    char buf[40];
    while (p->tok.kind == T_NAME && same(p, &p->tok, "let")) {
        if (!next(p)) return false;
        token name = p->tok;
        if (name.kind != T_NAME)
            return BAD(p, name.at, "expected a name but found %s", found(p, buf));
        if (!next(p) || !expect(p, '=', "\"=\"")) return false;
        int v = expression(p, PREC_LOWEST);
        if (v == NONE || !bind(p, &name, v) || !expect(p, ';', "an operator or \";\""))
            return false;
    }
    return true;
}

/* Whether "(" begins a list of results: a comma of its own, and nothing after its ")". */
static bool several_ahead(parser *p) {
    token t = p->tok;
    tidei_saved_error e;
    tidei_error_save(&e); /* a bad token further on is reported when it is reached */
    bool comma = false, several = false;
    for (int depth = 0;; t = t) {
        if (t.kind == '(') depth++;
        if (t.kind == ',' && depth == 1) comma = true;
        if (t.kind == ')' && --depth == 0) {
            several = comma && lex(p, t.end, &t) && t.kind == T_END;
            break;
        }
        if (t.kind == T_END || !lex(p, t.end, &t)) break;
    }
    tidei_error_restore(&e);
    return several;
}

static bool result(parser *p) {
    uint32_t at = p->tok.at;
    int v = expression(p, PREC_LOWEST);
    if (v == NONE) return false;
    if (p->ast->nresults == TIDE_MAX_RESULTS)
        return BAD(p, at, "more than %d results", TIDE_MAX_RESULTS);
    p->ast->results[p->ast->nresults++] = (uint16_t)v;
    return true;
}

static bool results(parser *p) {
    if (p->tok.kind != '(' || !several_ahead(p)) return result(p);
    do
        if (!next(p) || !result(p)) return false;
    while (p->tok.kind == ',');
    return expect(p, ')', "\",\" or \")\"");
}

static bool whole(parser *p) {
    char buf[40];
    if (!lex(p, 0, &p->tok) || !parameters(p) || !expect(p, T2('-', '>'), "\"->\"")) return false;
    if (!lets(p) || !results(p)) return false;
    if (p->tok.kind == T_END) return true;
    if (p->tok.kind == '=')
        return BAD(p, p->tok.at, "expected the end but found \"=\": equality is ==");
    if (p->tok.kind == ';')
        return BAD(p, p->tok.at, "expected the end but found \";\": bindings begin with let");
    return BAD(p, p->tok.at, "expected an operator or the end but found %s", found(p, buf));
}

/* The lists in one block: no list is longer than the text. */
static tide_status make_lists(tidei_runtime *rt, tidei_ast *a, size_t cap) {
    size_t bytes = cap * (sizeof *a->nodes + sizeof *a->numbers + sizeof *a->folds);
    char *block = tidei_host_alloc(rt, bytes);
    if (!block) return tidei_fail_host_memory(a->op, bytes);
    a->numbers = (tide_arg *)block;
    a->nodes = (tidei_ast_node *)(a->numbers + cap);
    a->folds = (tidei_axes *)(a->nodes + cap);
    return TIDE_OK;
}

tide_status tidei_ast_parse(tidei_runtime *rt, const char *text, const char *op, tidei_ast *out) {
    tidei_ast a = {.op = op, .text = text};
    size_t n = strnlen(text, TEXT_MAX + 1);
    if (n > TEXT_MAX)
        return tidei_fail(TIDE_E_PARSE, op, "the text is longer than %zu bytes", TEXT_MAX);
    size_t cap = tidei_min_size(n + 1, TIDEI_AST_MAX);
    tide_status s = make_lists(rt, &a, cap);
    if (s != TIDE_OK) return s;
    parser p = {.text = text, .ast = &a, .cap = (uint32_t)cap};
    if (!whole(&p)) {
        tidei_ast_free(rt, &a);
        return TIDE_E_PARSE;
    }
    *out = a;
    return TIDE_OK;
}

void tidei_ast_free(tidei_runtime *rt, tidei_ast *ast) {
    tidei_host_free(rt, ast->numbers);
    ast->numbers = NULL;
}
