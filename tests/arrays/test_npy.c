/* test_npy.c: .npy files: round trips, what NumPy writes, and what nobody should. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrays/move/npy.h"
#include "tests/arrays/elements.h"

static char folder[64]; /* of this run */

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tide-npy-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* each case removes its files */
}
static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A file of any version around a header's text and its elements. */
static size_t compose(unsigned char *out, int major, const char *header, const void *data,
                      size_t bytes) {
    size_t n = strlen(header), at = 8;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[7] = 0;
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) out[at++] = (unsigned char)(n >> 8 * i);
    memcpy(out + at, header, n);
    if (bytes) memcpy(out + at + n, data, bytes);
    return at + n + bytes;
}
static tide_array *read_bytes(tide_runtime *rt, const void *bytes, size_t n) {
    int f = memfd_create("test.npy", MFD_CLOEXEC);
    assert_true(f >= 0 && pwrite(f, bytes, n, 0) == (ssize_t)n);
    tide_array *a = tidei_npy_read_file(test_rt(rt), f, "test.npy");
    close(f);
    return a;
}
static tide_array *read_text(tide_runtime *rt, int major, const char *header, const void *data,
                             size_t bytes) {
    unsigned char file[1024];
    return read_bytes(rt, file, compose(file, major, header, data, bytes));
}

/* ---- round trips ---- */

static void what_is_written_is_read(void **state) {
    static const struct {
        int ndim;
        int64_t shape[3];
    } shapes[] = {{0, {0}}, {1, {5}}, {2, {0, 3}}, {3, {2, 3, 4}}};
    tide_runtime *rt = *state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        unsigned char data[24 * 16];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = t == TIDE_BOOL ? i & 1 : (unsigned char)(i * 37 + 5);
        if (t == TIDE_BF16) continue;
        for (size_t s = 0; s < TIDEI_COUNT(shapes); s++) {
            const char *path = path_of("round.npy");
            tide_array *a = tide_from_host(rt, t, shapes[s].ndim, shapes[s].shape, data);
            assert_ok(tide_npy_write(a, path));
            tide_array *b = tide_npy_read(rt, path);
            assert_array(b);
            assert_int_equal(tide_array_dtype(b), t);
            assert_int_equal(tide_array_ndim(b), shapes[s].ndim);
            for (int i = 0; i < shapes[s].ndim; i++)
                assert_int_equal(tide_array_dim(b, i), shapes[s].shape[i]);
            has_bytes(b, data, (size_t)tide_array_size(a) * tide_dtype_size(t));
            unlink(path);
        }
    }
}

static void strided_and_large_arrays_are_written(void **state) {
    enum { N = 700000 }; /* several pieces of the buffer */
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, N, 1), *back = tide_slice(a, "::-1");
    const char *path = path_of("large.npy");
    assert_ok(tide_npy_write(back, path));
    int32_t *got = malloc(N * sizeof *got);
    assert_ok(tide_to_host(tide_npy_read(rt, path), got, N * sizeof *got));
    for (int i = 0; i < N; i++) assert_int_equal(got[i], N - 1 - i);
    free(got);
    unlink(path);
}

static void the_written_form_is_numpys(void **state) {
    static const char want[] =
        "\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    unsigned char got[256];
    const char *path = path_of("form.npy");
    assert_ok(tide_npy_write(tide_ones(*state, TIDE_F32, SHAPE(3)), path));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), 128 + 12); /* elements at a multiple of 64 */
    fclose(f);
    assert_memory_equal(got, want, sizeof want - 1);
    for (size_t i = sizeof want - 1; i < 127; i++) assert_int_equal(got[i], ' ');
    assert_int_equal(got[127], '\n');
    unlink(path);
}

/* ---- what others write ---- */

static void both_byte_orders_are_read(void **state) {
    static const struct {
        const char *descr;
        tide_dtype t;
        size_t width;
    } cases[] = {{"i2", TIDE_I16, 2}, {"u4", TIDE_U32, 4},  {"i8", TIDE_I64, 8},
                 {"f2", TIDE_F16, 2}, {"f4", TIDE_F32, 4},  {"f8", TIDE_F64, 8},
                 {"c8", TIDE_C64, 4}, {"c16", TIDE_C128, 8}};
    tide_runtime *rt = *state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        unsigned char little[32], big[32];
        char header[128];
        size_t bytes = 2 * tide_dtype_size(cases[i].t), w = cases[i].width;
        for (size_t b = 0; b < bytes; b++) little[b] = (unsigned char)(b * 7 + 1);
        for (size_t b = 0; b < bytes; b++) big[b] = little[b / w * w + (w - 1 - b % w)];
        for (const char *order = "<=>"; *order; order++) {
            snprintf(header, sizeof header,
                     "{'descr': '%c%s', 'fortran_order': False, 'shape': (2,), }\n", *order,
                     cases[i].descr);
            tide_array *a = read_text(rt, 1, header, *order == '>' ? big : little, bytes);
            assert_array(a);
            assert_int_equal(tide_array_dtype(a), cases[i].t);
            has_bytes(a, little, bytes);
        }
    }
    has_bytes(
        read_text(rt, 1, "{'descr': '>u1', 'fortran_order': False, 'shape': (2,), }", "ab", 2),
        "ab", 2);
    has_bytes(read_text(rt, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                        "\0\1\xff", 3),
              "\0\1\1", 3);
}

static void fortran_order_is_read(void **state) {
    const int16_t columns[] = {0, 3, 1, 4, 2, 5}, rows[] = {0, 1, 2, 3, 4, 5};
    tide_array *a =
        read_text(*state, 1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", columns,
                  sizeof columns);
    assert_array(a);
    assert_int_equal(tide_array_dim(a, 0), 2);
    assert_int_equal(tide_array_stride(a, 0), 1);
    assert_int_equal(tide_array_stride(a, 1), 2);
    has_bytes(a, rows, sizeof rows);
    has_bytes(
        read_text(*state, 1, "{'descr': '<i2', 'fortran_order': True, 'shape': (), }", columns, 2),
        columns, 2);
}

static void versions_and_spellings_are_read(void **state) {
    static const char *const headers[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }          \n",
        "{'shape':(2,),'fortran_order':False,'descr':'<i2'}",
        " { \"shape\" : ( 2 , ) ,\t\"descr\" : \"<i2\" , \"fortran_order\" : False , } ",
        "{'descr': 'i2', 'fortran_order': False, 'shape': (2L,)}",
    };
    const int16_t data[] = {-2, 5};
    for (int major = 1; major <= 3; major++)
        for (size_t i = 0; i < TIDEI_COUNT(headers); i++)
            has_bytes(read_text(*state, major, headers[i], data, sizeof data), data, sizeof data);
}

static void a_pipe_is_read(void **state) {
    unsigned char file[256];
    char path[32];
    int ends[2];
    size_t n =
        compose(file, 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", "abcd", 4);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], file, n), (ssize_t)n);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    has_bytes(tide_npy_read(*state, path), "abcd", 4);
    close(ends[0]);
}

/* The data of the examples were written by NumPy. */
static void a_file_of_numpys_is_read(void **state) {
    char path[512];
    const char *source = getenv("TIDE_TEST_SOURCE");
    snprintf(path, sizeof path, "%s/examples/data/digits_images.npy", source ? source : ".");
    tide_array *a = tide_npy_read(*state, path);
    assert_array(a);
    assert_int_equal(tide_array_dim(a, 0), 1797);
}

/* ---- hostile files ---- */

static void bad_headers_are_refused(void **state) {
    static const struct {
        const char *header, *part;
    } cases[] = {
        {"", "expected '{' at character 1, found the end"},
        {"['descr']", "expected '{' at character 1, found '['"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "expected ',' or '}'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
         "expected nothing more at character 57, found 'x'"},
        {"{'descr': '<f4', 'shape': (2,)}", "header without fortran_order"},
        {"{}", "header without descr"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
         "each once at character 18"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
         "each once at character 57"},
        {"{'descr' '<f4'}", "expected ':'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "'|O' is not offered"},
        {"{'descr': '<U7', 'fortran_order': False, 'shape': (2,)}", "'<U7' is not offered"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2,)}", "'<f16' is not offered"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,)}", "'' is not offered"},
        {"{'descr': '<f\x1b[\x93]', 'fortran_order': False, 'shape': (2,)}",
         "'<f?[?]' is not offered"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
         "structures are not offered"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
         "expected True or False at character 35"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "expected '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", "expected ','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "expected a dimension or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3", "expected ',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "below 2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "2^63 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
         "2^63 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
         "more than 8 dimensions"},
        {"{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,)}", "expected an element type"},
        {"{'descr': '<f4", "expected an element type"},
    };
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        assert_null(read_text(*state, 1, cases[i].header, "12345678", 8));
        assert_error(TIDE_E_FORMAT, cases[i].part);
        assert_error(TIDE_E_FORMAT, "test.npy");
    }
}

static void bad_frames_are_refused(void **state) {
    unsigned char file[256];
    const char *good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    size_t n = compose(file, 1, good, "12345678", 8);
    for (size_t cut = 1; cut < n; cut++) { /* every truncation */
        assert_null(read_bytes(*state, file, cut));
        assert_error(TIDE_E_FORMAT, cut < 10 + strlen(good)
                                        ? "ends inside"
                                        : "the elements take 8 bytes, the file has");
    }
    file[0] = 'x';
    assert_null(read_bytes(*state, file, n));
    assert_error(TIDE_E_FORMAT, "not a .npy file");
    compose(file, 4, good, "12345678", 8);
    assert_null(read_bytes(*state, file, n));
    assert_error(TIDE_E_FORMAT, "version 4.0; expected 1.0 to 3.0");
    compose(file, 2, good, NULL, 0);
    file[11] = 0x7f; /* a header of 2 GiB */
    assert_null(read_bytes(*state, file, n));
    assert_error(TIDE_E_FORMAT, "expected at most 65536");
    /* An absurd shape in a small file asks for no memory. */
    uint64_t before = test_stats(*state).allocations;
    assert_null(read_text(
        *state, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }", "", 0));
    assert_error(TIDE_E_FORMAT, "800000000000 bytes, the file has 0");
    assert_int_equal(test_stats(*state).allocations, before);
}

/* ---- the file system says no ---- */

static void files_that_cannot_be_had_are_told(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3)), *b = tide_zeros(rt, TIDE_BF16, SHAPE(3));
    assert_null(tide_npy_read(rt, path_of("absent.npy")));
    assert_error(TIDE_E_IO, "absent.npy: opening failed: No such file");
    assert_null(tide_npy_read(rt, folder));
    assert_error(TIDE_E_IO, "directory");
    assert_null(tide_npy_read(rt, NULL));
    assert_error(TIDE_E_INVALID, "path is NULL");
    assert_int_equal(tide_npy_write(a, path_of("absent/x.npy")), TIDE_E_IO);
    assert_int_equal(tide_npy_write(a, NULL), TIDE_E_INVALID);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(tide_npy_write(a, "/dev/full"), TIDE_E_IO);
        assert_error(TIDE_E_IO, "No space left");
        assert_int_equal(access("/dev/full", F_OK), 0);
    }
    assert_int_equal(tide_npy_write(b, path_of("bf16.npy")), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "bf16");
    assert_int_equal(access(path_of("bf16.npy"), F_OK), -1);
}

/* A file whose elements could not be had is not left behind. */
static void no_partial_file_is_left(void **state) {
    tide_runtime *rt = *state;
    tide_array *i = tide_full(rt, TIDE_I64, SHAPE(2), tide_arg_int(9));
    tide_array *t = tide_take(tide_zeros(rt, TIDE_F32, SHAPE(3)), i, 0);
    assert_int_equal(tide_npy_write(t, path_of("partial.npy")), TIDE_E_BOUNDS);
    assert_int_equal(access(path_of("partial.npy"), F_OK), -1);
}

static void holds_ones(tide_runtime *rt) {
    has_bytes(tide_npy_read(rt, path_of("old.npy")), (float[]){1, 1, 1}, 12);
}

/* Whatever fails, the file that was there stays: after an earlier, unrelated failure of the device,
** and on a full disk. */
static void the_old_file_stays_when_writing_fails(void **state) {
    tide_runtime *rt = *state;
    tide_array *zeros = tide_zeros(rt, TIDE_F32, SHAPE(3)),
               *large = tide_zeros(rt, TIDE_F32, SHAPE(100000));
    struct rlimit was, low;
    assert_ok(tide_npy_write(tide_ones(rt, TIDE_F32, SHAPE(3)), path_of("old.npy")));
    assert_array(tide_take(zeros, tide_full(rt, TIDE_I64, SHAPE(2), tide_arg_int(9)), 0));
    assert_int_equal(tide_npy_write(zeros, path_of("old.npy")), TIDE_E_BOUNDS);
    holds_ones(rt);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    low = was;
    low.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    tide_status s = tide_npy_write(large, path_of("old.npy"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(s, TIDE_E_IO);
    assert_error(TIDE_E_IO, "old.npy: writing failed: File too large");
    holds_ones(rt);
    unlink(path_of("old.npy"));
}

/* The file that comes instead has the old one's mode, and a link to it stays a link. */
static void a_replaced_file_keeps_mode_and_link(void **state) {
    tide_runtime *rt = *state;
    struct stat st;
    char target[160];
    snprintf(target, sizeof target, "%s", path_of("old.npy"));
    assert_ok(tide_npy_write(tide_zeros(rt, TIDE_F32, SHAPE(3)), target));
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink("old.npy", path_of("link.npy")), 0);
    assert_ok(tide_npy_write(tide_ones(rt, TIDE_F32, SHAPE(3)), path_of("link.npy")));
    assert_int_equal(lstat(path_of("link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    holds_ones(rt);
    unlink(target); /* a link to nothing makes what it names */
    assert_ok(tide_npy_write(tide_ones(rt, TIDE_F32, SHAPE(3)), path_of("link.npy")));
    assert_int_equal(lstat(path_of("link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    unlink(path_of("link.npy"));
    unlink(target);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(what_is_written_is_read),
        CASE(strided_and_large_arrays_are_written),
        CASE(the_written_form_is_numpys),
        CASE(both_byte_orders_are_read),
        CASE(fortran_order_is_read),
        CASE(versions_and_spellings_are_read),
        CASE(a_pipe_is_read),
        CASE(a_file_of_numpys_is_read),
        CASE(bad_headers_are_refused),
        CASE(bad_frames_are_refused),
        CASE(files_that_cannot_be_had_are_told),
        CASE(no_partial_file_is_left),
        CASE(the_old_file_stays_when_writing_fails),
        CASE(a_replaced_file_keeps_mode_and_link),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
