/* docs/expressions.md: its table of operations is the table's, and every example gives what it
** says.
**
** An example is a block marked `tide`: the text of an expression; a line `name = value` for each
** argument in order; then `gives value` for each result, or `fails message`. A value is a number,
** or an element type and nested lists. */
#include "tests/support/tidetest.h"
#include <ctype.h>
#include <math.h>
#include "arrays/expr/front.h"

static char *page;

static int read_page(void **state) {
    char path[1024];
    const char *root = getenv("TIDE_TEST_SOURCE");
    (void)state;
    snprintf(path, sizeof path, "%s/docs/expressions.md", root ? root : ".");
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    page = calloc(1, 1 << 20);
    size_t n = fread(page, 1, (1 << 20) - 1, f);
    fclose(f);
    return n > 0 ? 0 : -1;
}

static int free_page(void **state) {
    (void)state;
    free(page);
    return 0;
}

/* ---- values ---- */

#define ELEMENTS_MAX 64
typedef struct value {
    int dtype; /* -1: a number */
    tide_arg number;
    int ndim;
    int64_t shape[TIDE_MAX_RANK];
    int n;
    tide_arg elements[ELEMENTS_MAX];
} value;

static const char *skip_spaces(const char *s) { return s + strspn(s, " "); }

static const char *read_number(const char *s, tide_arg *v) {
    static const struct {
        const char *name;
        double v;
    } words[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    char *end, *whole;
    if (!strncmp(s, "true", 4)) return *v = tide_arg_bool(1), s + 4;
    if (!strncmp(s, "false", 5)) return *v = tide_arg_bool(0), s + 5;
    for (size_t i = 0; i < TIDEI_COUNT(words); i++)
        if (!strncmp(s, words[i].name, strlen(words[i].name)))
            return *v = tide_arg_float(words[i].v), s + strlen(words[i].name);
    double d = strtod(s, &end);
    long long i = strtoll(s, &whole, 10);
    if (end == s) fail_msg("no number: %s", s);
    *v = end == whole ? tide_arg_int(i) : tide_arg_float(d);
    return end;
}

static const char *read_list(const char *s, int depth, value *v) {
    int64_t n = 0;
    s = skip_spaces(s);
    if (*s != '[') {
        assert_true(v->n < ELEMENTS_MAX);
        return read_number(s, &v->elements[v->n++]);
    }
    if (depth == v->ndim) v->ndim++;
    for (s = skip_spaces(s + 1); *s != ']'; s = skip_spaces(s), n++) {
        s = skip_spaces(read_list(s, depth + 1, v));
        if (*s == ',') s++;
    }
    v->shape[depth] = n;
    return s + 1;
}

static void read_value(const char *s, value *v) {
    memset(v, 0, sizeof *v);
    v->dtype = -1;
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++) {
        size_t n = strlen(tide_dtype_name(t));
        if (!strncmp(s, tide_dtype_name(t), n) && s[n] == ' ') v->dtype = t, s += n;
    }
    if (v->dtype < 0)
        read_number(s, &v->number);
    else
        read_list(s, 0, v);
}

static tide_array *make_array(tide_runtime *rt, const value *v) {
    unsigned char data[ELEMENTS_MAX * 16];
    size_t size = tide_dtype_size(v->dtype);
    for (int i = 0; i < v->n; i++)
        assert_ok(tidei_encode(v->elements[i], v->dtype, "test", data + (size_t)i * size));
    tide_array *a = tide_from_host(rt, v->dtype, v->ndim, v->shape, data);
    assert_array(a);
    return a;
}

static double as_double(tide_arg v) {
    return v.kind == TIDE_ARG_FLOAT  ? v.value.f
           : v.kind == TIDE_ARG_UINT ? (double)v.value.u
                                     : (double)v.value.i;
}

static void compare(const char *source, tide_array *a, const value *v) {
    unsigned char data[ELEMENTS_MAX * 16];
    size_t size = tide_dtype_size(v->dtype);
    double tolerance = v->dtype == TIDE_F64 ? 1e-14 : v->dtype == TIDE_F32 ? 1e-6 : 0;
    assert_array(a);
    if (tide_array_dtype(a) != v->dtype)
        fail_msg("%s gives %s", source, tide_dtype_name(tide_array_dtype(a)));
    assert_int_equal(tide_array_ndim(a), v->ndim);
    for (int d = 0; d < v->ndim; d++) assert_int_equal(tide_array_dim(a, d), v->shape[d]);
    assert_int_equal(tide_array_size(a), v->n);
    assert_ok(tide_to_host(a, data, (size_t)v->n * size));
    for (int i = 0; i < v->n; i++) {
        double got = as_double(tidei_decode(data + (size_t)i * size, v->dtype)),
               want = as_double(v->elements[i]);
        bool fine =
            isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tolerance * fabs(want);
        if (!fine) fail_msg("%s: element %d is %.17g, not %.17g", source, i, got, want);
    }
}

/* ---- examples ---- */

typedef struct example {
    char text[512];
    int nargs, ngives;
    value args[8], gives[TIDE_MAX_RESULTS];
    char fails[512];
} example;

/* "name = value" with one word before the sign. */
static const char *argument_line(const char *line) {
    const char *s = line;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return s > line && !strncmp(s, " = ", 3) ? s + 3 : NULL;
}

static void read_line(char *line, example *e) {
    const char *v = argument_line(line);
    if (!strncmp(line, "gives ", 6)) {
        assert_true(e->ngives < TIDE_MAX_RESULTS);
        read_value(line + 6, &e->gives[e->ngives++]);
    } else if (!strncmp(line, "fails ", 6)) {
        snprintf(e->fails, sizeof e->fails, "%s", line + 6);
    } else if (v) {
        assert_true(e->nargs < 8);
        read_value(v, &e->args[e->nargs++]);
    } else {
        size_t n = strlen(e->text);
        snprintf(e->text + n, sizeof e->text - n, "%s%s", n ? "\n" : "", line);
    }
}

static void run_example(tide_runtime *rt, const example *e) {
    tide_arg args[8];
    tide_array *outs[TIDE_MAX_RESULTS];
    assert_ok(tide_scope_begin(rt));
    for (int i = 0; i < e->nargs; i++)
        args[i] =
            e->args[i].dtype < 0 ? e->args[i].number : tide_arg_array(make_array(rt, &e->args[i]));
    tide_expr *x = tide_expr_new(rt, e->text);
    tide_status s =
        x ? tide_expr_apply_many(x, args, (size_t)e->nargs, outs, e->ngives ? (size_t)e->ngives : 1)
          : tide_error_last()->status;
    if (e->fails[0]) {
        assert_int_not_equal(s, TIDE_OK);
        if (strncmp(tide_error_last()->message, e->fails, strlen(e->fails)) != 0)
            fail_msg("%s: wanted %s, got %s", e->text, e->fails, tide_error_last()->message);
    } else {
        if (s != TIDE_OK) fail_msg("%s: %s", e->text, tide_error_last()->message);
        for (int i = 0; i < e->ngives; i++) compare(e->text, outs[i], &e->gives[i]);
    }
    tide_expr_release(x);
    assert_ok(tide_scope_end(rt));
}

static void every_example_gives_what_it_says(void **state) {
    const tide_config c = {.collector = "refcount"};
    tide_runtime *rt = test_open(&c);
    int n = 0;
    (void)state;
    for (const char *s = page; (s = strstr(s, "\n```tide\n")); n++) {
        example e = {.nargs = 0};
        for (s += 9; strncmp(s, "```", 3) != 0; s = strchr(s, '\n') + 1) {
            char line[512];
            snprintf(line, sizeof line, "%.*s", (int)strcspn(s, "\n"), s);
            read_line(line, &e);
        }
        assert_true(e.ngives > 0 || e.fails[0]);
        run_example(rt, &e);
    }
    assert_true(n > 15);
    tide_close(rt);
}

/* ---- the table ---- */

static void the_page_lists_every_operation(void **state) {
    static const char *const kinds[] = {"bool", "integers", "floats", "complex"},
                             *const operands[] = {"", "a", "a, b", "a, b, c"};
    (void)state;
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++) {
        const tidei_op_info *info = &tidei_op_infos[op];
        char row[512];
        int n = snprintf(row, sizeof row, "\n| %s(%s) | ", info->name, operands[info->arity]);
        for (int k = 0, some = 0; k < 4; k++)
            if (info->classes >> k & 1) n += sprintf(row + n, "%s%s", some++ ? ", " : "", kinds[k]);
        n += sprintf(row + n, " | %d | ", info->ulps);
        for (const char *s = info->notes; *s; s++)
            n += sprintf(row + n, *s == '|' ? "\\%c" : "%c", *s);
        sprintf(row + n, " |\n");
        if (!strstr(page, row)) fail_msg("docs/expressions.md lacks the row%s", row);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_lists_every_operation),
        cmocka_unit_test(every_example_gives_what_it_says),
    };
    return cmocka_run_group_tests(tests, read_page, free_page);
}
