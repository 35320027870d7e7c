/* replay_command.c: `tide replay`: its options, and how its figures are shown. docs/replay.md
** explains both. Exit 0, 1 an allocation or a comparison failed (or the device did), 2 bad
** input. */
#include "tools/tide/command.h"
#include "tools/tide/quote.h"
#include "tools/tide/replay.h"
#include "tools/tide/replay_plot.h"
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    tidei_replay_options replay;
    const char *file;
    uint64_t passes, scale, events;
    const char *plot; /* a folder; NULL: no picture */
    char *command;    /* as it was typed */
    bool json;
};

/* ---- options ---- */

enum { DEVICE = 'd', POOL = 'p', STREAMS = 's', LIMIT = 'l', PASSES = 256, LAG, PINNED };
enum { SCALE = PINNED + 1, EVENTS, TOUCH, JSON, PLOT };

static const struct argp_option options[] = {
    {"device", DEVICE, "DEVICE", 0, "\"cuda\", \"cuda:1\", \"host\" (default: TIDE_DEVICE)", 0},
    {"pool", POOL, "NAME", 0,
     "\"tide\" (default), \"driver\", \"split\", \"split:64MiB\", \"binned\", \"simple\", \"none\"",
     0},
    {"limit", LIMIT, "SIZE", 0,
     "The most that the pool may take from the driver: bytes, 4GiB, 50%, or 1.02x of the most that "
     "is live at once (default: none)",
     0},
    {"streams", STREAMS, "K", 0, "Play so many copies, each on a stream of its own (default: 1)",
     0},
    {"passes", PASSES, "P", 0, "Play it so often, and show the last time (default: 2)", 0},
    {"events", EVENTS, "N", 0,
     "Refuse a trace of more events (default: 4194304, or one for each byte of the file)", 0},
    {"scale", SCALE, "F", 0, "Divide all sizes by this (default: 1)", 0},
    {"lag", LAG, "L", 0,
     "A stream's work is done only L events later, as on a device that is behind (default: 0)", 0},
    {"pinned", PINNED, "PERCENT", 0, "This percentage of the blocks must not move (default: 0)", 0},
    {"touch", TOUCH, NULL, 0, "Write a pattern into each block and compare it at its end", 0},
    {"plot", PLOT, "DIR", 0,
     "Draw the recorded run by gnuplot into this folder, which is made: open its index.html", 0},
    {"json", JSON, NULL, 0, "Print the figures as one JSON object", 0},
    {0}};

static uint64_t count(struct argp_state *state, const char *name, const char *text, uint64_t low,
                      uint64_t high) {
    uint64_t v = 0;
    bool ok = *text;
    for (const char *p = text; *p && ok; p++)
        ok = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(v, 10, &v) &&
             !__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
    if (!ok || v < low || v > high)
        argp_error(state, "--%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'", name,
                   low, high, text);
    return v;
}

/* "1.02x" is a factor; anything else is what tide_config.limit takes. The last one counts. */
static void limit(struct argp_state *state, const char *text, tidei_replay_options *o) {
    size_t n = strlen(text), bytes;
    o->limit = NULL;
    o->limit_factor = 0;
    if (n < 2 || text[n - 1] != 'x') {
        o->limit = text;
        /* 100 stands for the device's memory */
        if (tidei_parse_bytes(text, 100, &bytes)) return;
    } else if (strspn(text, "0123456789.") == n - 1) {
        char *end;
        o->limit_factor = strtod(text, &end);
        if (end == text + n - 1 && o->limit_factor > 0) return;
    }
    argp_error(state, "--limit wants bytes, 4GiB, 50%% or a factor such as 1.02x, not '%s'", text);
}

/* argp_error does not return. */
static error_t read_option(int key, char *text, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case DEVICE: o->replay.device = text; return 0;
    case POOL: o->replay.pool = text; return 0;
    case LIMIT: limit(state, text, &o->replay); return 0;
    case STREAMS:
        o->replay.streams = (unsigned)count(state, "streams", text, 1, TIDEI_GAUGE_STREAMS);
        return 0;
    case PASSES: o->passes = count(state, "passes", text, 1, 1000); return 0;
    case LAG: o->replay.lag = count(state, "lag", text, 0, (uint64_t)1 << 32); return 0;
    case PINNED: o->replay.pinned = (unsigned)count(state, "pinned", text, 0, 100); return 0;
    case SCALE: o->scale = count(state, "scale", text, 1, (uint64_t)1 << 32); return 0;
    case EVENTS: o->events = count(state, "events", text, 1, (uint64_t)1 << 40); return 0;
    case TOUCH: o->replay.touch = true; return 0;
    case PLOT: o->plot = text; return 0;
    case JSON: o->json = true; return 0;
    case ARGP_KEY_ARG:
        if (o->file) argp_error(state, "one trace at a time: %s or %s", o->file, text);
        o->file = text;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which trace?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- figures ---- */

static double ratio(const tidei_replay_figures *f) {
    return f->peak_live ? (double)f->peak_reserved / (double)f->peak_live : 0;
}
static double ns_per_event(const tidei_replay_figures *f) {
    return f->events ? (double)f->ns / (double)f->events : 0;
}

static void print_json(const tidei_replay *r, const tidei_replay_figures *f) {
    printf("{\"device\": \"%s\", \"pool\": \"%s\", \"streams\": %u, \"events\": %" PRIu64
           ", \"ns_per_event\": %.1f, \"peak_live\": %zu, \"peak_reserved\": %zu, \"ratio\": %.6f",
           r->dev->d->info.name, r->dev->pool->ops->name, r->o.streams, f->events, ns_per_event(f),
           f->peak_live, f->peak_reserved, ratio(f));
    printf(", \"driver_calls\": %" PRIu64 ", \"compactions\": %" PRIu64
           ", \"bytes_moved\": %" PRIu64 ", \"bytes_remapped\": %" PRIu64
           ", \"device_waits\": %" PRIu64 ", \"climbs\": %" PRIu64 ", \"failed\": %" PRIu64
           ", \"verified\": %" PRIu64 ", \"mismatches\": %" PRIu64 "}\n",
           f->driver_calls, f->compactions, f->bytes_moved, f->bytes_remapped, f->device_waits,
           f->climbs, f->failed, f->verified, f->mismatches);
}

static void print_table(FILE *to, const struct options *o, const tidei_replay *r,
                        const tidei_replay_figures *f) {
    char b[3][32];
    tidei_quote_field(to, o->file);
    fprintf(to, " on %s, pool %s, %u stream%s, pass %" PRIu64 " of %" PRIu64 "\n",
            r->dev->d->info.name, r->dev->pool->ops->name, r->o.streams,
            r->o.streams == 1 ? "" : "s", o->passes, o->passes);
    fprintf(to, "  events         %" PRIu64 ", %.1f ns each\n", f->events, ns_per_event(f));
    fprintf(to, "  peak live      %s\n", tidei_format_bytes(b[0], sizeof b[0], f->peak_live, 3));
    fprintf(to, "  peak reserved  %s, %.4f of that\n",
            tidei_format_bytes(b[1], sizeof b[1], f->peak_reserved, 3), ratio(f));
    fprintf(to, "  driver calls   %" PRIu64 "\n", f->driver_calls);
    fprintf(to, "  compactions    %" PRIu64 ", %s moved, %s remapped\n", f->compactions,
            tidei_format_bytes(b[0], sizeof b[0], f->bytes_moved, 3),
            tidei_format_bytes(b[1], sizeof b[1], f->bytes_remapped, 3));
    fprintf(to, "  device waits   %" PRIu64 "\n", f->device_waits);
    fprintf(to, "  climbs         %" PRIu64 ", %" PRIu64 " failed\n", f->climbs, f->failed);
    if (r->o.touch)
        fprintf(to, "  verified       %" PRIu64 " blocks, %" PRIu64 " words differ\n", f->verified,
                f->mismatches);
}

/* ---- the command ---- */

static int failed(void) {
    fprintf(stderr, "tide replay: %s\n", tide_error_last()->message);
    switch (tide_error_last()->status) {
    case TIDE_E_INVALID:
    case TIDE_E_FORMAT:
    case TIDE_E_IO: return 2;
    default: return 1;
    }
}

/* What went wrong with the picture leaves the figures as they are. */
static bool draw(const struct options *o, const tidei_replay *r, const tidei_replay_figures *f,
                 const tidei_plot *plot, const tidei_timeline *t) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to) print_table(to, o, r, f);
    tide_status status = to && fclose(to) == 0
                             ? tidei_replay_plot(plot, t, o->file, o->command, text)
                             : tidei_fail_host_memory("tide replay", 0);
    free(text);
    if (status != TIDE_OK) fprintf(stderr, "tide replay: %s\n", tide_error_last()->message);
    return status == TIDE_OK;
}

/* Plays all passes and shows the last; *sound: in none did an allocation or a comparison fail. */
static tide_status play(const struct options *o, tidei_replay *r, const tidei_plot *plot,
                        const tidei_timeline *t, bool *sound) {
    tidei_replay_figures f;
    *sound = true;
    for (uint64_t i = 0; i < o->passes; i++) {
        tide_status status = tidei_replay_pass(r, &f);
        if (status != TIDE_OK) return status;
        *sound = *sound && !f.failed && !f.mismatches;
    }
    if (r->failure.status != TIDE_OK) fprintf(stderr, "tide replay: %s\n", r->failure.text);
    if (o->json)
        print_json(r, &f);
    else
        print_table(stdout, o, r, &f);
    if (o->plot) *sound = draw(o, r, &f, plot, t) && *sound;
    return TIDE_OK;
}

/* The timeline, and the folder, only where a picture was asked for. */
static tide_status read_trace(const struct options *o, tidei_trace *trace, tidei_timeline *t,
                              tidei_plot *plot) {
    if (!o->plot) return tidei_trace_read_most(o->file, o->events, trace);
    tide_status status = tidei_trace_read_rows(o->file, o->events, tidei_timeline_row, t, trace);
    if (status == TIDE_OK) status = tidei_plot_open(plot, "tide replay", o->plot);
    return status == TIDE_OK ? tidei_timeline_end(t, 0) : status;
}

static int run_with(const struct options *o, tidei_timeline *t) {
    tidei_trace trace = {.n = 0};
    tidei_replay *r = NULL;
    tidei_plot plot = {.folder = -1};
    bool sound = false;
    tide_status status = read_trace(o, &trace, t, &plot);
    tidei_trace_scale(&trace, o->scale);
    if (status == TIDE_OK) status = tidei_replay_open(&o->replay, &trace, &r);
    if (status == TIDE_OK) status = play(o, r, &plot, t, &sound);
    int code = status != TIDE_OK ? failed() : sound ? 0 : 1;
    tidei_replay_close(r);
    tidei_plot_close(&plot);
    tidei_trace_clear(&trace);
    return code;
}

static int run(const struct options *o) {
    tidei_timeline *t = tidei_host_alloc(NULL, sizeof *t);
    if (!t || !o->command) {
        tidei_fail_host_memory("tide replay", sizeof *t);
        return failed();
    }
    tidei_timeline_begin(t);
    int code = run_with(o, t);
    tidei_timeline_clear(t);
    tidei_host_free(NULL, t);
    return code;
}

int tidei_replay_command(int argc, char **argv) {
    struct options o = {.replay.streams = 1, .passes = 2, .scale = 1};
    const struct argp argp = {
        .options = options,
        .parser = read_option,
        .args_doc = "TRACE",
        .doc = "Plays a trace of allocations (TIDE_TRACE's CSV, or RMM's log; gzipped too) against "
               "a pool, and shows what it took. docs/replay.md explains the figures.\vExit "
               "status: 0, 1 an allocation, a comparison or the device failed, 2 bad input."};
    o.command = tidei_plot_command(argc, argv);
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o) != 0) return 2;
    unsetenv("TIDE_TRACE"); /* it would record over the file that it plays */
    int code = run(&o);
    free(o.command);
    return code;
}
