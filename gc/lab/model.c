/* model.c: changing single figures of a model by name. */
#include "gc/lab/model.h"
#include "gc/policy.h"
#include "runtime/base/text.h"
#include <math.h>

enum {
    MINOR,
    FULL,
    MINOR_ARRAY,
    FULL_ARRAY,
    HEAP,
    HEAP_MIB,
    THREAD,
    LOW,
    HIGH,
    STALL,
    WAIT,
    FRESH
};
enum { TOTAL = FRESH + 1, PAGE, LEVELS, PARAMS };

#define TIME_MOST  60e9
#define NOT_GIVEN  (-1)
#define ARRAY_MOST 1e6 /* ns */

static const tidei_param params[PARAMS] = {
    [MINOR] = {"minor", TIDEI_TIME, 0, 0, TIME_MOST, "a minor collection"},
    [FULL] = {"full", TIDEI_TIME, 0, 0, TIME_MOST, "a full collection"},
    [MINOR_ARRAY] = {"minor_array", TIDEI_TIME, 0, 0, ARRAY_MOST,
                     "a minor one, for each array made since the last collection"},
    [FULL_ARRAY] = {"full_array", TIDEI_TIME, 0, 0, ARRAY_MOST, "a full one, for each array"},
    [HEAP] = {"heap", TIDEI_BYTES, 0, 0, 0x1p40, "the program's other heap"},
    [HEAP_MIB] = {"heap_mib", TIDEI_TIME, 0, 0, TIME_MOST, "a full one, for each MiB of that"},
    [THREAD] = {"thread", TIDEI_TIME, 0, 0, TIME_MOST, "for each other thread, which is stopped"},
    [LOW] = {"low", TIDEI_NUMBER, 1, 0, 1000, "collections take from this times that ..."},
    [HIGH] = {"high", TIDEI_NUMBER, 1, 0, 1000, "... to this times that"},
    [STALL] = {"stall", TIDEI_TIME, 0, 0, TIME_MOST, "a climb, beyond its collection"},
    [WAIT] = {"wait", TIDEI_SWITCH, 0, 0, 1, "1: a climb waits for the device before it collects"},
    [FRESH] = {"fresh", TIDEI_TIME, 0, 0, TIME_MOST, "a MiB that the pool takes from the driver"},
    [TOTAL] = {"total", TIDEI_BYTES, 0, 1, 0x1p50, "memory of the device"},
    [PAGE] = {"page", TIDEI_BYTES, 0, 0, 0x1p40, "limits are rounded up to pages; 0: not"},
    [LEVELS] = {"levels", TIDEI_WHOLE, 0, 0, 3,
                "0 no collector, 1 minor ones, 2 full ones, 3 both"},
};

size_t tidei_lab_model_params(const tidei_param **table) {
    *table = params;
    return PARAMS;
}

static void read_model(const tidei_lab_model *m, double *at) {
    at[MINOR] = (double)m->minor_ns;
    at[FULL] = (double)m->full_ns;
    at[MINOR_ARRAY] = (double)m->minor_array_ps / 1000;
    at[FULL_ARRAY] = (double)m->full_array_ps / 1000;
    at[HEAP] = (double)m->heap_mib * (double)TIDEI_MIB;
    at[HEAP_MIB] = (double)m->heap_mib_ns;
    at[THREAD] = (double)m->thread_ns;
    at[LOW] = (double)m->spread_low / 1000;
    at[HIGH] = (double)m->spread_high / 1000;
    at[STALL] = (double)m->stall_ns;
    at[WAIT] = !m->climbs_at_once;
    at[FRESH] = (double)m->fresh_mib_ns;
    at[TOTAL] = (double)m->total;
    at[PAGE] = (double)m->page_bytes;
    at[LEVELS] = (double)(m->levels >> 1);
}

/* To the nearest whole number. */
static uint64_t whole(double v) { return (uint64_t)(v + 0.5); }

static void write_model(tidei_lab_model *m, const double *at) {
    m->minor_ns = whole(at[MINOR]);
    m->full_ns = whole(at[FULL]);
    m->minor_array_ps = whole(at[MINOR_ARRAY] * 1000);
    m->full_array_ps = whole(at[FULL_ARRAY] * 1000);
    m->heap_mib = whole(at[HEAP] / (double)TIDEI_MIB);
    m->heap_mib_ns = whole(at[HEAP_MIB]);
    m->thread_ns = whole(at[THREAD]);
    m->spread_low = (uint32_t)whole(at[LOW] * 1000);
    m->spread_high = (uint32_t)whole(at[HIGH] * 1000);
    m->stall_ns = whole(at[STALL]);
    m->climbs_at_once = at[WAIT] <= 0;
    m->fresh_mib_ns = whole(at[FRESH]);
    m->total = whole(at[TOTAL]);
    m->page_bytes = whole(at[PAGE]);
    m->levels = (unsigned)at[LEVELS] << 1;
}

bool tidei_lab_model_change(tidei_lab_model *m, const char *text, char *why, size_t cap) {
    double at[PARAMS], low, high;
    read_model(m, at);
    low = at[LOW];
    high = at[HIGH];
    at[LOW] = at[HIGH] = NOT_GIVEN;
    if (!tidei_params_read(text, text, 0, params, PARAMS, at, why, cap)) return false;
    if (at[HIGH] >= 0 && at[HIGH] < at[LOW]) {
        tidei_format(why, cap, "low is %g, above high, which is %g", at[LOW], at[HIGH]);
        return false;
    }
    /* one that was given alone takes the other along */
    if (at[LOW] < 0) at[LOW] = at[HIGH] >= 0 ? fmin(low, at[HIGH]) : low;
    if (at[HIGH] < 0) at[HIGH] = fmax(high, at[LOW]);
    write_model(m, at);
    return true;
}
