/* replay.c: the schedule of a replay, its events, its passes. The model stands in replay.h.
**
** The timed part does little beside the pool's work. One thread plays, and a tick without work
** behind it takes no lock: nobody else gives ticks of these streams out, and publishing them is no
** work (gauge.h). */
#include "tools/tide/replay.h"
#include "arrays/arrays.h"
#include <stdio.h>
#include <stdlib.h>

#define OP "tide replay"

/* Where no memory is written, pages are numbers: a host device may be as large as GPUs are. Well
** below the address space; where the process may have fewer addresses, it is smaller. */
#define UNTOUCHED_HOST_BYTES (256 * TIDEI_GIB)

/* ---- the schedule ---- */

struct turns {
    size_t n, late[TIDEI_GAUGE_STREAMS]; /* events of a copy; by how many it starts late */
    size_t at, end;                      /* this round, and the one behind the last */
    unsigned next, copies;
};

static struct turns turns_of(const tidei_trace *trace, unsigned copies) {
    struct turns x = {.n = trace->n, .copies = copies};
    for (unsigned j = 0; j < copies; j++)
        x.late[j] = (size_t)((unsigned __int128)trace->n * j / copies);
    if (x.n) x.end = x.n + x.late[copies - 1];
    return x;
}

/* False at the end. */
static inline bool next_turn(struct turns *x, unsigned *copy, size_t *event) {
    while (x->at < x->end) {
        unsigned j = x->next;
        size_t i = x->at - x->late[j]; /* wraps for one that has not started */
        if (++x->next == x->copies) {
            x->next = 0;
            x->at++;
        }
        if (i >= x->n) continue;
        *copy = j;
        *event = i;
        return true;
    }
    return false;
}

uint64_t tidei_replay_peak(const tidei_trace *trace, unsigned streams) {
    struct turns turns = turns_of(trace, streams);
    uint64_t live = 0, peak = 0;
    unsigned copy;
    for (size_t i; next_turn(&turns, &copy, &i);) {
        const tidei_event *e = &trace->events[i];
        if (e->op == TIDEI_EVENT_ALLOC) live += e->bytes;
        if (e->op == TIDEI_EVENT_FREE) live -= e->bytes;
        if (live > peak) peak = live;
    }
    return peak;
}

/* ---- blocks ---- */

/* A number of its own for every (copy, block, generation), with all bits at odds (splitmix64, which
** maps one to one). */
static uint64_t number_of(unsigned copy, uint32_t block, uint64_t generation) {
    uint64_t x = block | (uint64_t)copy << 32 | generation << 40;
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

bool tidei_replay_pins(unsigned percent, unsigned copy, uint32_t block) {
    return percent && number_of(copy, block, 0) % 100 < percent;
}

static uint64_t pattern_of(const tidei_replay *r, const tidei_replay_copy *c, uint32_t block) {
    return number_of(c->number, block, r->passes);
}

/* ---- events ---- */

/* The stream's next tick. */
static uint64_t tick(const tidei_replay *r, tidei_stream *s) {
    if (!r->o.touch) return tidei_stream_tick(s);
    pthread_mutex_lock(&s->lock);
    uint64_t now = tidei_stream_tick(s);
    tidei_stream_after_work(s);
    pthread_mutex_unlock(&s->lock);
    return now;
}

/* The same, and st was written at it, after all its other uses. */
static void last_use(const tidei_replay *r, tidei_stream *s, tidei_storage *st) {
    uint64_t now = tick(r, s);
    if (!st->bytes) return;
    st->stamps.n = 0; /* only this thread looks at it */
    tidei_stamps_add(&st->stamps, (tidei_stamp){.tick = now, .stream = s->slot, .write = 1});
}

/* What a first use does before its work: waits on the device for what others left pending on the
** block. */
static tide_status first_use(tidei_stream *s, tidei_storage *st) {
    const tidei_stamp *a = tidei_stamps_at(&st->stamps); /* nobody else knows the storage */
    bool foreign = false;
    for (unsigned i = 0; i < st->stamps.n; i++) foreign |= a[i].stream != s->slot;
    return foreign ? tidei_order(s, &(tidei_use){st, 0, st->bytes, TIDEI_WRITE}, 1, OP) : TIDE_OK;
}

static tide_status birth(tidei_replay *r, const tidei_replay_copy *c, const tidei_event *e) {
    tidei_storage *st;
    tide_status status = tidei_storage_new(r->dev, e->bytes, c->s, OP, &st);
    if (status == TIDE_E_NOMEM) {
        if (r->failure.status == TIDE_OK) tidei_error_save(&r->failure);
        r->failed++;
        tick(r, c->s);
        return TIDE_OK;
    }
    if (status != TIDE_OK) return status;
    c->blocks[e->block] = st;
    if (tidei_replay_pins(r->o.pinned, c->number, e->block)) tidei_storage_pin(st);
    if (r->o.touch && st->bytes)
        return tidei_touch_write(&r->touch, c->s, st, pattern_of(r, c, e->block));
    status = first_use(c->s, st);
    tick(r, c->s);
    return status;
}

static tide_status death(tidei_replay *r, const tidei_replay_copy *c, uint32_t block) {
    tidei_storage *st = c->blocks[block];
    tide_status status = TIDE_OK;
    if (!st) { /* it did not fit */
        tick(r, c->s);
        return TIDE_OK;
    }
    if (r->o.touch && st->bytes) {
        status = tidei_touch_check(&r->touch, c->s, st, pattern_of(r, c, block));
        r->verified++;
    } else {
        last_use(r, c->s, st);
    }
    if (tidei_replay_pins(r->o.pinned, c->number, block)) tidei_storage_unpin(st);
    c->blocks[block] = NULL;
    tidei_storage_release(st);
    return status;
}

static tide_status play(tidei_replay *r, const tidei_replay_copy *c, const tidei_event *e) {
    if (e->op == TIDEI_EVENT_ALLOC) return birth(r, c, e);
    if (e->op == TIDEI_EVENT_FREE) return death(r, c, e->block);
    tick(r, c->s);
    return r->o.touch ? tidei_stream_wait(c->s, false) : TIDE_OK;
}

/* ---- passes ---- */

static tide_status play_all(tidei_replay *r, uint64_t *events) {
    struct turns turns = turns_of(r->trace, r->o.streams);
    unsigned copy;
    *events = 0;
    for (size_t i; next_turn(&turns, &copy, &i); ++*events) {
        tide_status status = play(r, &r->copies[copy], &r->trace->events[i]);
        if (status != TIDE_OK) return status;
    }
    return TIDE_OK;
}

/* Frees what is left; with patterns, waits for their comparisons. */
static tide_status end_pass(tidei_replay *r) {
    for (unsigned j = 0; j < r->o.streams; j++)
        for (size_t b = 0; b < r->trace->blocks; b++) {
            if (!r->copies[j].blocks[b]) continue;
            tide_status status = death(r, &r->copies[j], (uint32_t)b);
            if (status != TIDE_OK) return status;
        }
    return r->o.touch ? tidei_streams_wait_all(r->dev, true) : TIDE_OK;
}

/* The counters that only rise. */
static tidei_replay_figures counters(const tidei_replay *r) {
    tidei_pool_stats ps;
    r->dev->pool->ops->stats(r->dev->pool, &ps);
    return (tidei_replay_figures){.driver_calls = tidei_gauge_calls(&r->gauge),
                                  .compactions = ps.compactions,
                                  .bytes_moved = ps.bytes_moved,
                                  .bytes_remapped = ps.bytes_remapped,
                                  .device_waits = atomic_load(&r->dev->waits->device_waits),
                                  .climbs = atomic_load(&r->rt->reclaim->climbs),
                                  .mismatches = r->o.touch ? tidei_touch_mismatches(&r->touch) : 0};
}

tide_status tidei_replay_pass(tidei_replay *r, tidei_replay_figures *out) {
    tidei_replay_figures before = counters(r);
    uint64_t events;
    r->passes++;
    r->failed = r->verified = 0;
    tide_runtime_reset_peaks(r->rt->ref);
    uint64_t start = tidei_now_ns();
    tide_status status = play_all(r, &events);
    uint64_t ns = tidei_now_ns() - start;
    if (status == TIDE_OK) status = end_pass(r);
    if (status != TIDE_OK) return status;
    tidei_replay_figures after = counters(r);
    *out = (tidei_replay_figures){.events = events,
                                  .ns = ns,
                                  .peak_live = atomic_load(&r->dev->budget->peak_live),
                                  .peak_reserved = atomic_load(&r->dev->budget->peak_backed),
                                  .driver_calls = after.driver_calls - before.driver_calls,
                                  .compactions = after.compactions - before.compactions,
                                  .bytes_moved = after.bytes_moved - before.bytes_moved,
                                  .bytes_remapped = after.bytes_remapped - before.bytes_remapped,
                                  .device_waits = after.device_waits - before.device_waits,
                                  .climbs = after.climbs - before.climbs,
                                  .failed = r->failed,
                                  .verified = r->verified,
                                  .mismatches = after.mismatches - before.mismatches};
    return TIDE_OK;
}

/* ---- opening and closing ---- */

/* As tide_open chooses. `memory`: of a host device. */
static tide_status open_device(const tidei_settings *set, size_t memory, tidei_device **out) {
    const char *colon = strchr(set->device, ':');
    bool cuda = !strncmp(set->device, "cuda", 4);
    tidei_device_params p = {.ordinal = colon ? atoi(colon + 1) : 0,
                             .host_checker = set->debug > 0};
    if (cuda || !*set->device) {
        tide_status status = tidei_cuda_open(&p, out);
        if (status == TIDE_OK || cuda) return status;
        tide_error_clear();
    }
    if (p.ordinal >= set->host_devices)
        return tidei_fail(TIDE_E_NODEVICE, OP,
                          "there is no host:%d; host devices: %d (TIDE_HOST_DEVICES)", p.ordinal,
                          set->host_devices);
    p.host_device_memory = memory;
    return tidei_host_open(&p, out);
}

/* The limit in bytes as text, where it is a factor. */
static tide_status limit_text(const tidei_replay *r, const tidei_device *d, char *buf, size_t cap) {
    size_t page = d->info.page_bytes;
    double wanted = r->o.limit_factor * (double)tidei_replay_peak(r->trace, r->o.streams);
    if (!(wanted < 0x1p62))
        return tidei_fail(TIDE_E_INVALID, OP, "a limit of %g bytes is beyond any device", wanted);
    snprintf(buf, cap, "%zu", tidei_round_up((size_t)wanted + 2 * page, page));
    return TIDE_OK;
}

static tide_status open_runtime(tidei_replay *r, size_t untouched) {
    tide_config c = {.struct_size = sizeof c,
                     .device = r->o.device,
                     .pool = r->o.pool,
                     .limit = r->o.limit,
                     .collector = "refcount",
                     .policy = "never"};
    tidei_settings set;
    tidei_device *d;
    char limit[32];
    tide_status status = tidei_settings_read(&c, &set);
    r->untouched = status == TIDE_OK && !set.host_device_memory && !r->o.touch;
    if (status == TIDE_OK)
        status = open_device(&set, r->untouched ? untouched : set.host_device_memory, &d);
    if (status != TIDE_OK) return status;
    tidei_gauge_put(&r->gauge, d, !r->o.touch, r->o.lag);
    if (r->o.limit_factor > 0) {
        status = limit_text(r, d, limit, sizeof limit);
        c.limit = limit;
    }
    if (status != TIDE_OK) {
        d->ops->close(d);
        return status;
    }
    tide_runtime *rt = NULL;
    status = tidei_open_on(&c, d, &rt); /* which has the device now, also where it fails */
    r->rt = tidei_ref_look(TIDEI_REF_RUNTIME, rt);
    return status;
}

/* A pool may take so many times what lives before a device of that memory could show in the
** figures. */
#define AMPLE 2

/* Where the addresses for a large device are refused, one of half its memory is tried, while that
** is ample for the trace. */
static tide_status open_large(tidei_replay *r) {
    size_t ample = AMPLE * (size_t)tidei_replay_peak(r->trace, r->o.streams);
    size_t memory =
        tidei_min_size(UNTOUCHED_HOST_BYTES, tidei_max_size(tidei_host_address_room() / 2, ample));
    tide_status status = open_runtime(r, memory);
    while (status == TIDE_E_HOST_NOMEM && r->untouched && memory / 2 > ample)
        status = open_runtime(r, memory /= 2);
    return status;
}

static tide_status open_copies(tidei_replay *r) {
    size_t bytes = tidei_max_size(r->trace->blocks, 1) * sizeof *r->copies[0].blocks;
    for (unsigned j = 0; j < r->o.streams; j++) {
        tidei_replay_copy *c = &r->copies[j];
        c->number = j;
        if (!(c->blocks = tidei_host_alloc(NULL, bytes))) return tidei_fail_host_memory(OP, bytes);
        tide_status status = tidei_stream_open(&r->rt->devs[0], &c->s);
        if (status != TIDE_OK) return status;
        tidei_gauge_watch(&r->gauge, c->s);
    }
    return TIDE_OK;
}

tide_status tidei_replay_open(const tidei_replay_options *o, const tidei_trace *trace,
                              tidei_replay **out) {
    tidei_check(o->streams >= 1 && o->streams <= TIDEI_GAUGE_STREAMS && o->pinned <= 100);
    tidei_replay *r = tidei_host_alloc(NULL, sizeof *r);
    if (!r) return tidei_fail_host_memory(OP, sizeof *r);
    r->o = *o;
    r->trace = trace;
    tide_status status = open_large(r);
    if (status == TIDE_OK) {
        r->dev = &r->rt->devs[0];
        status = open_copies(r);
    }
    if (status == TIDE_OK && o->touch) status = tidei_touch_open(r->dev, &r->touch);
    if (status != TIDE_OK) {
        tidei_saved_error e;
        tidei_error_save(&e);
        tidei_replay_close(r);
        tidei_error_restore(&e);
        return status;
    }
    *out = r;
    return TIDE_OK;
}

/* A replay that went wrong leaves blocks behind. */
static void drop_blocks(tidei_replay *r) {
    for (unsigned j = 0; j < r->o.streams; j++) {
        tidei_storage **blocks = r->copies[j].blocks;
        for (size_t b = 0; blocks && b < r->trace->blocks; b++)
            if (blocks[b]) tidei_storage_release(blocks[b]);
        tidei_host_free(NULL, blocks);
    }
}

void tidei_replay_close(tidei_replay *r) {
    if (!r) return;
    drop_blocks(r);
    if (r->rt) {
        /* kernels raise the counter that goes next */
        if (r->dev) (void)tidei_streams_wait_all(r->dev, true);
        tidei_touch_close(&r->touch);
        tide_close(r->rt->ref);
    }
    tidei_host_free(NULL, r);
}
