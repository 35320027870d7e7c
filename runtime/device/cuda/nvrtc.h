/* nvrtc.h: the run-time compiler of CUDA C, opened at run time like the driver. Needs no GPU and no
** driver. */
#ifndef TIDEI_CUDA_NVRTC_H
#define TIDEI_CUDA_NVRTC_H

#include "runtime/device/device.h"

typedef unsigned int tidei_nvrtc_result; /* nvrtcResult */
typedef struct _nvrtcProgram *tidei_nvrtc_program;
enum { TIDEI_NVRTC_SUCCESS = 0, TIDEI_NVRTC_OUT_OF_MEMORY = 1, TIDEI_NVRTC_COMPILATION = 6 };

/* X(name, parameters): all return an nvrtcResult. */
#define TIDEI_NVRTC_FUNCTIONS(X)                                                                   \
    X(nvrtcVersion, (int *, int *))                                                                \
    X(nvrtcGetNumSupportedArchs, (int *))                                                          \
    X(nvrtcGetSupportedArchs, (int *))                                                             \
    X(nvrtcCreateProgram, (tidei_nvrtc_program *, const char *, const char *, int,                 \
                           const char *const *, const char *const *))                              \
    X(nvrtcDestroyProgram, (tidei_nvrtc_program *))                                                \
    X(nvrtcCompileProgram, (tidei_nvrtc_program, int, const char *const *))                        \
    X(nvrtcGetCUBINSize, (tidei_nvrtc_program, size_t *))                                          \
    X(nvrtcGetCUBIN, (tidei_nvrtc_program, char *))                                                \
    X(nvrtcGetPTXSize, (tidei_nvrtc_program, size_t *))                                            \
    X(nvrtcGetPTX, (tidei_nvrtc_program, char *))                                                  \
    X(nvrtcGetProgramLogSize, (tidei_nvrtc_program, size_t *))                                     \
    X(nvrtcGetProgramLog, (tidei_nvrtc_program, char *))

/* Opens it: TIDE_NVRTC_PATH (the library or its folder), else versions 13, 12, 11.2, where
** tidei_cuda_library looks. A version that is not newer than the driver's, `driver` (13000: CUDA
** 13.0; 0: any), is preferred, for an older driver refuses what a newer compiler makes. The first
** that opens serves the process. The message of TIDE_E_NODEVICE says how to get it. */
tide_status tidei_nvrtc_open(int driver);
/* Opens it beside what the calling thread does meanwhile, on a thread of our own: finding and
** loading it takes 10 ms and more. finish must follow: it waits, and returns (with the error set)
** what came of it: of tidei_nvrtc_open(driver), then of tidei_nvrtc_serves(sm). Once it is open the
** texts of `early` (may be NULL) are compiled, until finish is called; the first takes 15 ms more
** than others. */
typedef struct tidei_nvrtc_opening {
    int driver, sm;
    tidei_early *early;
    bool beside; /* there is a thread */
    atomic_bool enough;
    pthread_t thread;
    tidei_saved_error error;
} tidei_nvrtc_opening;
void tidei_nvrtc_begin(tidei_nvrtc_opening *o, int driver, int sm, tidei_early *early);
tide_status tidei_nvrtc_finish(tidei_nvrtc_opening *o);
/* 13000 for NVRTC 13.0; 0: not open. */
int tidei_nvrtc_version(void);
/* The folder it was opened from; "" if only the loader knows. Static. */
const char *tidei_nvrtc_folder(void);
/* Whether it can compile for this compute capability (90 for 9.0): if not, TIDE_E_UNSUPPORTED, with
** what to do. */
tide_status tidei_nvrtc_serves(int sm);
/* The architecture that it compiles for where the GPU has that compute capability (a tenth of the
** text's __CUDA_ARCH__); 0: for none. It is open. */
int tidei_nvrtc_arch(int sm);
/* What every kernel is compiled with, besides the architecture; part of a cached kernel's key.
** Static. */
const char *tidei_nvrtc_options(void);

/* Compiles CUDA C (no includes) for compute capability `sm` (90 for 9.0) to a cubin, or to PTX for
** the newest architecture the compiler knows where the GPU is newer. `name` stands for the file in
** messages. *image is malloc'ed. Opens the compiler if need be. TIDE_E_DEVICE with the compiler's
** log when the text does not compile. */
tide_status tidei_nvrtc_compile(const char *source, const char *name, int sm, void **image,
                                size_t *bytes);

#endif
