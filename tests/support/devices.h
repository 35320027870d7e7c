/* devices.h: what the tests of several devices share: runtimes with some of them, whose checker is
** on, going from one to the other, and closing with a look whether all is in order. */
#ifndef TIDETEST_DEVICES_H
#define TIDETEST_DEVICES_H

#include "runtime/device/host/host.h"
#include "tests/memory/memory_kinds.h"
#include <pthread.h>

#define PIECE (8 * MIB) /* of a copy through the host's memory: runtime/memory/transfer.c */

static inline tide_config devices_config(int n, const char *peers) {
    tide_config c = config();
    c.host_devices = n;
    c.host_device_memory = "256MiB";
    c.peers = peers;
    return c;
}

/* n devices of the kind under test, the first of them current; a case that wants more than there
** are is skipped. */
static inline tide_runtime *open_configured(const tide_config *c) {
    tide_config k = *c;
    logged.n = 0;
    k.device = test_on_host() ? "host" : "cuda";
    tide_runtime *rt = test_open(&k);
    if (tide_device_count(rt) >= c->host_devices) return rt;
    tide_close(rt);
    skip();
    return NULL;
}
static inline tide_runtime *open_devices(int n, const char *peers) {
    tide_config c = devices_config(n, peers);
    return open_configured(&c);
}

/* Host devices whatever is under test: for doubles of their table, gates, and what counts their
** checker's words. */
static inline tide_runtime *open_hosts(int n, const char *peers) {
    tide_config c = devices_config(n, peers);
    logged.n = 0;
    c.device = "host";
    return test_open(&c);
}

/* Makes it the current one. */
static inline void on(tide_runtime *rt, int device) { assert_ok(tide_device_set(rt, device)); }

/* The runtime's half of a device that is open. */
static inline tidei_dev *half(tide_runtime *rt, int device) {
    tidei_dev *d;
    assert_ok(tidei_dev_get(test_rt(rt), device, "test", &d));
    return d;
}
static inline const char *name(tide_runtime *rt, int device) {
    return half(rt, device)->d->info.name;
}
/* Of what is not known to be dead. */
static inline size_t live_of(tide_runtime *rt, int device) {
    (void)test_stats(rt); /* drains */
    return atomic_load(&half(rt, device)->budget->live);
}

/* On cuda what can be reached is the machine's matter. */
static inline void needs_peers(tide_runtime *rt, int device, int owner) {
    if (tide_device_reaches(rt, device, owner) == 1 && tide_device_reaches(rt, owner, device) == 1)
        return;
    if (test_on_host())
        fail_msg("%d and %d are no peers: %s", device, owner, tide_error_last()->message);
    tide_close(rt);
    skip();
}

static inline void synchronize_all(tide_runtime *rt) {
    int current = tide_device_current(rt);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(test_rt(rt), d));) {
        on(rt, tidei_dev_number(d));
        assert_ok(tide_device_synchronize(rt));
    }
    on(rt, current);
}

/* Closes, having looked whether all is in order. */
static inline void close_devices(tide_runtime *rt) {
    tidei_device *d = test_rt(rt)->devs[0].d;
    synchronize_all(rt);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    if (d->info.flags & TIDEI_DEV_RUNS_HOST) assert_int_equal(tidei_host_checker_reports(d), 0);
    tide_close(rt);
}

/* ---- bytes that tell places apart ---- */

/* 8 bytes at a time, as a sanitizer looks at each access. */
static inline uint8_t *pattern_of(size_t n, unsigned seed) {
    uint8_t *bytes = malloc(n + 7);
    if (!bytes) fail_msg("no %zu bytes", n);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = (i + 1 + ((uint64_t)seed << 40)) * 0x9e3779b97f4a7c15u;
        word ^= word >> 32; /* each byte goes by the seed */
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

static inline tide_array *patterned(tide_runtime *rt, tide_memory kind, size_t n, unsigned seed) {
    uint8_t *host = pattern_of(n, seed);
    tide_array *a = tide_from_host(rt, TIDE_U8, SHAPE((int64_t)n), host);
    free(host);
    assert_array(a);
    return moved(a, kind);
}

static inline void assert_pattern(tide_array *a, size_t n, unsigned seed) {
    uint8_t *host = malloc(n), *wanted = pattern_of(n, seed);
    assert_int_equal(tide_array_size(a), n);
    assert_ok(tide_to_host(a, host, n));
    assert_memory_equal(host, wanted, n);
    free(wanted);
    free(host);
}

/* Elements of type t as doubles. */
static inline void assert_values(tide_array *a, int64_t n, double (*wanted)(int64_t i)) {
    tide_array *d = tide_cast(a, TIDE_F64);
    double *got = malloc((size_t)n * sizeof *got);
    assert_array(d);
    assert_int_equal(tide_array_size(d), n);
    assert_ok(tide_to_host(d, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != wanted(i)) fail_msg("element %d is %g, not %g", (int)i, got[i], wanted(i));
    free(got);
    tide_release(d);
}

#endif
