/* fork.c: the word by which a fork's child is known. */
#include "runtime/base/fork.h"
#include <sys/mman.h>

/* One word that the kernel clears in a fork's child: tells the child apart without any hook in the
** process. Where the kernel cannot, a word that stays set. */
static _Atomic int never_cleared = 1;
_Atomic int *_Atomic tidei_parent_mark = &never_cleared;

void tidei_fork_mark(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, 4096, MADV_WIPEONFORK) == 0) {
        atomic_store((_Atomic int *)page, 1);
        atomic_store_explicit(&tidei_parent_mark, page, memory_order_release);
    }
}
