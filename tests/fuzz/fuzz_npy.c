/* fuzz_npy.c: .npy files: what is read has the file's elements, comes back from a file that it is
** written to, and has cost no more memory than the file's length allows.
**
** An input is a file. It has no name, and is read by the public function, as a user's would be. */
#define FUZZ_RUNS 40000
#include <sys/mman.h>
#include <unistd.h>

#include "arrays/move/npy.h"
#include "tests/fuzz/fuzz.h"

#define HEADER_ROOM ((size_t)66 << 10) /* a header's length may be a lie, up to 64 KiB of it */
/* the stream's next piece of queue, whoever's turn that is */
#define QUEUE_ROOM ((size_t)72 << 10)

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_npy: %s: %s\n", what, tide_error_last()->message);
    abort();
}

/* ---- host memory, counted ---- */

static atomic_size_t held, most;

static void *counted_alloc(void *user, size_t bytes) {
    size_t *p = malloc(bytes + 16), now = atomic_fetch_add(&held, bytes) + bytes,
           peak = atomic_load(&most);
    (void)user;
    if (!p) abort();
    while (now > peak && !atomic_compare_exchange_weak(&most, &peak, now)) {}
    *p = bytes;
    return p + 2;
}
static void counted_free(void *user, void *x) {
    size_t *p = x;
    (void)user;
    if (!p) return;
    atomic_fetch_sub(&held, p[-2]);
    free(p - 2);
}
static const tide_allocator counted = {counted_alloc, counted_free, NULL};

static tide_runtime *rt; /* one for all inputs */
static void close_runtime(void) { tide_close(rt); }

static tide_runtime *runtime(void) {
    const tide_config c = {.struct_size = sizeof c,
                           .device = "host",
                           .host_device_memory = "64MiB",
                           .collector = "refcount",
                           .allocator = &counted};
    if (rt) return rt;
    require(tide_open(&c, &rt) == TIDE_OK, "opening");
    atexit(close_runtime);
    return rt;
}

static size_t live_peak(void) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    require(tide_runtime_info(runtime(), &s) == TIDE_OK, "statistics");
    return s.peak_live;
}

/* ---- files without a name ---- */

typedef struct file {
    int fd;
    char path[32];
} file;

static file new_file(const void *bytes, size_t n) {
    file f = {.fd = memfd_create("npy", MFD_CLOEXEC)};
    require(f.fd >= 0 && write(f.fd, bytes, n) == (ssize_t)n, "a file");
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

/* ---- what is read ---- */

typedef struct elements {
    unsigned char *bytes;
    size_t n;
} elements;

static elements elements_of(tide_array *a) {
    elements e = {.n = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a))};
    e.bytes = malloc(e.n + 1);
    require(e.bytes && tide_to_host(a, e.bytes, e.n) == TIDE_OK, "reading elements");
    return e;
}

/* Where the element with this row-major number is in the file, in elements. */
static size_t place_in_file(const tidei_npy *h, size_t number) {
    size_t at = 0, index[TIDE_MAX_RANK] = {0};
    for (int i = h->ndim; i-- > 0;) {
        index[i] = number % (size_t)h->shape[i];
        number /= (size_t)h->shape[i];
    }
    for (int i = 0; i < h->ndim; i++) {
        int d = h->fortran ? h->ndim - 1 - i : i;
        at = at * (size_t)h->shape[d] + index[d];
    }
    return at;
}

/* Each element's bytes, components turned where the file has them so, are the file's. */
static void check_elements(tide_array *a, const elements *e, const uint8_t *bytes, size_t size) {
    size_t begin = bytes[6] == 1 ? 10 : 12, length = bytes[8] | (size_t)bytes[9] << 8, width;
    tidei_npy h;
    if (begin == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    require(tidei_npy_parse((const char *)bytes + begin, length, "fuzz", &h) == TIDE_OK,
            "the header");
    require(h.dtype == tide_array_dtype(a) && h.ndim == tide_array_ndim(a) && h.bytes == e->n,
            "another array");
    for (int i = 0; i < h.ndim; i++) require(h.shape[i] == tide_array_dim(a, i), "another shape");
    require(begin + length + e->n <= size, "more elements than the file has");
    width = tide_dtype_size(h.dtype);
    for (size_t k = 0; k < e->n; k++) {
        size_t part = tidei_dtype_kind(h.dtype) == TIDEI_KIND_COMPLEX ? width / 2 : width,
               in = k % width;
        if (h.swap) in = in / part * part + (part - 1 - in % part);
        unsigned char wanted = bytes[begin + length + place_in_file(&h, k / width) * width + in];
        if (h.dtype == TIDE_BOOL) wanted = wanted != 0;
        require(e->bytes[k] == wanted, "another element");
    }
}

static void check_round_trip(tide_array *a, const elements *e) {
    file f = new_file("", 0);
    require(tide_npy_write(a, f.path) == TIDE_OK, "writing");
    tide_array *b = tide_npy_read(runtime(), f.path);
    require(b && tide_array_dtype(b) == tide_array_dtype(a) &&
                tide_array_ndim(b) == tide_array_ndim(a),
            "reading again");
    for (int i = 0; i < tide_array_ndim(a); i++)
        require(tide_array_dim(a, i) == tide_array_dim(b, i), "another shape");
    elements back = elements_of(b);
    require(back.n == e->n && !memcmp(back.bytes, e->bytes, e->n), "other elements");
    free(back.bytes);
    tide_release(b);
    close(f.fd);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    file f = new_file(bytes, n);
    char text[64];
    tide_runtime_reset_peaks(runtime());
    size_t before = atomic_load(&held), live = live_peak();
    atomic_store(&most, before);
    tide_error_clear();
    tide_array *a = tide_npy_read(runtime(), f.path);
    require(atomic_load(&most) - before <= n + HEADER_ROOM + QUEUE_ROOM,
            "reading took more host memory than the file has");
    require(live_peak() - live <= n, "reading took more memory than the file has");
    if (a) {
        elements e = elements_of(a);
        check_elements(a, &e, bytes, n);
        check_round_trip(a, &e);
        require(tide_array_text(a, text, sizeof text) > 0, "formatting");
        free(e.bytes);
        tide_release(a);
    } else {
        const tide_error *e = tide_error_last();
        require(e->status == TIDE_E_FORMAT || e->status == TIDE_E_SHAPE, "another refusal");
        require(!strncmp(e->message, f.path, strlen(f.path)),
                "a refusal that does not name the file");
        for (const char *p = e->message; *p; p++) /* what the file says may be anything */
            require(*p >= ' ' && *p <= '~', "a refusal that is not printable");
    }
    close(f.fd);
}
