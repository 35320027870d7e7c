/* state.c: what the parts of the host device ask of the whole: whether it is lost or a parent's,
** when its workers have ended, and where the checker's findings stay. */
#include "runtime/device/host/host.h"
#include <unistd.h>

/* ---- loss, and forks ---- */

tide_status tidei_host_lost(tidei_host *h, const char *op) {
    return tidei_fail(TIDE_E_LOST, op, "%s is lost: %s", h->base.info.name, h->why);
}

bool tidei_host_forked(const tidei_host *h) { return getpid() != h->pid; }

void tidei_host_settle(tidei_host *h) {
    if (!tidei_host_is_lost(h)) return;
    pthread_mutex_lock(&h->streams_lock);
    for (tidei_dstream *s = h->streams; s; s = s->next)
        if (s->open) tidei_bell_wait(&s->gone, 1, 0);
    pthread_mutex_unlock(&h->streams_lock);
}

/* ---- findings ---- */

/* A line of the log may lead to any call of ours, so nothing is logged here, under a stream's lock,
** nor by a worker, for which such a call may wait: lines are kept until `speak` is called. */
void tidei_host_keep_findings(tidei_host *h, const tidei_finding *r, unsigned n) {
    if (!n) return;
    pthread_mutex_lock(&h->findings_lock);
    for (unsigned i = 0; i < n && h->nfindings < TIDEI_FINDINGS_MAX; i++)
        h->findings[h->nfindings++] = r[i];
    atomic_store_explicit(&h->found, true, memory_order_relaxed);
    pthread_mutex_unlock(&h->findings_lock);
}

/* A lost device's work is over, and its addresses may be another device's next. */
void tidei_host_forget(tidei_host *h, tidei_addr addr, size_t bytes) {
    tidei_finding r;
    if (!h->checker) return;
    if (tidei_checker_forget(h->checker, addr, bytes, tidei_host_is_lost(h) ? NULL : &r))
        tidei_host_keep_findings(h, &r, 1);
}
