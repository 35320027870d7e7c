/* memory.c: the host device's memory: reservations, pages, raw blocks, the ceiling.
**
** Model. A reservation is inaccessible address space. A page is a number of bytes counted against
** the ceiling; until its first mapping it has no bytes anywhere (they read as zero), and mapping it
** makes its part of the reservation accessible. Unmapping takes the access away and leaves the
** bytes where they are: the page is *parked*. A parked page moves only when it is mapped at another
** address, or when its place is needed for another page or unreserved (then it goes into *exile*, a
** mapping of its own). So a page that comes and goes in one place costs one system call a step, and
** neighbours stay one mapping of the kernel's, which limits their number (65530 by default) and can
** then use huge pages. The kernel's number of mappings is limited, and at the limit it refuses to
** cut one in two: to change the access of a part of it, or to take a part of it back. A page that
** cannot be unmapped stays mapped and stays its owner's. Addresses that cannot be given back are
** emptied and *kept*, and giving them back is tried again later.
** What must stay true: an access faults at addresses of a reservation where no page is mapped, at
** every moment and on every failure path (except at those of a page that was released though it
** could not be unmapped: they are empty); a parked page's bytes are where `at` says; `used` counts
** every page and every raw block that is not pinned. */
#include "runtime/device/host/host.h"
#include "runtime/base/text.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE_BYTES (2 * TIDEI_MIB) /* the kernel's huge page; reservations start at a multiple */

static tidei_host *host_of(tidei_device *d) { return (tidei_host *)d; }
static void *at(tidei_addr a) { return (void *)(uintptr_t)a; }

/* The kernel has no memory (or no more mappings) for us, which is `nomem`, or something is
** wrong. */
static tide_status kernel_refused(tidei_host *h, const char *op, size_t bytes, tide_status nomem) {
    return tidei_fail(errno == ENOMEM ? nomem : TIDE_E_DEVICE, op,
                      "%s: the system refused %zu bytes: %s", h->base.info.name, bytes,
                      tidei_errno_text(errno));
}

/* ---- the ceiling ---- */

static tide_status count(tidei_host *h, const char *op, size_t bytes) {
    size_t ceiling = h->base.info.total_bytes,
           used = atomic_load_explicit(&h->used, memory_order_relaxed);
    do {
        if (bytes > ceiling - used)
            return tidei_fail(TIDE_E_NOMEM, op, "%s: %zu bytes asked, %zu of %zu free",
                              h->base.info.name, bytes, ceiling - used, ceiling);
    } while (!atomic_compare_exchange_weak(&h->used, &used, used + bytes));
    return TIDE_OK;
}

static void uncount(tidei_host *h, size_t bytes) { atomic_fetch_sub(&h->used, bytes); }

tide_status tidei_host_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "memory");
    *total_bytes = d->info.total_bytes;
    *free_bytes = d->info.total_bytes - atomic_load(&h->used);
    return TIDE_OK;
}

/* ---- address space ---- */

/* Inaccessible addresses, at `where` (in place of what is there) or anywhere; NULL on failure. */
static void *map_nothing(void *where, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (where ? MAP_FIXED : 0);
    void *p = mmap(where, bytes, PROT_NONE, flags, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes,
            /* the same for all, so that the kernel joins neighbours; it is only a wish, so it may
            ** fail */
            MADV_HUGEPAGE);
    return p;
}

/* Notes addresses that are kept. Without memory for the note these addresses are lost, and nothing
** else is. Under memory_lock. */
static void keep(tidei_host *h, tidei_addr addr, size_t bytes, bool in_use) {
    tidei_kept *k = tidei_host_alloc(h->rt, sizeof *k);
    if (!k) return;
    *k = (tidei_kept){.next = h->kept, .at = addr, .bytes = bytes, .in_use = in_use};
    h->kept = k;
}

/* Gives addresses back to the system, or keeps them, empty. Under memory_lock. */
static void give_back(tidei_host *h, tidei_addr addr, size_t bytes) {
    if (!bytes || munmap(at(addr), bytes) == 0) return;
    madvise(at(addr), bytes, MADV_DONTNEED);
    keep(h, addr, bytes, false);
}

/* Tries again to give back what was kept; `all`: nothing is in use any more. Returns the bytes that
** stay. Under memory_lock. */
static size_t give_kept_back(tidei_host *h, bool all) {
    size_t bytes = 0;
    for (tidei_kept **place = &h->kept, *k; (k = *place);) {
        if ((k->in_use && !all) || munmap(at(k->at), k->bytes) != 0) {
            bytes += k->bytes;
            place = &k->next;
            continue;
        }
        *place = k->next;
        tidei_host_free(h->rt, k);
    }
    return bytes;
}

void tidei_host_memory_close(tidei_host *h) {
    size_t bytes = give_kept_back(h, true);
    if (bytes)
        tidei_log(h->rt, TIDE_LOG_WARNING,
                  "%s: %zu bytes of addresses stay, empty: the system would not take them back: %s",
                  h->base.info.name, bytes, tidei_errno_text(errno));
    for (tidei_kept *k = h->kept, *next; k; k = next) {
        next = k->next;
        tidei_host_free(h->rt, k);
    }
}

/* Addresses are the process's own: where they are short, the device's memory is not. */
static tide_status no_addresses(tidei_host *h, size_t bytes, int error) {
    size_t room = tidei_host_address_room();
    char left[64] = "";
    if (room != SIZE_MAX) tidei_format(left, sizeof left, " (ulimit -v leaves %zu)", room);
    return tidei_fail(TIDE_E_HOST_NOMEM, "reserve",
                      "%s: the system refused %zu bytes of address space: %s%s", h->base.info.name,
                      bytes, tidei_errno_text(error), left);
}

tide_status tidei_host_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "reserve");
    if (!bytes || bytes % d->info.page_bytes || bytes > SIZE_MAX - HUGE_BYTES)
        return tidei_fail(TIDE_E_INVALID, "reserve",
                          "%s: %zu bytes are no multiple of the page size %zu", d->info.name, bytes,
                          d->info.page_bytes);
    char *p = map_nothing(NULL, bytes + HUGE_BYTES);
    if (!p) return no_addresses(h, bytes, errno);
    tidei_addr addr = tidei_round_up((uintptr_t)p, HUGE_BYTES),
               end = (uintptr_t)p + bytes + HUGE_BYTES;
    pthread_mutex_lock(&h->memory_lock);
    give_back(h, (uintptr_t)p, addr - (uintptr_t)p);
    give_back(h, addr + bytes, end - (addr + bytes));
    pthread_mutex_unlock(&h->memory_lock);
    *out = addr;
    return TIDE_OK;
}

/* ---- parked pages ---- */

static void park(tidei_host *h, tidei_dpage *p) {
    p->next = h->parked;
    p->prev = &h->parked;
    if (p->next) p->next->prev = &p->next;
    h->parked = p;
}

static void unpark(tidei_dpage *p) {
    if (!p->prev) return;
    *p->prev = p->next;
    if (p->next) p->next->prev = p->prev;
    p->next = NULL;
    p->prev = NULL;
}

/* The page's bytes leave their place for good: addresses of a reservation become inaccessible and
** empty, those of an exile go back. */
static void vacate(tidei_host *h, tidei_addr from, size_t bytes, bool exiled) {
    if (exiled)
        give_back(h, from, bytes);
    else if (!map_nothing(at(from), bytes))
        madvise(at(from), bytes, MADV_DONTNEED); /* no mapping to spare: empty it at least */
}

static bool copy_over(void *to, void *from, size_t bytes) {
    if (mprotect(from, bytes, PROT_READ) != 0) return false;
    bool writable = mprotect(to, bytes, PROT_READ | PROT_WRITE) == 0;
    if (writable) memcpy(to, from, bytes);
    mprotect(to, bytes, PROT_NONE);
    if (!writable) mprotect(from, bytes, PROT_NONE);
    return writable;
}

/* Moves a parked page's bytes to inaccessible, empty addresses. Their old place is never unmapped
** in between: another thread's mapping could fall into the hole. */
static bool move(tidei_host *h, tidei_dpage *p, tidei_addr to, bool into_exile) {
    void *moved = MAP_FAILED;
#ifdef MREMAP_DONTUNMAP
    if (!atomic_load_explicit(&h->move_by_copy, memory_order_relaxed))
        moved = mremap(at(p->at), p->bytes, p->bytes,
                       MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, at(to));
#endif
    /* Kernels before 5.7 cannot move it so, and none before 6.17 moves a page that lies in two of
    ** the kernel's mappings. */
    if (moved == MAP_FAILED && !copy_over(at(to), at(p->at), p->bytes)) return false;
    vacate(h, p->at, p->bytes, p->exiled);
    p->at = to;
    p->exiled = into_exile;
    return true;
}

/* Moves parked pages in the way of [addr, addr + bytes) into exile, except a page whose goal is
** where it is. */
static bool clear_place(tidei_host *h, tidei_addr addr, size_t bytes) {
    for (tidei_dpage *p = h->parked; p; p = p->next) {
        if (p->exiled || p->at >= addr + bytes || p->at + p->bytes <= addr || p->goal == p->at)
            continue;
        void *exile = map_nothing(NULL, p->bytes);
        if (!exile) return false;
        if (!move(h, p, (uintptr_t)exile, true)) {
            give_back(h, (uintptr_t)exile, p->bytes);
            return false;
        }
    }
    return true;
}

void tidei_host_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    tidei_host *h = host_of(d);
    if (tidei_host_forked(h)) {
        munmap(at(addr), bytes);
        return;
    }
    tidei_host_settle(h);
    tidei_host_forget(h, addr, bytes);
    pthread_mutex_lock(&h->memory_lock);
    if (clear_place(h, addr, bytes)) {
        give_back(h, addr, bytes);
        give_kept_back(h, false);
    } else {
        keep(h, addr, bytes, true); /* a page's bytes are in there */
    }
    pthread_mutex_unlock(&h->memory_lock);
}

/* ---- pages ---- */

tide_status tidei_host_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "page_new");
    if (!bytes || bytes % d->info.page_bytes)
        return tidei_fail(TIDE_E_INVALID, "page_new",
                          "%s: %zu bytes are no multiple of the page size %zu", d->info.name, bytes,
                          d->info.page_bytes);
    tide_status status = count(h, "page_new", bytes);
    if (status != TIDE_OK) return status;
    tidei_dpage *p = tidei_host_alloc(h->rt, sizeof *p);
    if (!p) {
        uncount(h, bytes);
        return tidei_fail_host_memory("page_new", sizeof *p);
    }
    p->bytes = bytes;
    *out = p;
    return TIDE_OK;
}

void tidei_host_page_release(tidei_device *d, tidei_dpage *p) {
    tidei_host *h = host_of(d);
    if (!p) return;
    /* in a child the list may be in any state, and the bytes are the parent's */
    if (!tidei_host_forked(h)) {
        if (p->mapped) { /* it could not be unmapped */
            tidei_host_settle(h);
            tidei_host_forget(h, p->at, p->bytes);
        }
        pthread_mutex_lock(&h->memory_lock);
        unpark(p);
        if (p->at) vacate(h, p->at, p->bytes, p->exiled);
        pthread_mutex_unlock(&h->memory_lock);
        uncount(h, p->bytes);
    }
    tidei_host_free(h->rt, p);
}

/* Brings every page that has bytes to its goal; under memory_lock. On failure some pages are parked
** at their old place, some at their goal. */
static bool move_to_goals(tidei_host *h, tidei_addr addr, size_t total, tidei_dpage *const *pages,
                          size_t n) {
    if (!clear_place(h, addr, total)) return false;
    for (size_t i = 0; i < n; i++)
        if (pages[i]->at && pages[i]->at != pages[i]->goal &&
            !move(h, pages[i], pages[i]->goal, false))
            return false;
    return true;
}

/* A part of what is touched soon anyway is touched now, to learn what that takes: from 0.1 ms a MiB
** to forty times that, where a hypervisor first has to find the memory. In processor time, for
** others may be at work; the more bytes, the more it counts. Kernels before 5.14 cannot say. */
static void sample_touch(tidei_host *h, tidei_addr addr, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    size_t n = tidei_min_size(bytes, HUGE_BYTES);
    struct timespec from, to;
    const int before = errno;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    if (madvise(at(addr), n, MADV_POPULATE_WRITE)) {
        errno = before; /* that is no failure */
        return;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double ns = 1e9 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec),
           part = (double)n / (double)(n + HUGE_BYTES),
           old = atomic_load_explicit(&h->fresh_ns, memory_order_relaxed);
    atomic_store_explicit(&h->fresh_ns, (1 - part) * old + part * ns / (double)n,
                          memory_order_relaxed);
#else
    (void)h, (void)addr, (void)bytes;
#endif
}

/* How many bytes at the beginning of these pages were never anywhere. */
static size_t unseen(tidei_dpage *const *pages, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n && !pages[i]->at; i++) bytes += pages[i]->bytes;
    return bytes;
}

tide_status tidei_host_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n) {
    tidei_host *h = host_of(d);
    size_t total = 0, fresh = unseen(pages, n);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "map");
    pthread_mutex_lock(&h->memory_lock);
    for (size_t i = 0; i < n; i++) {
        tidei_check(!pages[i]->mapped && !pages[i]->goal);
        pages[i]->goal = addr + total;
        total += pages[i]->bytes;
    }
    tide_status status = TIDE_OK;
    if (!move_to_goals(h, addr, total, pages, n) ||
        /* may have taken effect in part */
        mprotect(at(addr), total, PROT_READ | PROT_WRITE) != 0) {
        status = kernel_refused(h, "map", total, TIDE_E_NOMEM);
        mprotect(at(addr), total, PROT_NONE);
    }
    for (size_t i = 0; i < n; i++) {
        tidei_dpage *p = pages[i];
        if (status == TIDE_OK) {
            unpark(p);
            p->at = p->goal;
            p->mapped = true;
        }
        p->goal = 0;
    }
    pthread_mutex_unlock(&h->memory_lock);
    if (status == TIDE_OK && fresh) sample_touch(h, addr, fresh);
    return status;
}

tide_status tidei_host_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                             size_t n) {
    tidei_host *h = host_of(d);
    size_t total = 0;
    if (tidei_host_forked(h)) return TIDE_OK;
    for (size_t i = 0; i < n; i++) {
        tidei_check(pages[i]->mapped && pages[i]->at == addr + total);
        total += pages[i]->bytes;
    }
    tidei_host_settle(h);
    tidei_host_forget(h, addr, total);
    pthread_mutex_lock(&h->memory_lock);
    tide_status status = TIDE_OK;
    if (mprotect(at(addr), total, PROT_NONE) != 0) {
        status = kernel_refused(h, "unmap", total, TIDE_E_NOMEM);
        mprotect(at(addr), total, PROT_READ | PROT_WRITE);
    }
    for (size_t i = 0; i < n && status == TIDE_OK; i++) {
        pages[i]->mapped = false;
        park(h, pages[i]);
    }
    pthread_mutex_unlock(&h->memory_lock);
    return status;
}

/* ---- raw memory ---- */

/* Whether the kind counts against the ceiling. Unified memory may all be on the device, so it
** counts. Pinned memory is the host's own and does not, but no machine pins more than it has. */
static bool counts(tidei_mem_kind kind) { return kind != TIDEI_MEM_PINNED; }

static tide_status admit(tidei_host *h, tidei_mem_kind kind, size_t bytes) {
    if (counts(kind)) return count(h, "raw_alloc", bytes);
    if (bytes <= tidei_host_physical_memory()) return TIDE_OK;
    return tidei_fail(TIDE_E_HOST_NOMEM, "raw_alloc",
                      "%s: %zu bytes of pinned memory asked, the machine has %zu",
                      h->base.info.name, bytes, tidei_host_physical_memory());
}

/* Memory comes from malloc, so that sanitizers see each block's end. */
tide_status tidei_host_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                 tidei_addr *out) {
    tidei_host *h = host_of(d);
    void *p;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "raw_alloc");
    if (!bytes)
        return tidei_fail(TIDE_E_INVALID, "raw_alloc", "%s: zero bytes asked", d->info.name);
    tide_status status = admit(h, kind, bytes);
    if (status != TIDE_OK) return status;
    bool huge = bytes >= 2 * HUGE_BYTES; /* smaller blocks would waste too much on alignment */
    errno = posix_memalign(&p, huge ? HUGE_BYTES : TIDEI_HOST_ALIGN, bytes);
    if (errno != 0) {
        if (counts(kind)) uncount(h, bytes);
        return kernel_refused(h, "raw_alloc", bytes,
                              counts(kind) ? TIDE_E_NOMEM : TIDE_E_HOST_NOMEM);
    }
    if (huge) madvise(p, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    *out = (uintptr_t)p;
    return TIDE_OK;
}

void tidei_host_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    tidei_host *h = host_of(d);
    if (!addr) return;
    if (!tidei_host_forked(h)) {
        tidei_host_settle(h);
        tidei_host_forget(h, addr, bytes);
    }
    if (counts(kind)) uncount(h, bytes);
    free(at(addr));
}
