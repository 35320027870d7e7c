/* The parser: grammar, precedence, and every error with its column. */
#include "tests/support/tidetest.h"
#include "arrays/expr/front.h"
#include "tests/support/edges.h"
#include <locale.h>

static uint64_t random_state = 1;
static size_t pick(size_t n) { /* 0 .. n - 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

/* ---- a printer: (add a (mul b 2)) ---- */

typedef struct text {
    char s[8192];
    size_t n;
} text;

static void put(text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    assert_true(t->n < sizeof t->s);
}

static void put_number(text *t, tide_arg v) {
    switch (v.kind) {
    case TIDE_ARG_BOOL: put(t, v.value.i ? "true" : "false"); break;
    case TIDE_ARG_INT: put(t, "%lld", (long long)v.value.i); break;
    case TIDE_ARG_UINT: put(t, "%lluu", (unsigned long long)v.value.u); break;
    case TIDE_ARG_FLOAT: put(t, "%.17gf", v.value.f); break;
    default: put(t, "%.17g+%.17gi", v.value.c[0], v.value.c[1]);
    }
}

static void put_node(text *t, const tidei_ast *a, unsigned i) {
    const tidei_ast_node *n = &a->nodes[i];
    const uint16_t operands[3] = {n->a, n->b, n->c};
    const tidei_axes *x = &a->folds[n->b];
    switch (n->kind) {
    case TIDEI_AST_PARAM: put(t, "%c", (char)('a' + n->a)); return;
    case TIDEI_AST_NUMBER: put_number(t, a->numbers[n->a]); return;
    case TIDEI_AST_OP:
        put(t, "(%s", tidei_op_infos[n->what].name);
        for (int k = 0; k < tidei_op_infos[n->what].arity; k++)
            put(t, " "), put_node(t, a, operands[k]);
        break;
    case TIDEI_AST_INDEX: put(t, "(index %d)", n->a - TIDE_MAX_RANK); break;
    case TIDEI_AST_CAST: put(t, "(%s ", tide_dtype_name(n->what)), put_node(t, a, n->a); break;
    default:
        put(t, "(%s ", tidei_fold_name(n->what)), put_node(t, a, n->a);
        for (int k = 0; k < x->n; k++) put(t, "%s%d", k ? "," : " axis=", x->axis[k]);
        if (x->n == 0) put(t, " axis=none");
        if (x->keepdims) put(t, " keep");
    }
    put(t, ")");
}

static void parses(const char *source, const char *want) {
    text t = {.n = 0};
    tidei_ast a;
    if (tidei_ast_parse(NULL, source, "test", &a) != TIDE_OK)
        fail_msg("%s: %s", source, tide_error_last()->message);
    for (unsigned i = 0; i < a.nresults; i++)
        put(&t, i ? ", " : ""), put_node(&t, &a, a.results[i]);
    tidei_ast_free(NULL, &a);
    if (strcmp(t.s, want) != 0) fail_msg("%s\n  gives  %s\n  wanted %s", source, t.s, want);
}

/* Fails at the column (counted from 1) with a message that contains `part`, and a caret under that
** column. */
static void fails(const char *source, int column, const char *part) {
    char place[32];
    tidei_ast a;
    if (tidei_ast_parse(NULL, source, "test", &a) == TIDE_OK) fail_msg("%s parses", source);
    const tide_error *e = tide_error_last();
    snprintf(place, sizeof place, "column %d: ", column);
    assert_int_equal(e->status, TIDE_E_PARSE);
    if (strncmp(e->message, place, strlen(place)) != 0 || !strstr(e->message, part))
        fail_msg("%s\n  wanted %s...%s...\n  got %s", source, place, part, e->message);
    const char *line = strchr(e->message, '\n'), *caret = strrchr(e->message, '\n');
    assert_ptr_not_equal(line, caret);
    if (strlen(source) < 70) {
        assert_int_equal(strcspn(caret + 1, "^"), column - 1 + 2);
        assert_int_equal(strncmp(line + 3, source, strlen(source)), 0);
    }
}

/* ---- cases ---- */

static void operators_bind_as_documented(void **state) {
    (void)state;
    parses("(a) -> a", "a");
    parses("a -> a", "a");
    parses("() -> 1", "1");
    parses("(a, b, c) -> a + b*c", "(add a (mul b c))");
    parses("(a, b, c) -> a*b + c", "(add (mul a b) c)");
    parses("(a, b, c) -> a - b - c", "(sub (sub a b) c)");
    parses("(a, b, c) -> a - (b - c)", "(sub a (sub b c))");
    parses("(a, b, c) -> a / b // c % a", "(rem (floordiv (div a b) c) a)");
    parses("(a, b, c) -> a ** b ** c", "(pow a (pow b c))");
    parses("(a, b) -> -a ** -b", "(neg (pow a (neg b)))");
    parses("(a, b) -> -a * b", "(mul (neg a) b)");
    parses("(a, b) -> a * -b", "(mul a (neg b))");
    parses("(a) -> - - +a", "(neg (neg a))");
    parses("(a, b) -> !a == b", "(eq (logical_not a) b)");
    parses("(a, b) -> ~a & b", "(bit_and (bit_not a) b)");
    parses("(a, b, c) -> a << b + c", "(shl a (add b c))");
    parses("(a, b, c) -> a & b << c", "(bit_and a (shl b c))");
    parses("(a, b, c) -> a ^ b & c", "(bit_xor a (bit_and b c))");
    parses("(a, b, c) -> a | b ^ c", "(bit_or a (bit_xor b c))");
    parses("(a, b, c) -> a | b == c", "(eq (bit_or a b) c)");
    parses("(a, b) -> a < b && b != a", "(logical_and (lt a b) (ne b a))");
    parses("(a, b, c) -> a || b && c", "(logical_or a (logical_and b c))");
    parses("(a, b) -> (a < b) == (a >= b)", "(eq (lt a b) (ge a b))");
    parses("(a, b) -> (a<=b)|(a>b)", "(bit_or (le a b) (gt a b))");
    parses("(a, b) -> a >> b", "(shr a b)");
}

static void numbers_parse_to_their_values(void **state) {
    (void)state;
    parses("() -> 0", "0");
    parses("() -> 9223372036854775807", "9223372036854775807");
    parses("() -> 9223372036854775808", "9223372036854775808u");
    parses("() -> 18446744073709551615", "18446744073709551615u");
    parses("() -> -9223372036854775808", "-9223372036854775808");
    parses("() -> -3", "-3");
    parses("() -> -2**2", "(neg (pow 2 2))");
    parses("() -> -(3)", "(neg 3)");
    parses("() -> 0xfF", "255");
    parses("() -> 0xFFFFFFFFFFFFFFFF", "18446744073709551615u");
    parses("() -> 1.5", "1.5f");
    parses("() -> .5", "0.5f");
    parses("() -> 1.", "1f");
    parses("() -> 1e3", "1000f");
    parses("() -> 1.25E-2", "0.012500000000000001f");
    parses("() -> 5e-324", "4.9406564584124654e-324f");
    parses("() -> 2i", "0+2i");
    parses("() -> 1.5e1i", "0+15i");
    parses("() -> 1 + 2i", "(add 1 0+2i)");
    parses("() -> true", "true");
    parses("() -> false", "false");
    parses("() -> inf", "inff");
    parses("() -> -inf", "(neg inff)");
    parses("() -> pi", "3.1415926535897931f");
    parses("(e) -> e", "a"); /* a free name */
}

static void calls_parse_with_their_arguments(void **state) {
    (void)state;
    parses("(a, b, c) -> where(a > 0, b, c)", "(where (gt a 0) b c)");
    parses("(a) -> f32(a) + i64(a)", "(add (f32 a) (i64 a))");
    parses("(a, b) -> atan2(a, b)", "(atan2 a b)");
    parses("(a) -> sum(a)", "(sum a)");
    parses("(a) -> sum(a, axis=1)", "(sum a axis=1)");
    parses("(a) -> max(a*2, axis = ( 0 , -1 ), keepdims = true)", "(max (mul a 2) axis=0,-1 keep)");
    parses("(a) -> mean(a, keepdims=false, axis=-8)", "(mean a axis=-8)");
    parses("(a) -> any(a, axis=(), keepdims=true)", "(any a axis=none keep)");
    parses("(a) -> argmin(a) + argmax(a) + prod(a) + any(a) + all(a) + min(a)",
           "(add (add (add (add (add (argmin a) (argmax a)) (prod a)) (any a)) (all a)) (min a))");
    /* values and functions are apart */
    parses("(sum) -> sum(sum)", "(sum a)");
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++) { /* every operation has its name */
        char source[96], want[96];
        static const char *const lists[] = {"", "a", "a, a", "a, a, a"}, *const operands[] = {
                                                                             "", "a", "a a",
                                                                             "a a a"};
        int n = tidei_op_infos[op].arity;
        snprintf(source, sizeof source, "(a) -> %s(%s)", tidei_op_infos[op].name, lists[n]);
        snprintf(want, sizeof want, "(%s %s)", tidei_op_infos[op].name, operands[n]);
        parses(source, want);
    }
}

static void lets_name_values_for_results(void **state) {
    (void)state;
    parses("(m, g) -> let u = m*0.9 + g*0.1; (u, u*u)",
           "(add (mul a 0.90000000000000002f) (mul b 0.10000000000000001f)), "
           "(mul (add (mul a 0.90000000000000002f) (mul b 0.10000000000000001f)) "
           "(add (mul a 0.90000000000000002f) (mul b 0.10000000000000001f)))");
    parses("(x) -> let a = x + 1; let b = a * a; b - a",
           "(sub (mul (add a 1) (add a 1)) (add a 1))");
    parses("(a, b) -> (a + b, a - b)", "(add a b), (sub a b)");
    parses("(a, b) -> (a + b)", "(add a b)");
}

static void a_body_may_have_several_results(void **state) {
    (void)state;
    parses("(a, b) -> (a, b, a)", "a, b, a");
    parses("(a, b) -> (atan2(a, b), (a))", "(atan2 a b), a");
    parses("(a, b) -> (a + b)*(a - b)", "(mul (add a b) (sub a b))");
    parses("(a, b) -> (atan2(a, b))", "(atan2 a b)");
    parses("(a)->\n  let b = a;\n\tlet c = b ; \r\n (b,c)", "a, a");
}

static void an_error_names_its_place(void **state) {
    (void)state;
    fails("", 1, "expected \"(parameters) -> body\" but found the end");
    fails("1 -> 2", 1, "expected \"(parameters) -> body\" but found \"1\"");
    fails("(a", 3, "expected \",\" or \")\" but found the end");
    fails("(a b) -> a", 4, "expected \",\" or \")\" but found \"b\"");
    fails("(a,) -> a", 4, "expected a parameter's name but found \")\"");
    fails("(a, a) -> a", 5, "the name \"a\" is taken");
    fails("(pi) -> 1", 2, "\"pi\" is reserved");
    fails("(let) -> 1", 2, "\"let\" is reserved");
    fails("(a) = a", 5, "expected \"->\" but found \"=\"");
    fails("(a) ->", 7, "expected a value but found the end");
    fails("(a) -> a +", 11, "expected a value but found the end");
    fails("(a) -> a + * a", 12, "expected a value but found \"*\"");
    fails("(a) -> (a", 10, "expected \")\" but found the end");
    fails("(a) -> a)", 9, "expected an operator or the end but found \")\"");
    fails("(a) -> a a", 10, "expected an operator or the end but found \"a\"");
    fails("(a) -> a = 1", 10, "equality is ==");
    fails("(a) -> b = 1; b", 8, "unknown name \"b\"");
    fails("(a) -> a; a", 9, "bindings begin with let");
    fails("(a) -> a @ a", 10, "unexpected \"@\"");
    fails("(a) -> a + \xce\xb1", 12, "unexpected \"\xce\xb1\"");
    fails("(a) -> a < a < a", 14, "do not chain");
    fails("(a) -> a == a != a", 15, "do not chain");
    fails("(a) -> (a, a) + 1", 10, "several results");
    fails("(a) -> ((a, a))", 11, "several results");
    fails("(a) -> (a, )", 12, "expected a value but found \")\"");
    fails("(a) -> (a,a,a,a,a,a,a,a,a)", 25, "more than 8 results");
    fails("(a) -> a + let b = 1; b", 12, "let stands at the beginning");
    fails("(a) -> let = 1; a", 12, "expected a name but found \"=\"");
    fails("(a) -> let b 1; a", 14, "expected \"=\" but found \"1\"");
    fails("(a) -> let b = 1 a", 18, "expected an operator or \";\" but found \"a\"");
    fails("(a) -> let a = 1; a", 12, "the name \"a\" is taken");
    fails("(a) -> let b = b; a", 16, "unknown name \"b\"");
}

static void an_unknown_name_is_told_with_the_nearest(void **state) {
    (void)state;
    fails("(alpha, x) -> alhpa*x", 15, "unknown name \"alhpa\"; nearest: alpha");
    fails("(x, y) -> zzz", 11, "unknown name \"zzz\"; there are: x, y");
    fails("(x) -> sqr(x)", 8, "unknown function \"sqr\"; nearest: shr, sqrt");
    fails("(x) -> abss(x)", 8, "nearest: abs");
    fails("(x) -> qwertyuiop(x)", 8, "unknown function \"qwertyuiop\"\n");
    fails("(x) -> exp + x", 8, "\"exp\" is a function: write exp(...)");
    fails("(x) -> x(2)", 8, "\"x\" is a value, not a function");
    fails("(x) -> atan2(x)", 8, "atan2 takes 2 operands, not 1");
    fails("(x) -> exp()", 8, "exp takes 1 operand, not 0");
    fails("(x) -> where(x, x, x, x)", 8, "where takes 3 operands, not 4");
    fails("(x) -> f32(x, x)", 8, "f32 takes 1 operand, not 2");
    fails("(x) -> exp(x", 13, "expected \",\" or \")\" but found the end");
    fails("(x) -> pi(x)", 10, "expected an operator or the end but found \"(\"");
}

static void a_wrong_fold_is_told_with_a_remedy(void **state) {
    (void)state;
    fails("(a, b) -> min(a, b)", 18, "for two write minimum(a, b)");
    fails("(a, b) -> max(a, b)", 18, "for two write maximum(a, b)");
    fails("(a, b) -> sum(a, b)", 18, "sum folds one operand");
    fails("(a) -> sum(a, 1)", 15, "options are axis= and keepdims=");
    fails("(a) -> sum(a, axis=a)", 20, "expected an axis, a written integer, but found \"a\"");
    fails("(a) -> sum(a, axis=1.5)", 20, "expected an axis");
    fails("(a) -> sum(a, axis=8)", 20, "an axis lies in [-8, 7]");
    fails("(a) -> sum(a, axis=-9)", 21, "an axis lies in [-8, 7]");
    fails("(a) -> sum(a, axis=(,))", 21, "expected an axis");
    fails("(a) -> sum(a, axis=(0,))", 23, "expected an axis");
    fails("(a) -> sum(a, axis=()", 22, "expected \",\" or \")\" but found the end");
    fails("(a) -> sum(a, axis=(1,1))", 24, "axis 1 stands twice");
    fails("(a) -> sum(a, axis=(0,1,2,3,4,5,6,7,-1))", 37, "more than 8 axes");
    fails("(a) -> sum(a, axis=1, axis=2)", 23, "axis= stands twice");
    fails("(a) -> sum(a, keepdims=1)", 24, "keepdims is true or false");
    fails("(a) -> sum(a, keepdims=true, keepdims=true)", 30, "keepdims= stands twice");
    fails("(a) -> sum(a, dtype=f32)", 15, "unknown option \"dtype\"");
    fails("(a) -> sum()", 12, "expected a value but found \")\"");
}

static void a_wrong_scan_is_told_with_a_remedy(void **state) {
    (void)state;
    fails("(a, b) -> cumsum(a, b)", 21,
          "cumsum scans one operand; options are axis=, reverse= and initial=");
    fails("(a) -> cumprod(a, 1)", 19, "cumprod scans one operand");
    fails("(a) -> cummax(a, axis=(0))", 23, "expected an axis, a written integer, but found \"(\"");
    fails("(a) -> cummax(a, axis=())", 23, "expected an axis");
    fails("(a) -> cummin(a, axis=8)", 23, "an axis lies in [-8, 7]");
    fails("(a) -> cumsum(a, axis=0, axis=1)", 26, "axis= stands twice");
    fails("(a) -> cumsum(a, reverse=1)", 26, "reverse is true or false");
    fails("(a) -> cumsum(a, reverse=true, reverse=true)", 32, "reverse= stands twice");
    fails("(a) -> cumsum(a, initial=0)", 26, "initial is true or false");
    fails("(a) -> cumsum(a, keepdims=true)", 18,
          "unknown option \"keepdims\": there are axis=, reverse= and initial=");
    fails("(a) -> sum(a, initial=true)", 15, "unknown option \"initial\": there are axis= and");
    fails("(a) -> cumsums(a)", 8, "nearest: cumsum");
    fails("(a) -> cumsum()", 15, "expected a value but found \")\"");
}

static void a_malformed_number_is_told(void **state) {
    (void)state;
    fails("() -> 2x", 7, "malformed number \"2x\"");
    fails("() -> 1.2.3", 7, "malformed number \"1.2.3\"");
    fails("() -> 1e", 7, "malformed number");
    fails("() -> 0x", 7, "malformed hexadecimal");
    fails("() -> 0xg", 7, "malformed hexadecimal");
    fails("() -> 007", 7, "does not begin with 0");
    fails("() -> 18446744073709551616", 7, "write a float, 18446744073709551616.0");
    fails("() -> 0x10000000000000000", 7, "does not fit 64 bits");
    fails("() -> 1e999", 7, "is beyond f64: write inf");
    fails("() -> 2ix", 7, "malformed number \"2ix\"");
}

/* Builds prefix, n times middle, suffix. */
static char *repeated(const char *prefix, const char *middle, int n, const char *suffix) {
    size_t bytes = strlen(prefix) + strlen(middle) * (size_t)n + strlen(suffix) + 1;
    char *s = malloc(bytes), *p = s;
    if (!s) abort();
    p += sprintf(p, "%s", prefix);
    for (int i = 0; i < n; i++) p += sprintf(p, "%s", middle);
    sprintf(p, "%s", suffix);
    return s;
}

static void texts_beyond_the_bounds_are_refused(void **state) {
    (void)state;
    static const char *const deep[] = {"(", "-", "exp(", "2**", "sum(", "!"};
    tidei_ast a;
    for (size_t i = 0; i < TIDEI_COUNT(deep); i++) {
        char *s = repeated("(a) -> ", deep[i], 100000, "a");
        assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
        assert_error(TIDE_E_PARSE, "nested more than 256 deep");
        free(s);
    }
    char *s = repeated("(a) -> a", "+a", 4000, "");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_OK);
    assert_int_equal(a.nnodes, 4001);
    tidei_ast_free(NULL, &a);
    free(s);
    s = repeated("(a) -> a", "+a", 5000, "");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    assert_error(TIDE_E_PARSE, "at most 4096 operations");
    free(s);
    s = repeated("(a) -> ", " ", 2 << 20, "a");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    assert_error(TIDE_E_PARSE, "longer than 1048576 bytes");
    free(s);
    s = repeated("(a", ",b", 40, ") -> a");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    free(s);
}

static void too_many_names_are_refused(void **state) {
    (void)state;
    char *s = malloc(1 << 16), *p = s;
    tidei_ast a;
    if (!s) abort();
    p += sprintf(p, "(p0");
    for (int i = 1; i < 33; i++) p += sprintf(p, ", p%d", i);
    sprintf(p, ") -> p0");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    assert_error(TIDE_E_PARSE, "more than 32 parameters");
    p = s + sprintf(s, "(x) -> ");
    for (int i = 0; i < 255; i++) p += sprintf(p, "let v%d = x + %d; ", i, i);
    char *end = p;
    strcpy(p, "v254");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_OK);
    tidei_ast_free(NULL, &a);
    strcpy(end, "let more = 1; more");
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    assert_error(TIDE_E_PARSE, "more than 256 names");
    free(s);
}

/* Long lines are shown in part, later lines by their number, and the caret stays under the
** place. */
static void an_error_shows_a_window_of_its_line(void **state) {
    (void)state;
    char *s = repeated("(a) -> a", " + a", 100, " + @");
    tidei_ast a;
    assert_int_equal(tidei_ast_parse(NULL, s, "test", &a), TIDE_E_PARSE);
    const char *m = tide_error_last()->message, *line = strchr(m, '\n') + 1,
               *caret = strrchr(m, '\n') + 1;
    assert_int_equal(strncmp(m, "column 412: ", 12), 0);
    assert_true(strlen(line) < 200);
    assert_int_equal(line[strlen(caret) - 1], '@');
    free(s);
    assert_int_equal(tidei_ast_parse(NULL, "(a) ->\n\tlet b = a;\n\tb + c1", "test", &a),
                     TIDE_E_PARSE);
    m = tide_error_last()->message;
    assert_int_equal(strncmp(m, "line 3, column 6: ", 18), 0);
    line = strchr(m, '\n') + 1, caret = strrchr(m, '\n') + 1;
    assert_int_equal(line[strlen(caret) - 1], 'c');
    assert_string_equal(tide_error_last()->operation, "(a) ->\n\tlet b = a;\n\tb + c1");
}

/* What an error of the text must look like: a window that fits a line, and a caret in it. */
static void window_is_sound(const char *source, bool utf8) {
    const char *m = tide_error_last()->message, *line = strchr(m, '\n'), *caret = strrchr(m, '\n');
    assert_true(line && line < caret && strchr(m, '\n') == line);
    assert_true(caret - line - 1 <= 2 + 3 + 76 + 3);
    assert_int_equal(strspn(caret + 1, " ") + 1, strlen(caret + 1));
    assert_true(strlen(caret + 1) <= (size_t)(caret - line));
    if (utf8 && !(is_utf8(m) && is_utf8(tide_error_last()->operation)))
        fail_msg("%s\ngives %s", source, m);
}

/* Texts that are UTF-8, and such that are anything but, whose errors are shown without a look
** beyond their ends. */
static void windows_stay_inside_the_text(void **state) {
    static const char *const pieces[] = {
        "\x87",     "\xce\xb1", "\xe2\x82\xac", "\xf0\x9f\x8c\x8a", "a", " ", "+", "\xce",
        "\xf0\x9f", "\n",       "\t",           "(x) -> "};
    static const bool whole[] = {false, true,  true,  true, true, true,
                                 true,  false, false, true, true, true};
    enum { MOST = 400 };
    edges e = edges_open(MOST);
    tidei_ast a;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char bytes[MOST + 8] = "";
        size_t n = 0, most = pick(MOST), kinds = 1 + pick(3), kind[3];
        bool utf8 = true;
        for (size_t k = 0; k < kinds; k++) kind[k] = pick(TIDEI_COUNT(pieces));
        for (size_t k; n < most; n += strlen(pieces[k])) {
            k = kind[pick(kinds)];
            utf8 = utf8 && whole[k];
            memcpy(bytes + n, pieces[k], strlen(pieces[k]) + 1);
        }
        if (n > MOST) continue;
        for (int last = 0; last < 2; last++) {
            if (tidei_ast_parse(NULL, edges_put(&e, bytes, n, last), "test", &a) == TIDE_OK)
                tidei_ast_free(NULL, &a);
            else
                window_is_sound(bytes, utf8);
        }
    }
    edges_close(&e);
}

/* Letters are ASCII in every locale: in Latin 1, where there is one, a byte beyond is none. */
static void letters_are_ascii_in_every_locale(void **state) {
    static const char *const latin[] = {"en_US.ISO-8859-1", "de_DE.ISO-8859-1", "fr_FR.ISO-8859-1",
                                        "de_DE", "C"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(latin); i++)
        if (setlocale(LC_CTYPE, latin[i])) break;
    fails("(a) -> a + \xe9", 12, "unexpected \"\xe9\"");
    fails("(\xe9) -> 1", 2, "unexpected \"\xe9\"");
    fails("(a) -> a\xb2", 9, "unexpected");
    fails("(a) -> a@[`{a", 9, "unexpected \"@\"");
    setlocale(LC_CTYPE, "C");
}

/* The same text parses the same in a locale with a decimal comma. */
static void a_decimal_comma_changes_nothing(void **state) {
    (void)state;
    test_need_locale(setlocale(LC_NUMERIC, "de_DE.UTF-8"), "de_DE.UTF-8");
    tidei_ast a;
    assert_int_equal(tidei_ast_parse(NULL, "() -> 1.5", "test", &a), TIDE_OK);
    setlocale(LC_NUMERIC, "C");
    assert_true(a.numbers[0].value.f == 1.5);
    tidei_ast_free(NULL, &a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_bind_as_documented),
        cmocka_unit_test(numbers_parse_to_their_values),
        cmocka_unit_test(calls_parse_with_their_arguments),
        cmocka_unit_test(lets_name_values_for_results),
        cmocka_unit_test(a_body_may_have_several_results),
        cmocka_unit_test(an_error_names_its_place),
        cmocka_unit_test(an_unknown_name_is_told_with_the_nearest),
        cmocka_unit_test(a_wrong_fold_is_told_with_a_remedy),
        cmocka_unit_test(a_wrong_scan_is_told_with_a_remedy),
        cmocka_unit_test(a_malformed_number_is_told),
        cmocka_unit_test(texts_beyond_the_bounds_are_refused),
        cmocka_unit_test(too_many_names_are_refused),
        cmocka_unit_test(an_error_shows_a_window_of_its_line),
        cmocka_unit_test(a_decimal_comma_changes_nothing),
        cmocka_unit_test(letters_are_ascii_in_every_locale),
        cmocka_unit_test(windows_stay_inside_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
