/* sort_host.c: the host's kernel that sorts: row by row, from the lowest digit of 8 bits to the
** highest, stably; short rows by insertion. */
#include "arrays/order/sort_host.h"

#include <string.h>

enum { DIGITS = 256, SHORT = 48 }; /* elements of a row that insertion sorts faster */

/* The room for a row: keys and places, twice each. */
typedef struct room {
    od_u64 *keys, *other_keys;
    od_i64 *order, *other_order;
} room;

static void insert(const room *r, od_i64 n) {
    for (od_i64 i = 1; i < n; i++) {
        od_u64 key = r->keys[i];
        od_i64 from = r->order[i], j = i;
        for (; j > 0 && r->keys[j - 1] > key; j--) {
            r->keys[j] = r->keys[j - 1];
            r->order[j] = r->order[j - 1];
        }
        r->keys[j] = key;
        r->order[j] = from;
    }
}

/* False: all have the same digit, and stay. */
static bool starts(const od_u64 *keys, od_i64 n, int shift, od_i64 *at) {
    od_i64 sum = 0;
    memset(at, 0, DIGITS * sizeof *at);
    for (od_i64 i = 0; i < n; i++) at[keys[i] >> shift & 255]++;
    if (at[keys[0] >> shift & 255] == n) return false;
    for (int d = 0; d < DIGITS; d++) {
        od_i64 here = at[d];
        at[d] = sum;
        sum += here;
    }
    return true;
}

static void distribute(room *r, od_i64 n, int digits) {
    od_i64 at[DIGITS];
    for (int shift = 0; shift < 8 * digits; shift += 8) {
        if (!starts(r->keys, n, shift, at)) continue;
        for (od_i64 i = 0; i < n; i++) {
            od_i64 to = at[r->keys[i] >> shift & 255]++;
            r->other_keys[to] = r->keys[i];
            r->other_order[to] = r->order[i];
        }
        *r = (room){r->other_keys, r->keys, r->other_order, r->order};
    }
}

static void sort_row(const od_sort *p, room *r, od_i64 source) {
    const od_i64 n = p->space.length;
    for (od_i64 i = 0; i < n; i++) r->order[i] = i;
    for (int round = 0; round < (p->type.parts > 1 ? OD_ROUNDS : 1); round++) {
        for (od_i64 i = 0; i < n; i++)
            r->keys[i] = od_key(p->type, p->source, source + r->order[i] * p->space.step, round);
        if (n <= SHORT)
            insert(r, n);
        else
            distribute(r, n, round == 2 ? 1 : p->digits);
    }
}

void tidei_sort_host(const void *params) {
    const od_sort *p = params;
    for (od_i64 row = 0; row < p->space.rows; row++) {
        room r = {(od_u64 *)p->keys[0], (od_u64 *)p->keys[1], (od_i64 *)p->order[0],
                  (od_i64 *)p->order[1]};
        od_i64 source, out;
        od_row(&p->space, row, &source, &out);
        sort_row(p, &r, source);
        for (od_i64 i = 0; i < p->space.length; i++)
            od_put(p, source, r.order[i], out + i * p->space.out_step, r.keys[i]);
    }
}
