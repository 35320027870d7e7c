/* backtrace.c: reading the stack, and what the loader knows of an address. The model stands in
** backtrace.h. */
#include "runtime/observe/backtrace.h"
#include "runtime/base/uncancelled.h"
#include <dlfcn.h>
#include <execinfo.h>

/* Not inlined: its own frame is the one that is left out. */
__attribute__((noinline)) unsigned tidei_backtrace(void *at[TIDEI_FRAMES]) {
    void *all[TIDEI_FRAMES + 1];
    int n = backtrace(all, TIDEI_FRAMES + 1);
    if (n <= 1) return 0;
    memcpy(at, all + 1, (size_t)(n - 1) * sizeof *at);
    return (unsigned)(n - 1);
}

void tidei_backtrace_prepare(void) {
    TIDEI_UNCANCELLED; /* the first backtrace of a process opens a library */
    void *at[1];
    (void)backtrace(at, 1);
}

tidei_place tidei_place_by_loader(const void *at) {
    /* within the call: a call may be its function's last instruction */
    const char *address = (const char *)at - 1;
    tidei_place p = {.offset = (uintptr_t)address};
    Dl_info info;
    if (!dladdr(address, &info)) return p;
    const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    p.function = info.dli_sname;
    p.module = slash ? slash + 1 : info.dli_fname;
    p.offset = (uintptr_t)(address - (const char *)info.dli_fbase);
    return p;
}
