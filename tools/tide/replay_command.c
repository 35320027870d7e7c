/* replay_command.c: `tide replay`: its options, and how its figures are shown. docs/replay.md
** explains both. Exit 0, 1 an allocation or a comparison failed (or the device did), 2 bad
** input. */
#include "tools/tide/command.h"
#include "tools/tide/replay.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char tidei_replay_usage[] =
    "tide replay FILE [--device D] [--pool NAME] [--streams K] [--passes P] [--limit SIZE|1.02x] "
    "[--lag L]\n"
    "                 [--pinned PERCENT] [--scale F] [--events N] [--touch] [--json]";

struct options {
    tidei_replay_options replay;
    const char *file, *limit;
    uint64_t streams, passes, lag, pinned, scale, events;
    bool json, help;
};

/* ---- options ---- */

__attribute__((format(printf, 1, 2))) static bool bad(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "tide replay: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    return false;
}

static bool count(const char *flag, const char *text, uint64_t low, uint64_t high, uint64_t *out) {
    uint64_t v = 0;
    bool ok = *text;
    for (const char *p = text; *p && ok; p++)
        ok = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(v, 10, &v) &&
             !__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
    if (!ok || v < low || v > high)
        return bad("%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'", flag, low, high,
                   text);
    *out = v;
    return true;
}

/* "1.02x" is a factor; anything else is what tide_config.limit takes. */
static bool limit(const char *text, tidei_replay_options *o) {
    size_t n = strlen(text), bytes;
    if (n < 2 || text[n - 1] != 'x') {
        o->limit = text;
        /* 100 stands for the device's memory */
        if (tidei_parse_bytes(text, 100, &bytes)) return true;
    } else if (strspn(text, "0123456789.") == n - 1) {
        char *end;
        o->limit_factor = strtod(text, &end);
        if (end == text + n - 1 && o->limit_factor > 0) return true;
    }
    return bad("--limit wants bytes, 4GiB, 50%% or a factor such as 1.02x, not '%s'", text);
}

/* Flags with a value. */
static bool value(const char *flag, const char *text, struct options *o) {
    const struct {
        const char *name;
        uint64_t low, high, *out;
    } counts[] = {
        {"--streams", 1, TIDEI_GAUGE_STREAMS, &o->streams},
        {"--passes", 1, 1000, &o->passes},
        {"--lag", 0, (uint64_t)1 << 32, &o->lag},
        {"--pinned", 0, 100, &o->pinned},
        {"--scale", 1, (uint64_t)1 << 32, &o->scale},
        {"--events", 1, (uint64_t)1 << 40, &o->events},
    };
    if (!strcmp(flag, "--device")) return o->replay.device = text, true;
    if (!strcmp(flag, "--pool")) return o->replay.pool = text, true;
    if (!strcmp(flag, "--limit")) return o->limit = text, true;
    for (size_t i = 0; i < TIDEI_COUNT(counts); i++)
        if (!strcmp(flag, counts[i].name))
            return count(flag, text, counts[i].low, counts[i].high, counts[i].out);
    return bad("there is no option %s", flag);
}

static bool read_options(int argc, char **argv, struct options *o) {
    *o = (struct options){.streams = 1, .passes = 2, .scale = 1};
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--help"))
            return o->help = true;
        else if (!strcmp(a, "--touch"))
            o->replay.touch = true;
        else if (!strcmp(a, "--json"))
            o->json = true;
        else if (a[0] == '-' && i + 1 == argc)
            return bad("%s: no such option, or its value is missing", a);
        else if (a[0] == '-' && !value(a, argv[++i], o))
            return false;
        else if (a[0] != '-' && o->file)
            return bad("one trace at a time: %s or %s", o->file, a);
        else if (a[0] != '-')
            o->file = a;
    }
    if (!o->file) return bad("which trace?\nusage: %s", tidei_replay_usage);
    if (o->limit && !limit(o->limit, &o->replay)) return false;
    o->replay.streams = (unsigned)o->streams;
    o->replay.lag = o->lag;
    o->replay.pinned = (unsigned)o->pinned;
    return true;
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

static void print_table(const struct options *o, const tidei_replay *r,
                        const tidei_replay_figures *f) {
    char b[3][32];
    printf("%s on %s, pool %s, %u stream%s, pass %" PRIu64 " of %" PRIu64 "\n", o->file,
           r->dev->d->info.name, r->dev->pool->ops->name, r->o.streams,
           r->o.streams == 1 ? "" : "s", o->passes, o->passes);
    printf("  events         %" PRIu64 ", %.1f ns each\n", f->events, ns_per_event(f));
    printf("  peak live      %s\n", tidei_format_bytes(b[0], sizeof b[0], f->peak_live, 3));
    printf("  peak reserved  %s, %.4f of that\n",
           tidei_format_bytes(b[1], sizeof b[1], f->peak_reserved, 3), ratio(f));
    printf("  driver calls   %" PRIu64 "\n", f->driver_calls);
    printf("  compactions    %" PRIu64 ", %s moved, %s remapped\n", f->compactions,
           tidei_format_bytes(b[0], sizeof b[0], f->bytes_moved, 3),
           tidei_format_bytes(b[1], sizeof b[1], f->bytes_remapped, 3));
    printf("  device waits   %" PRIu64 "\n", f->device_waits);
    printf("  climbs         %" PRIu64 ", %" PRIu64 " failed\n", f->climbs, f->failed);
    if (r->o.touch)
        printf("  verified       %" PRIu64 " blocks, %" PRIu64 " words differ\n", f->verified,
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

/* Plays all passes and shows the last; *sound: in none did an allocation or a comparison fail. */
static tide_status play(const struct options *o, tidei_replay *r, bool *sound) {
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
        print_table(o, r, &f);
    return TIDE_OK;
}

int tidei_replay_command(int argc, char **argv) {
    struct options o;
    tidei_trace trace;
    tidei_replay *r = NULL;
    bool sound;
    if (!read_options(argc, argv, &o)) return 2;
    if (o.help) return printf("usage: %s\n", tidei_replay_usage), 0;
    if (tidei_trace_read_most(o.file, o.events, &trace) != TIDE_OK) return failed();
    tidei_trace_scale(&trace, o.scale);
    tide_status status = tidei_replay_open(&o.replay, &trace, &r);
    if (status == TIDE_OK) status = play(&o, r, &sound);
    int code = status != TIDE_OK ? failed() : sound ? 0 : 1;
    tidei_replay_close(r);
    tidei_trace_clear(&trace);
    return code;
}
