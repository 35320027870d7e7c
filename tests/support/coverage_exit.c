/* coverage_exit.c: in builds that measure coverage, a process that ends by _exit writes what it has
** counted, as one that returns from main does: forks' children end so. Linked with --wrap=_exit. */
#include <unistd.h>

void __gcov_dump(void); /* libgcov's */
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void __wrap__exit(int status) {
    __gcov_dump();
    __real__exit(status);
}
