/* settings.h: what a runtime is told by tide_config and the environment, and warnings about the
** environment.
**
** Model. Settings are read once, at the opening, and then belong to the runtime. A field of
** tide_config wins over the variable, the variable over the default. What a value must look like is
** known here, down to the forms of names and lists; whether there is such a device, pool, policy or
** collector is found out by the part that opens it, which warns in the same words. */
#ifndef TIDEI_SETTINGS_H
#define TIDEI_SETTINGS_H

#include "runtime/base/base.h"
#include "runtime/base/memory_kind.h"

/* The configuration with environment and defaults resolved. Strings are copies. */
typedef struct tidei_settings {
    char device[32]; /* "" : cuda where it opens, else host */
    char limit[32], soft_limit[32];
    char collector[32], policy[1024], pool[32], release_threshold[32];
    char pinned_limit[32];         /* "": the default */
    tidei_mem_kind default_memory; /* of arrays */
    /* by tide_config: a kind that the device lacks fails; the environment's is a warning */
    bool default_memory_given;
    bool collector_given, policy_given,
        pool_given; /* by tide_config: an unknown name fails; the environment's is a warning */
    bool gc_early, deterministic, thread_streams, spill;
    int matmul_precision; /* TIDEI_PRECISION_* */
    uint64_t collect_wait_ns;
    size_t host_device_memory; /* 0: default */
    int host_devices;
    int host_threads; /* 0: default */
    int log_level;
    /* debug_sample: one of so many allocations is looked at; 0: as the level says */
    int debug, debug_sample;
    tide_log_fn log; /* NULL: the default */
    void *log_user;
    tide_allocator host; /* NULLs: malloc and free */
    bool cache;
    char cache_dir[1024];
    size_t cache_max;
    size_t handle_cache; /* bytes that idle library handles of a device may hold */
    /* pairs of devices that may reach each other's memory: "" or "all", "none", "0-1,2-3" */
    char peers[256];
    char trace[1024]; /* "": nothing is recorded */
    /* by tide_config: a file that cannot be opened fails; the environment's is a warning */
    bool trace_given;
    /* by tide_config: a folder that cannot be had is no value of the environment's that is wrong */
    bool cache_dir_given;
    /* what is wrong in the environment is logged: nobody chose a level, or one that has warnings */
    bool environment_warns;
} tidei_settings;

/* To what the factors of products of f32 may be rounded: not at all, to TF32, to bf16. */
enum { TIDEI_PRECISION_HIGHEST, TIDEI_PRECISION_HIGH, TIDEI_PRECISION_MEDIUM };

#define TIDEI_SAMPLE_MOST      1000000000
#define TIDEI_HOST_THREADS_MAX 1024
#ifdef TIDEI_HAVE_BOEHM
#define TIDEI_COLLECTOR_DEFAULT "boehm"
#else
#define TIDEI_COLLECTOR_DEFAULT "refcount"
#endif

/* A bad value in `c` fails, and so does a bad limit in the environment; other bad values there
** leave the default. */
tide_status tidei_settings_read(const tide_config *c, tidei_settings *out);

/* A variable of the settings as the environment has it. */
typedef struct tidei_variable {
    const char *name, *wanted;
    const char *value; /* NULL: it is not set, or empty */
    /* as far as the settings can tell: names are looked up, and files opened, later */
    bool understood;
    bool vital; /* a bad value fails tide_open */
} tidei_variable;
bool tidei_settings_variable(size_t i, tidei_variable *out); /* false: there are no more than i */
/* What s has for that variable, as the environment would say it; "": nothing, the default is
** others' to choose. Returns buf. */
const char *tidei_settings_show(const tidei_settings *s, size_t i, char *buf, size_t cap);
/* "256MiB", "50%" (of `whole`), "unlimited", "adaptive": into bytes or TIDE_POOL_THRESHOLD_*.
** False: none of these. */
bool tidei_parse_threshold(const char *text, size_t whole, size_t *out);
#define TIDEI_THRESHOLD_WANTED "bytes, 256MiB, 50%, unlimited or adaptive"
#define TIDEI_POOL_NAMES       "tide, driver, split, binned, simple, none"
#define TIDEI_PEERS_WANTED     "all, none, or pairs of devices: 0-1,2-3"
bool tidei_peers_parse(const char *text); /* "" or one of these */
/* Whether a setting that was parsed lets devices a and b, by number, reach each other's memory. */
bool tidei_peers_allow(const char *text, int a, int b);
/* The form of a recording by its file's name. NULL: the name ends otherwise, or nothing stands
** before the end. */
#define TIDEI_TRACE_CSV  ".csv"
#define TIDEI_TRACE_JSON ".json"
const char *tidei_trace_suffix(const char *path);

/* The warning about a value in the environment: "VARIABLE=value" and what follows. It is logged
** even if nobody chose a level. The second is about a value, or a name, that nobody knows. No lock
** may be held. */
__attribute__((format(printf, 4, 5))) void tidei_warn_environment(tidei_runtime *rt,
                                                                  const char *variable,
                                                                  const char *value,
                                                                  const char *fmt, ...);
void tidei_warn_unknown(tidei_runtime *rt, const char *variable, const char *value,
                        const char *wanted);
/* Such a warning for each bad value that the settings know of. */
void tidei_settings_warn(tidei_runtime *rt);

#endif
