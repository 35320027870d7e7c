/* crew.c: jobs on all cores, and how far they have come. */
#include "tools/tide/crew.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define THREADS_MAX 256

typedef struct state {
    const tidei_crew *crew;
    _Atomic size_t next, done;
    _Atomic bool failed;
    pthread_mutex_t speaks;
    size_t shown; /* under the lock: percent */
} state;

static void show_progress(state *s) {
    size_t percent = 100 * (atomic_fetch_add(&s->done, 1) + 1) / s->crew->all;
    if (!s->crew->jobs) return;
    pthread_mutex_lock(&s->speaks);
    if (percent > s->shown) {
        s->shown = percent;
        fprintf(stderr, "\r%s: %zu %% of %zu %s%s", s->crew->op, percent, s->crew->all,
                s->crew->jobs, percent == 100 ? "\n" : "");
        fflush(stderr);
    }
    pthread_mutex_unlock(&s->speaks);
}

static void *work(void *p) {
    state *s = p;
    for (size_t i; (i = atomic_fetch_add(&s->next, 1)) < s->crew->all;) {
        if (!s->crew->run(s->crew->user, i)) atomic_store(&s->failed, true);
        if (atomic_load(&s->failed)) return NULL;
        show_progress(s);
    }
    return NULL;
}

bool tidei_crew_work(const tidei_crew *c) {
    state s = {.crew = c};
    pthread_t others[THREADS_MAX];
    size_t n = 0, wanted = c->threads < c->all ? c->threads : c->all;
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    pthread_mutex_init(&s.speaks, NULL);
    while (n + 1 < wanted && pthread_create(&others[n], NULL, work, &s) == 0) n++;
    work(&s);
    while (n) pthread_join(others[--n], NULL);
    pthread_mutex_destroy(&s.speaks);
    return !atomic_load(&s.failed);
}
