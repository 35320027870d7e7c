/* npy.c: NumPy's .npy files: a magic string, a version, a Python dictionary as text, then the
** elements.
**
** What a file says is not trusted: the header's length, every number in it and the file's own
** length are checked before memory is asked for. Elements pass through a host buffer of fixed size
** in both directions. An array stored in Fortran order is read as it lies and comes back as a
** transposed view. A file is written as a draft (runtime/base/draft.h) and gets its name when it is
** whole: whatever fails before, the device's earlier work or the disk, leaves what was there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrays/expr/copy.h"
#include "arrays/move/npy.h"
#include "runtime/base/draft.h"
#include "runtime/base/files.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

#define HEADER_MAX ((size_t)64 << 10) /* bytes; NumPy itself reads at most 10000 */
/* bytes in the host's buffer; a multiple of every element's size */
#define CHUNK ((size_t)1 << 20)
#define ALIGN 64 /* bytes: the elements begin at a multiple */

static const char magic[6] = "\x93NUMPY";

/* ---- the header's text ---- */

typedef struct reader {
    const char *start, *at, *end;
    const char *name; /* of the file */
} reader;

/* As a message shows what a file says: the file is not trusted, and a terminal obeys more than
** letters. */
static char shown(char c) { return c >= ' ' && c <= '~' ? c : '?'; }

static tide_status bad_header(const reader *r, const char *wanted) {
    char found[8] = "the end";
    if (r->at < r->end) tidei_format(found, sizeof found, "'%c'", shown(*r->at));
    return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                      "%s: header: expected %s at character %zu, found %s", r->name, wanted,
                      (size_t)(r->at - r->start) + 1, found);
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word) {
    size_t n = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

/* A quoted string without escapes. */
static tide_status take_string(reader *r, const char *wanted, char *out, size_t cap) {
    skip_blanks(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return bad_header(r, wanted);
    char quote = *r->at;
    const char *from = r->at + 1, *close = memchr(from, quote, (size_t)(r->end - from));
    size_t n = close ? (size_t)(close - from) : 0;
    if (!close || n >= cap || memchr(from, '\\', n)) return bad_header(r, wanted);
    memcpy(out, from, n);
    out[n] = 0;
    r->at = close + 1;
    return TIDE_OK;
}

static tide_status take_descr(reader *r, tidei_npy *h) {
    static const char *const codes[TIDE_DTYPE_COUNT] = {
        "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", NULL, "f4", "f8", "c8", "c16"};
    char text[16];
    tide_status s = take_string(r, "an element type such as '<f4' (structures are not offered)",
                                text, sizeof text);
    if (s != TIDE_OK) return s;
    const char *code = text + (*text && strchr("<>|=", *text) ? 1 : 0);
    h->swap = *text == '>';
    for (h->dtype = 0; h->dtype < TIDE_DTYPE_COUNT; h->dtype++) {
        if (codes[h->dtype] && strcmp(codes[h->dtype], code) == 0) return TIDE_OK;
    }
    for (char *p = text; *p; p++) *p = shown(*p);
    return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                      "%s: element type '%s' is not offered: expected b1, i1 to i8, u1 to u8, f2, "
                      "f4, f8, c8 or c16",
                      r->name, text);
}

static tide_status take_order(reader *r, tidei_npy *h) {
    h->fortran = take_word(r, "True");
    return h->fortran || take_word(r, "False") ? TIDE_OK : bad_header(r, "True or False");
}

static tide_status take_dimension(reader *r, int64_t *out) {
    int64_t n = 0;
    skip_blanks(r);
    if (r->at == r->end || *r->at < '0' || *r->at > '9') return bad_header(r, "a dimension or ')'");
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->at - '0', &n))
            return bad_header(r, "a dimension below 2^63");
    }
    (void)(r->at < r->end && *r->at == 'L' && r->at++); /* Python 2 wrote 3L */
    *out = n;
    return TIDE_OK;
}

static tide_status take_shape(reader *r, tidei_npy *h) {
    if (!take(r, '(')) return bad_header(r, "'('");
    for (h->ndim = 0; !take(r, ')');) {
        if (h->ndim == TIDE_MAX_RANK)
            return tidei_fail(TIDE_E_FORMAT, "tide_npy_read", "%s: more than %d dimensions",
                              r->name, TIDE_MAX_RANK);
        tide_status s = take_dimension(r, &h->shape[h->ndim]);
        if (s != TIDE_OK) return s;
        h->ndim++;
        if (take(r, ',')) continue;
        if (h->ndim == 1) return bad_header(r, "','"); /* (3) is a number, not a tuple */
        if (!take(r, ')')) return bad_header(r, "',' or ')'");
        break;
    }
    return TIDE_OK;
}

static tide_status check_size(const reader *r, tidei_npy *h) {
    int64_t bytes = (int64_t)tide_dtype_size(h->dtype);
    bool empty = false;
    for (int i = 0; i < h->ndim; i++) {
        empty |= h->shape[i] == 0;
        if (h->shape[i] && __builtin_mul_overflow(bytes, h->shape[i], &bytes))
            return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                              "%s: the shape means 2^63 bytes or more", r->name);
    }
    h->bytes = empty ? 0 : (size_t)bytes;
    return TIDE_OK;
}

tide_status tidei_npy_parse(const char *text, size_t n, const char *name, tidei_npy *out) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static tide_status (*const values[])(reader *, tidei_npy *) = {take_descr, take_order,
                                                                   take_shape};
    reader r = {text, text, text + n, name};
    tidei_npy h = {0};
    unsigned seen = 0;
    if (!take(&r, '{')) return bad_header(&r, "'{'");
    while (!take(&r, '}')) {
        char key[16];
        unsigned k = 0;
        reader before = r;
        tide_status s = take_string(&r, "'descr', 'fortran_order' or 'shape'", key, sizeof key);
        if (s != TIDE_OK) return s;
        while (k < TIDEI_COUNT(keys) && strcmp(keys[k], key) != 0) k++;
        if (k == TIDEI_COUNT(keys) || seen >> k & 1)
            return bad_header(&before, "'descr', 'fortran_order', 'shape', each once");
        seen |= 1u << k;
        if (!take(&r, ':')) return bad_header(&r, "':'");
        s = values[k](&r, &h);
        if (s != TIDE_OK) return s;
        if (!take(&r, ',')) {
            if (!take(&r, '}')) return bad_header(&r, "',' or '}'");
            break;
        }
    }
    skip_blanks(&r);
    if (r.at != r.end) return bad_header(&r, "nothing more");
    if (seen != 7)
        return tidei_fail(TIDE_E_FORMAT, "tide_npy_read", "%s: header without %s", name,
                          keys[__builtin_ctz(~seen)]);
    tide_status s = check_size(&r, &h);
    if (s == TIDE_OK) *out = h;
    return s;
}

/* ---- files ---- */

/* By errno: the system's own memory may be what is lacking. */
static tide_status io_error(const char *op, const char *name, const char *what) {
    int e = errno;
    return tidei_fail(e == ENOMEM ? TIDE_E_HOST_NOMEM : TIDE_E_IO, op, "%s: %s: %s", name, what,
                      tidei_errno_text(e));
}

/* n bytes, or the reason why not. */
static tide_status read_bytes(int f, const char *name, void *to, size_t n, const char *what) {
    ssize_t got = tidei_file_read(f, to, n, -1);
    if (got < 0) return io_error("tide_npy_read", name, "reading failed");
    if ((size_t)got == n) return TIDE_OK;
    return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                      "%s: the file ends inside %s, %zu bytes short", name, what, n - (size_t)got);
}

static tide_status read_header(tidei_runtime *rt, int f, const char *name, tidei_npy *h) {
    unsigned char start[12];
    tide_status s = read_bytes(f, name, start, 10, "the magic string and version");
    if (s != TIDE_OK) return s;
    if (memcmp(start, magic, sizeof magic) != 0)
        return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                          "%s: not a .npy file: expected it to begin with \\x93NUMPY", name);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                          "%s: format version %d.%d; expected 1.0 to 3.0", name, start[6],
                          start[7]);
    size_t n = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        s = read_bytes(f, name, start + 10, 2, "the header's length");
        if (s != TIDE_OK) return s;
        n |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (n > HEADER_MAX)
        return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                          "%s: a header of %zu bytes; expected at most %zu", name, n, HEADER_MAX);
    char *text = tidei_host_alloc(rt, n + 1);
    if (!text) return tidei_fail_host_memory("tide_npy_read", n + 1);
    s = read_bytes(f, name, text, n, "the header");
    if (s == TIDE_OK) s = tidei_npy_parse(text, n, name, h);
    tidei_host_free(rt, text);
    return s;
}

/* Where the length can be known (not of a pipe), it must be enough before memory is taken. */
static tide_status check_length(int f, const char *name, const tidei_npy *h) {
    off_t here = lseek(f, 0, SEEK_CUR), end = here < 0 ? -1 : lseek(f, 0, SEEK_END);
    if (end < 0) return TIDE_OK;
    if (lseek(f, here, SEEK_SET) < 0) return io_error("tide_npy_read", name, "seeking failed");
    size_t have = end > here ? (size_t)(end - here) : 0;
    if (have >= h->bytes) return TIDE_OK;
    return tidei_fail(TIDE_E_FORMAT, "tide_npy_read",
                      "%s: the elements take %zu bytes, the file has %zu", name, h->bytes, have);
}

static void swap_bytes(unsigned char *p, size_t bytes, size_t width) {
    for (size_t i = 0; i < bytes; i += width) {
        for (size_t lo = i, hi = i + width - 1; lo < hi; lo++, hi--) {
            unsigned char b = p[lo];
            p[lo] = p[hi];
            p[hi] = b;
        }
    }
}

static void normalise(const tidei_npy *h, unsigned char *p, size_t bytes) {
    size_t size = tide_dtype_size(h->dtype);
    if (h->dtype == TIDE_BOOL)
        for (size_t i = 0; i < bytes; i++) p[i] = p[i] != 0;
    if (h->swap)
        swap_bytes(p, bytes, tidei_dtype_kind(h->dtype) == TIDEI_KIND_COMPLEX ? size / 2 : size);
}

static tide_status read_elements(int f, const char *name, const tidei_npy *h,
                                 const tidei_operand *o) {
    size_t room = tidei_min_size(CHUNK, h->bytes);
    unsigned char *buf = tidei_scratch_host(o->rt, room + 1);
    tide_status s = buf ? TIDE_OK : tidei_fail_host_memory("tide_npy_read", room + 1);
    for (size_t at = 0; at < h->bytes && s == TIDE_OK; at += room) {
        size_t n = tidei_min_size(room, h->bytes - at);
        s = read_bytes(f, name, buf, n, "the elements");
        if (s != TIDE_OK) break;
        normalise(h, buf, n);
        s = tidei_submit_copy(tidei_stream_for(o), TIDEI_COPY_H2D, o->st, at, buf, NULL, 0, n,
                              "tide_npy_read");
    }
    tidei_scratch_host_free(o->rt, buf);
    return s;
}

/* In Fortran order the first dimension is the innermost. */
static tidei_layout layout_of(const tidei_npy *h) {
    tidei_layout l = {.dtype = h->dtype, .ndim = h->ndim};
    int64_t shape[TIDE_MAX_RANK], strides[TIDE_MAX_RANK];
    for (int i = 0; i < h->ndim; i++) shape[i] = h->shape[h->fortran ? h->ndim - 1 - i : i];
    tidei_row_major(h->ndim, shape, strides);
    for (int i = 0; i < h->ndim; i++) {
        l.shape[i] = h->shape[i];
        l.strides[i] = strides[h->fortran ? h->ndim - 1 - i : i];
    }
    return l;
}

tide_array *tidei_npy_read_file(tidei_runtime *rt, int f, const char *name) {
    TIDEI_UNCANCELLED;
    tidei_npy h;
    tidei_operand o;
    if (read_header(rt, f, name, &h) != TIDE_OK || check_length(f, name, &h) != TIDE_OK)
        return NULL;
    if (tidei_operand_make_in(rt, TIDE_MEMORY_DEFAULT, h.dtype, h.ndim, h.shape, "tide_npy_read",
                              &o) != TIDE_OK)
        return NULL;
    if (read_elements(f, name, &h, &o) != TIDE_OK) {
        tidei_operand_put(&o);
        return NULL;
    }
    tidei_layout l = layout_of(&h);
    return tidei_array_over(rt, tidei_operand_give(&o), &l, "tide_npy_read");
}

/* A call that may climb, and be left in a callback, holds its descriptor as an even number. */
static const void *held_as(int f) { return (const void *)((uintptr_t)f << 1); }

static void undo_file(tidei_runtime *rt, tidei_thread *t, void *f, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    tidei_file_close((int)((uintptr_t)f >> 1));
}

tide_array *tide_npy_read(tide_runtime *ref, const char *path) {
    TIDEI_OPERATION("tide_npy_read");
    tidei_runtime *rt = tidei_entered(ref, "tide_npy_read");
    if (!rt) return NULL;
    if (!path) {
        tidei_fail(TIDE_E_INVALID, "tide_npy_read", "the path is NULL");
        return NULL;
    }
    int f = tidei_file_open(AT_FDCWD, path, O_RDONLY, 0);
    if (f < 0) {
        io_error("tide_npy_read", path, "opening failed");
        return NULL;
    }
    tidei_thread *t = tidei_thread_get(rt);
    tidei_hold(t, undo_file, held_as(f), 0);
    tide_array *a = tidei_npy_read_file(rt, f, path);
    tidei_let(t, held_as(f));
    tidei_file_close(f);
    return a;
}

/* ---- writing ---- */

/* The whole beginning of a file of version 1.0; returns its length. `cap` is enough for every
** shape. */
static size_t compose_header(const tidei_layout *l, unsigned char *out, size_t cap) {
    static const char *const codes[TIDE_DTYPE_COUNT] = {"|b1", "|i1", "<i2", "<i4", "<i8",
                                                        "|u1", "<u2", "<u4", "<u8", "<f2",
                                                        NULL,  "<f4", "<f8", "<c8", "<c16"};
    char shape[192];
    char *text = (char *)out + 10;
    int n = tidei_format(text, cap - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                         codes[l->dtype], tidei_shape_text(shape, sizeof shape, l->ndim, l->shape));
    size_t all = tidei_round_up(10 + (size_t)n + 1, ALIGN), length = all - 10;
    memset(text + n, ' ', length - (size_t)n);
    text[length - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (unsigned char)(length & 255);
    out[9] = (unsigned char)(length >> 8);
    return all;
}

static tide_status write_bytes(int f, const char *name, const void *from, size_t n) {
    return tidei_file_write(f, from, n, NULL) ? TIDE_OK
                                              : io_error("tide_npy_write", name, "writing failed");
}

static tide_status write_elements(int f, const char *name, const tidei_operand *dense) {
    size_t size = tide_dtype_size(dense->lay.dtype), n = (size_t)tidei_layout_size(&dense->lay);
    size_t room = tidei_min_size(CHUNK / size, n);
    void *buf = tidei_scratch_host(dense->rt, room * size + 1);
    tidei_operand piece = *dense;
    tide_status s = buf ? TIDE_OK : tidei_fail_host_memory("tide_npy_write", room * size + 1);
    for (size_t at = 0; at < n && s == TIDE_OK; at += room) {
        piece.lay = (tidei_layout){
            .dtype = dense->lay.dtype, .ndim = 1, .offset = dense->lay.offset + (int64_t)at};
        piece.lay.shape[0] = (int64_t)tidei_min_size(room, n - at);
        piece.lay.strides[0] = 1;
        s = tidei_operand_read(&piece, buf, "tide_npy_write");
        if (s == TIDE_OK) s = write_bytes(f, name, buf, (size_t)piece.lay.shape[0] * size);
    }
    tidei_scratch_host_free(dense->rt, buf);
    return s;
}

static tide_status write_all(int f, const char *path, const tidei_operand *dense) {
    unsigned char header[512];
    tide_status s =
        write_bytes(f, path, header, compose_header(&dense->lay, header, sizeof header));
    return s == TIDE_OK ? write_elements(f, path, dense) : s;
}

static void undo_draft(tidei_runtime *rt, tidei_thread *t, void *draft, uintptr_t of) {
    tidei_draft *d = draft;
    (void)rt, (void)t, (void)of;
    tidei_draft_drop(d);
    tidei_file_close(d->folder);
    free(d);
}

static void undo_text(tidei_runtime *rt, tidei_thread *t, void *text, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    free(text);
}

/* A draft in the folder of `place`; NULL with errno set if it cannot be had. */
static tidei_draft *open_draft(const char *place) {
    const char *slash = strrchr(place, '/');
    char *above =
        tidei_format_new("%.*s", slash ? (int)(slash - place) + 1 : 1, slash ? place : ".");
    int folder = above ? tidei_file_open(AT_FDCWD, above, O_PATH | O_DIRECTORY, 0) : -1;
    tidei_draft *d = malloc(sizeof *d);
    free(above);
    if (d && folder >= 0 && tidei_draft_open(folder, 0666, d)) return d;
    int why = d ? errno : ENOMEM;
    free(d);
    if (folder >= 0) tidei_file_close(folder);
    errno = why;
    return NULL;
}

/* A draft in the folder of `place` gets its name. `old`: what it is to replace, or NULL. */
static tide_status write_draft(const char *path, const char *place, const struct stat *old,
                               const tidei_operand *dense) {
    const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
    tidei_draft *d = open_draft(place);
    if (!d) return io_error("tide_npy_write", path, "opening failed");
    /* refused: it keeps the mode of a new one */
    if (old) (void)!fchmod(d->fd, old->st_mode & 07777);
    tidei_thread *t = tidei_thread_get(dense->rt);
    tidei_hold(t, undo_draft, d, 0);
    tide_status s = write_all(d->fd, path, dense);
    tidei_let(t, d);
    if (s != TIDE_OK)
        tidei_draft_drop(d);
    else if (!tidei_draft_keep(d, name))
        s = io_error("tide_npy_write", path, "writing failed");
    tidei_file_close(d->folder);
    free(d);
    return s;
}

static tide_status write_in_place(const char *path, const tidei_operand *dense) {
    int f = tidei_file_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (f < 0) return io_error("tide_npy_write", path, "opening failed");
    tidei_thread *t = tidei_thread_get(dense->rt);
    tidei_hold(t, undo_file, held_as(f), 0);
    tide_status s = write_all(f, path, dense);
    tidei_let(t, held_as(f));
    if (!tidei_file_close(f) && s == TIDE_OK)
        s = io_error("tide_npy_write", path, "writing failed");
    return s;
}

/* Pipes and devices, and files that have no name any more, are written as they are. */
static tide_status write_file(const char *path, const tidei_operand *dense) {
    TIDEI_UNCANCELLED;
    struct stat old;
    if (stat(path, &old) != 0) {
        bool link = lstat(path, &old) == 0; /* to a file that is not there yet: opening makes it */
        return link ? write_in_place(path, dense) : write_draft(path, path, NULL, dense);
    }
    if (!S_ISREG(old.st_mode) || old.st_nlink == 0) return write_in_place(path, dense);
    if (access(path, W_OK) != 0) return io_error("tide_npy_write", path, "opening failed");
    char *place = realpath(path, NULL); /* a symbolic link stays one */
    if (!place) return io_error("tide_npy_write", path, "opening failed");
    tidei_thread *t = tidei_thread_get(dense->rt);
    tidei_hold(t, undo_text, place, 0);
    tide_status s = write_draft(path, place, &old, dense);
    tidei_let(t, place);
    free(place);
    return s;
}

/* The file is opened only when the elements are there, gaps and strides gone. */
static tide_status write_operand(const tidei_operand *o, const char *path) {
    tidei_operand dense;
    if (o->lay.dtype == TIDE_BF16)
        return tidei_fail(TIDE_E_DTYPE, "tide_npy_write", "%s: bf16 has no .npy form; cast to f32",
                          path);
    if (tidei_layout_contiguous(&o->lay)) return write_file(path, o);
    tide_status s = tidei_operand_make_like(o, o->st->dev, "tide_npy_write", &dense);
    if (s != TIDE_OK) return s;
    s = tidei_copy_elements(o->rt, &dense, o, "tide_npy_write");
    if (s == TIDE_OK) s = write_file(path, &dense);
    tidei_operand_put(&dense);
    return s;
}

tide_status tide_npy_write(tide_array *a, const char *path) {
    TIDEI_OPERATION("tide_npy_write");
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_npy_write", 1, &o);
    if (s != TIDE_OK) return s;
    s = path ? write_operand(&o, path)
             : tidei_fail(TIDE_E_INVALID, "tide_npy_write", "the path is NULL");
    tidei_operand_put(&o);
    return s;
}
