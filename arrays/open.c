/* open.c: opens and closes the arrays' floor: the parts that keep state of their own in
** rt->arrays. */
#include "arrays/expr/front.h"
#include "arrays/graph/graph.h"
#include "arrays/move/adapt.h"
#include "arrays/arrays.h"
#include "arrays/kernels/kernels.h"
#include "arrays/move/lent.h"

tide_status tidei_arrays_open(tidei_runtime *rt) {
    rt->arrays = tidei_host_alloc(rt, sizeof(tidei_arrays));
    if (!rt->arrays) return tidei_fail_host_memory("tide_open", sizeof(tidei_arrays));
    pthread_mutex_init(&tidei_arrays_of(rt)->notes_lock, NULL);
    pthread_mutex_init(&tidei_arrays_of(rt)->adapt_lock, NULL);
    pthread_mutex_init(&tidei_arrays_of(rt)->lent_lock, NULL);
    tide_status s = tidei_kernels_open(rt);
    if (s == TIDE_OK) s = tidei_exprs_open(rt);
    return s == TIDE_OK ? tidei_graphs_open(rt) : s;
}

/* What runs on the device uses programs and kernels. A lost device's wait ends at once; its work
** ends with its streams. */
static void end_work(tidei_dev *d) {
    (void)tidei_streams_wait_all(d, true);
    if (atomic_load(&d->d->lost)) tidei_streams_sweep(d, true);
}

void tidei_arrays_close(tidei_runtime *rt) {
    if (!rt->arrays) return;
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) end_work(d);
    tidei_graphs_close(rt);
    tidei_batches_close(rt);
    tidei_rules_close(rt);
    tidei_lents_close(rt);
    tidei_exprs_close(rt);
    tidei_kernels_close(rt);
    pthread_mutex_destroy(&tidei_arrays_of(rt)->adapt_lock);
    pthread_mutex_destroy(&tidei_arrays_of(rt)->notes_lock);
    pthread_mutex_destroy(&tidei_arrays_of(rt)->lent_lock);
    tidei_host_free(rt, rt->arrays);
    rt->arrays = NULL;
}
