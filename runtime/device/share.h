/* share.h: sharing the work of a host function among the processors (host/team.c). */
#ifndef TIDEI_SHARE_H
#define TIDEI_SHARE_H

#include <stddef.h>

/* Calls part(user, i) once for each i < n, and returns when all have returned. In a function that a
** host device's stream runs the parts are shared among the device's threads: in any order, several
** at a time. Anywhere else, and inside a part, this thread alone calls them, one after the other.
** So parts do not wait for each other, and how work is cut into parts goes by its shape alone: what
** is computed must not depend on how many threads there are. A part should take 20 us or more:
** another thread takes 5 to 50 to wake. */
typedef void tidei_share_fn(void *user, size_t i);
void tidei_share(size_t n, tidei_share_fn *part, void *user);

/* The same of `items`, by stretches of `grain` (the last one may be shorter): part(user, first,
** end) for [first, end). */
typedef void tidei_share_items_fn(const void *user, size_t first, size_t end);
void tidei_share_items(size_t items, size_t grain, tidei_share_items_fn *part, const void *user);
#define TIDEI_SHARE_GRAIN 8192 /* where an item takes 2 to 20 ns */

/* How many threads may come to share now: for work of which any cut gives the same bits, and more
** parts cost more. */
size_t tidei_share_threads(void);

#endif
