/* nvrtc_double.c: a double of NVRTC, a library that is opened like it. Its machine code is four
** letters and the text that was to be compiled, so whoever loads it can run it emulated; its PTX is
** the text. A text with "nonsense" in it does not compile. */
#include "tests/doubles/nvrtc_double.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct _nvrtcProgram {
    char *code; /* four letters, and the text after them */
    char log[128];
} program;

extern nvrtc_double tidetest_nvrtc;
EXPORT nvrtc_double tidetest_nvrtc = {.major = 13, .narchs = 4, .archs = {80, 90, 75, 86}};

/* Programs are compiled on several threads: guards what is counted and kept of them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void count(int *n, int by) {
    pthread_mutex_lock(&lock);
    *n += by;
    pthread_mutex_unlock(&lock);
}

static bool fails(const char *call) {
    return tidetest_nvrtc.failing && !strcmp(tidetest_nvrtc.failing, call);
}
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (fails(call)) return tidetest_nvrtc.error;                                              \
    } while (0)

#define PROTOTYPE(name, params) EXPORT tidei_nvrtc_result name params;
TIDEI_NVRTC_FUNCTIONS(PROTOTYPE)

tidei_nvrtc_result nvrtcVersion(int *major, int *minor) {
    TRY("nvrtcVersion");
    return *major = tidetest_nvrtc.major, *minor = tidetest_nvrtc.minor, 0;
}

tidei_nvrtc_result nvrtcGetNumSupportedArchs(int *n) {
    TRY("nvrtcGetNumSupportedArchs");
    return *n = tidetest_nvrtc.narchs, 0;
}

tidei_nvrtc_result nvrtcGetSupportedArchs(int *archs) {
    TRY("nvrtcGetSupportedArchs");
    memcpy(archs, tidetest_nvrtc.archs, (size_t)tidetest_nvrtc.narchs * sizeof *archs);
    return 0;
}

tidei_nvrtc_result nvrtcCreateProgram(tidei_nvrtc_program *out, const char *source,
                                      const char *name, int n, const char *const *headers,
                                      const char *const *names) {
    size_t bytes = strlen(source) + 1;
    TRY("nvrtcCreateProgram");
    if (n || headers || names) abort(); /* texts have no headers */
    program *p = calloc(1, sizeof *p);
    p->code = malloc(4 + bytes);
    memcpy(p->code, "\177ELF", 4);
    memcpy(p->code + 4, source, bytes);
    snprintf(p->log, sizeof p->log, "%s(1): error: nobody knows what this means", name);
    count(&tidetest_nvrtc.programs, 1);
    return *out = p, 0;
}

tidei_nvrtc_result nvrtcDestroyProgram(tidei_nvrtc_program *p) {
    free((*p)->code);
    free(*p);
    count(&tidetest_nvrtc.programs, -1);
    return *p = NULL, 0;
}

tidei_nvrtc_result nvrtcCompileProgram(tidei_nvrtc_program p, int n, const char *const *options) {
    if (n < 3 || n > 4) abort();
    atomic_fetch_add(&tidetest_nvrtc.compiled, 1);
    pthread_mutex_lock(&lock);
    memset(tidetest_nvrtc.option, 0, sizeof tidetest_nvrtc.option);
    for (int i = 0; i < n; i++)
        snprintf(tidetest_nvrtc.option[i], sizeof tidetest_nvrtc.option[i], "%s", options[i]);
    pthread_mutex_unlock(&lock);
    TRY("nvrtcCompileProgram");
    return strstr(p->code + 4, "nonsense") ? TIDEI_NVRTC_COMPILATION : TIDEI_NVRTC_SUCCESS;
}

static size_t length(tidei_nvrtc_program p) {
    return tidetest_nvrtc.no_code ? 0 : strlen(p->code + 4) + 1;
}

tidei_nvrtc_result nvrtcGetCUBINSize(tidei_nvrtc_program p, size_t *n) {
    TRY("nvrtcGetCUBINSize");
    return *n = length(p) ? 4 + length(p) : 0, 0;
}
tidei_nvrtc_result nvrtcGetCUBIN(tidei_nvrtc_program p, char *out) {
    TRY("nvrtcGetCUBIN");
    return memcpy(out, p->code, 4 + length(p)), 0;
}

tidei_nvrtc_result nvrtcGetPTXSize(tidei_nvrtc_program p, size_t *n) {
    TRY("nvrtcGetPTXSize");
    return *n = length(p), 0;
}
tidei_nvrtc_result nvrtcGetPTX(tidei_nvrtc_program p, char *out) {
    TRY("nvrtcGetPTX");
    return memcpy(out, p->code + 4, length(p)), 0;
}

tidei_nvrtc_result nvrtcGetProgramLogSize(tidei_nvrtc_program p, size_t *n) {
    TRY("nvrtcGetProgramLogSize");
    return *n = tidetest_nvrtc.no_log ? 1 : strlen(p->log) + 1, 0;
}
tidei_nvrtc_result nvrtcGetProgramLog(tidei_nvrtc_program p, char *out) {
    TRY("nvrtcGetProgramLog");
    return memcpy(out, p->log, strlen(p->log) + 1), 0;
}
