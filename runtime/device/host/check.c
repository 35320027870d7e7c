/* check.c: the checker of the host device: was every access ordered after the accesses it
** conflicts with?
**
** Model. Each stream has a clock that counts its operations, and a row (a vector clock): for every
** other stream, the clock up to which this stream's next operation is ordered after that stream's
** operations. The host has a row too, of what it knows to be past; an operation submitted now
** starts after all that. A moment (of an event, or of a written completion word) is a stream's
** clock and row at that time; waiting for it merges both. Example: stream 1 is at clock 5; stream 2
** waits for stream 1's event: row of 2 = {1: 5}. An operation of stream 2 may now use what stream 1
** wrote at clocks up to 5, and what stream 1 had waited for. A map from addresses to uses holds the
** last writer of each stretch and the readers since. An operation conflicts with the last writer,
** and if it writes, with those readers too; each must be in its row, or be its own stream's.
** All of this happens when work is submitted, so what is found does not depend on how the workers
** run. The host's own accesses: what it begins to use must be past by its row. Until it ends the
** range is *lent* to it: an operation that writes a range that the host reads is an error, and so
** is any operation on a range that the host writes.
** What must stay true: clocks, rows and the host's row only rise; a row with several references is
** never written; the map's stretches are disjoint, in order, and each has a use.
** The map is a treap: a search tree by address that is a heap by random priorities, cut and joined
** at a range's ends. */
#include "runtime/device/host/host.h"
#include "runtime/base/text.h"

#define KEPT_NAME 63 /* bytes kept of an operation's name */

struct tidei_row {
    unsigned refs, n;
    uint64_t v[];
};

struct use {
    const char *op;
    uint64_t clock; /* 0: none */
    unsigned stream;
};

struct reader {
    struct use use;
    struct reader *next;
};

struct node { /* the stretch [lo, hi) */
    tidei_addr lo, hi;
    struct use writer;
    struct reader *readers; /* readers since the writer, at most one a stream */
    struct node *left, *right;
    uint32_t priority;
};

struct lent {
    const char *op;
    tidei_range range;
};

struct publish {
    uint64_t tick;
    tidei_moment moment;
};

struct lane { /* a stream, as the checker sees it */
    uint64_t clock;
    tidei_row *row;
    uint64_t host_version;     /* the version of the host's row that was merged last */
    struct publish *published; /* in order of ticks: from `first`, `n` of them */
    size_t first, n, cap;
};

#define SLAB_ITEMS 128
struct slab {
    struct slab *next;
    union {
        struct node nodes[SLAB_ITEMS];
        struct reader readers[SLAB_ITEMS];
    };
};

struct tidei_checker {
    tidei_runtime *rt;
    pthread_mutex_t lock;
    uint64_t reports;
    tidei_row *host; /* never shared, as long as there are streams: merging into it cannot fail */
    uint64_t host_version;
    struct lane *lanes;
    unsigned nlanes;
    struct node *root;
    struct node *free_nodes; /* linked by right */
    struct reader *free_readers;
    size_t nfree_nodes, nfree_readers;
    struct slab *slabs;
    uint32_t random;
    struct lent *lent; /* ranges that the host uses now */
    size_t nlent, lent_cap;
    char **names; /* hash set, open addressing; cap is a power of two */
    size_t nnames, names_cap;
};

/* ---- rows ---- */

static tidei_row *row_new(tidei_checker *c, unsigned n) {
    tidei_row *r = tidei_host_alloc(c->rt, sizeof *r + n * sizeof r->v[0]);
    if (!r) return NULL;
    r->refs = 1;
    r->n = n;
    return r;
}

static void row_drop(tidei_checker *c, tidei_row *r) {
    if (r && --r->refs == 0) tidei_host_free(c->rt, r);
}

static uint64_t row_at(const tidei_row *r, unsigned stream) {
    return stream < r->n ? r->v[stream] : 0;
}

/* Raises *to to `from` (may be NULL) and to (stream, clock), except the entry `own`, which the lane
** keeps itself. Copies the row first if it is shared or too short. */
static bool row_raise(tidei_checker *c, tidei_row **to, unsigned own, const tidei_row *from,
                      unsigned stream, uint64_t clock) {
    tidei_row *r = *to;
    unsigned n = from ? from->n : 0;
    bool news = stream != own && clock > row_at(r, stream);
    for (unsigned i = 0; i < n && !news; i++) news = i != own && from->v[i] > row_at(r, i);
    if (!news) return true;
    if (r->refs > 1 || r->n < c->host->n) {
        r = row_new(c, c->host->n);
        if (!r) return false;
        memcpy(r->v, (*to)->v, (*to)->n * sizeof r->v[0]);
        row_drop(c, *to);
        *to = r;
    }
    for (unsigned i = 0; i < n; i++)
        if (i != own && from->v[i] > r->v[i]) r->v[i] = from->v[i];
    if (stream != own && clock > r->v[stream]) r->v[stream] = clock;
    return true;
}

/* ---- moments ---- */

static tidei_moment moment_now(tidei_checker *c, unsigned stream) {
    struct lane *l = &c->lanes[stream];
    l->row->refs++;
    return (tidei_moment){stream, l->clock, l->row};
}

static void host_learns(tidei_checker *c, tidei_moment *m) {
    bool raised = row_raise(c, &c->host, UINT32_MAX, m->row, m->stream, m->clock);
    tidei_check(raised);
    (void)raised;
    c->host_version++;
    row_drop(c, m->row);
    m->row = NULL;
}

static bool known(const tidei_checker *c, const struct use *u) {
    return row_at(c->host, u->stream) >= u->clock;
}

static bool ordered(const tidei_checker *c, unsigned stream, const struct use *u) {
    return u->stream == stream || row_at(c->lanes[stream].row, u->stream) >= u->clock;
}

void tidei_checker_moment(tidei_checker *c, unsigned stream, tidei_moment *out) {
    pthread_mutex_lock(&c->lock);
    *out = moment_now(c, stream);
    pthread_mutex_unlock(&c->lock);
}

void tidei_checker_moment_drop(tidei_checker *c, tidei_moment *m) {
    pthread_mutex_lock(&c->lock);
    row_drop(c, m->row);
    m->row = NULL;
    pthread_mutex_unlock(&c->lock);
}

bool tidei_checker_wait(tidei_checker *c, unsigned stream, const tidei_moment *m) {
    pthread_mutex_lock(&c->lock);
    bool ok = row_raise(c, &c->lanes[stream].row, stream, m->row, m->stream, m->clock);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void tidei_checker_known(tidei_checker *c, tidei_moment *m) {
    pthread_mutex_lock(&c->lock);
    host_learns(c, m);
    pthread_mutex_unlock(&c->lock);
}

/* ---- completion words ---- */

static void drop_first_publish(tidei_checker *c, struct lane *l) {
    row_drop(c, l->published[l->first].moment.row);
    l->first++;
    l->n--;
}

static bool publish_room(tidei_checker *c, struct lane *l) {
    if (l->first + l->n < l->cap) return true;
    if (l->first >= l->cap / 2 && l->cap) { /* half of it or more is past: move down */
        memmove(l->published, l->published + l->first, l->n * sizeof *l->published);
        l->first = 0;
        return true;
    }
    size_t cap = l->cap ? 2 * l->cap : 16;
    struct publish *more = tidei_host_alloc(c->rt, cap * sizeof *more);
    if (!more) return false;
    if (l->n) memcpy(more, l->published + l->first, l->n * sizeof *more);
    tidei_host_free(c->rt, l->published);
    l->published = more;
    l->first = 0;
    l->cap = cap;
    return true;
}

bool tidei_checker_publish(tidei_checker *c, unsigned stream, uint64_t tick, uint64_t done) {
    pthread_mutex_lock(&c->lock);
    struct lane *l = &c->lanes[stream];
    /* A thread that reads the word from now on sees `done` at least: of the moments up to there
    ** only the last matters. */
    while (l->n >= 2 && l->published[l->first + 1].tick <= done) drop_first_publish(c, l);
    bool ok = publish_room(c, l);
    if (ok) l->published[l->first + l->n++] = (struct publish){tick, moment_now(c, stream)};
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void tidei_checker_completed(tidei_checker *c, unsigned stream, uint64_t done) {
    pthread_mutex_lock(&c->lock);
    struct lane *l = &c->lanes[stream];
    while (l->n >= 2 && l->published[l->first + 1].tick <= done) drop_first_publish(c, l);
    if (l->n && l->published[l->first].tick <= done) {
        host_learns(c, &l->published[l->first].moment);
        drop_first_publish(c, l);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- names: kept after the work, as later reports quote them ---- */

static uint64_t hash_name(const char *s, size_t n) { /* FNV-1a */
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h;
}

static char **name_slot(char **names, size_t cap, const char *s, size_t n) {
    size_t i = hash_name(s, n) & (cap - 1);
    while (names[i] && (strncmp(names[i], s, n) != 0 || names[i][n])) i = (i + 1) & (cap - 1);
    return &names[i];
}

static bool names_grow(tidei_checker *c) {
    size_t cap = c->names_cap ? 2 * c->names_cap : 64;
    char **more = tidei_host_alloc(c->rt, cap * sizeof *more);
    if (!more) return false;
    for (size_t i = 0; i < c->names_cap; i++)
        if (c->names[i]) *name_slot(more, cap, c->names[i], strlen(c->names[i])) = c->names[i];
    tidei_host_free(c->rt, c->names);
    c->names = more;
    c->names_cap = cap;
    return true;
}

/* The kept copy of a name; a stand-in when host memory is exhausted. */
static const char *keep_name(tidei_checker *c, const char *op) {
    static const char unnamed[] = "an operation";
    if (!op || !*op) return unnamed;
    size_t n = strnlen(op, KEPT_NAME);
    if (2 * c->nnames >= c->names_cap && !names_grow(c)) return unnamed;
    char **slot = name_slot(c->names, c->names_cap, op, n);
    if (!*slot) {
        char *copy = tidei_host_alloc(c->rt, n + 1);
        if (!copy) return unnamed;
        memcpy(copy, op, n);
        *slot = copy;
        c->nnames++;
    }
    return *slot;
}

/* ---- nodes and readers: taken from slabs, reserved before the map is changed ---- */

static void free_reader(tidei_checker *c, struct reader *r) {
    r->next = c->free_readers;
    c->free_readers = r;
    c->nfree_readers++;
}

static void free_node(tidei_checker *c, struct node *n) {
    for (struct reader *r = n->readers, *next; r; r = next) {
        next = r->next;
        free_reader(c, r);
    }
    n->readers = NULL;
    n->right = c->free_nodes;
    c->free_nodes = n;
    c->nfree_nodes++;
}

static struct slab *new_slab(tidei_checker *c) {
    struct slab *s = tidei_host_alloc(c->rt, sizeof *s);
    if (!s) return NULL;
    s->next = c->slabs;
    c->slabs = s;
    return s;
}

static bool reserve_items(tidei_checker *c, size_t nodes, size_t readers) {
    while (c->nfree_nodes < nodes) {
        struct slab *s = new_slab(c);
        if (!s) return false;
        for (unsigned i = 0; i < SLAB_ITEMS; i++) free_node(c, &s->nodes[i]);
    }
    while (c->nfree_readers < readers) {
        struct slab *s = new_slab(c);
        if (!s) return false;
        for (unsigned i = 0; i < SLAB_ITEMS; i++) free_reader(c, &s->readers[i]);
    }
    return true;
}

static struct reader *take_reader(tidei_checker *c, struct use use, struct reader *next) {
    struct reader *r = c->free_readers;
    c->free_readers = r->next;
    c->nfree_readers--;
    *r = (struct reader){use, next};
    return r;
}

static struct node *take_node(tidei_checker *c, tidei_addr lo, tidei_addr hi) {
    struct node *n = c->free_nodes;
    c->free_nodes = n->right;
    c->nfree_nodes--;
    c->random ^= c->random << 13; /* xorshift32 */
    c->random ^= c->random >> 17;
    c->random ^= c->random << 5;
    *n = (struct node){.lo = lo, .hi = hi, .priority = c->random};
    return n;
}

/* ---- the map ---- */

/* Splits t into the stretches that begin below key and the others. */
static void split(struct node *t, tidei_addr key, struct node **below, struct node **above) {
    if (!t) {
        *below = *above = NULL;
    } else if (t->lo < key) {
        split(t->right, key, &t->right, above);
        *below = t;
    } else {
        split(t->left, key, below, &t->left);
        *above = t;
    }
}

static struct node *join(struct node *below, struct node *above) {
    if (!below) return above;
    if (!above) return below;
    if (below->priority > above->priority) {
        below->right = join(below->right, above);
        return below;
    }
    above->left = join(below, above->left);
    return above;
}

/* If a stretch contains `key` and begins before it, cuts it in two at `key`; both keep its uses. */
static void cut(tidei_checker *c, tidei_addr key) {
    struct node *t = c->root, *below, *above;
    while (t && !(t->lo < key && key < t->hi)) t = key <= t->lo ? t->left : t->right;
    if (!t) return;
    struct node *rest = take_node(c, key, t->hi);
    t->hi = key;
    rest->writer = t->writer;
    /* in the same order, so that the two can be compared */
    struct reader **tail = &rest->readers;
    for (struct reader *r = t->readers; r; r = r->next) {
        *tail = take_reader(c, r->use, NULL);
        tail = &(*tail)->next;
    }
    split(c->root, key, &below, &above);
    c->root = join(join(below, rest), above);
}

static void count_items(const struct node *t, tidei_addr lo, tidei_addr hi, size_t *nodes,
                        size_t *readers) {
    if (!t) return;
    if (t->lo > lo) count_items(t->left, lo, hi, nodes, readers);
    if (t->hi < hi) count_items(t->right, lo, hi, nodes, readers);
    if (t->hi <= lo || t->lo >= hi) return;
    ++*nodes;
    for (const struct reader *r = t->readers; r; r = r->next) ++*readers;
}

/* Reserves what an operation on [lo, hi) may need: two cuts copy their stretch's readers; every
** stretch, and every gap between two, may get a reader. */
static bool reserve_for(tidei_checker *c, tidei_addr lo, tidei_addr hi) {
    size_t nodes = 0, readers = 0;
    count_items(c->root, lo, hi, &nodes, &readers);
    return reserve_items(c, nodes + 5, 2 * readers + 2 * nodes + 5);
}

/* The stretches of t in order, linked by right. */
static struct node *flatten(struct node *t, struct node *rest) {
    while (t) {
        struct node *left = t->left;
        t->right = flatten(t->right, rest);
        t->left = NULL;
        rest = t;
        t = left;
    }
    return rest;
}

/* Takes [lo, hi) out of the map: returns its stretches as a list, and the trees on either side.
** reserve_for was called before. */
static struct node *take_out(tidei_checker *c, tidei_addr lo, tidei_addr hi, struct node **below,
                             struct node **above) {
    struct node *middle;
    cut(c, lo);
    cut(c, hi);
    split(c->root, lo, below, &middle);
    split(middle, hi, &middle, above);
    return flatten(middle, NULL);
}

/* Drops uses that the host knows are past: nothing submitted later can conflict with them. */
static void forget_known(tidei_checker *c, struct node *n) {
    if (n->writer.clock && known(c, &n->writer)) n->writer = (struct use){0};
    for (struct reader **at = &n->readers; *at;) {
        struct reader *r = *at;
        if (!known(c, &r->use)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        free_reader(c, r);
    }
}

/* The first use in the stretch that the operation had to be ordered after and was not; NULL if
** there is none. */
static const struct use *unordered_use(const tidei_checker *c, const struct node *n,
                                       unsigned stream, unsigned mode, unsigned *earlier_mode) {
    *earlier_mode = TIDEI_WRITE;
    if (n->writer.clock && !ordered(c, stream, &n->writer)) return &n->writer;
    *earlier_mode = TIDEI_READ;
    if (mode & TIDEI_WRITE)
        for (const struct reader *r = n->readers; r; r = r->next)
            if (!ordered(c, stream, &r->use)) return &r->use;
    return NULL;
}

static void set_reader(tidei_checker *c, struct node *n, struct use now) {
    for (struct reader *r = n->readers; r; r = r->next) {
        if (r->use.stream != now.stream) continue;
        r->use = now;
        return;
    }
    n->readers = take_reader(c, now, n->readers);
}

static bool same_use(const struct use *a, const struct use *b) {
    return a->clock == b->clock && a->stream == b->stream;
}

static bool alike(const struct node *a, const struct node *b) {
    if (a->hi != b->lo || !same_use(&a->writer, &b->writer)) return false;
    const struct reader *r = a->readers, *s = b->readers;
    for (; r && s && same_use(&r->use, &s->use); r = r->next, s = s->next) {}
    return !r && !s;
}

/* Fills the list's gaps in [lo, hi), adds the reader everywhere, joins neighbours with the same
** uses, and returns all as a tree. */
static struct node *read_all(tidei_checker *c, struct node *list, tidei_addr lo, tidei_addr hi,
                             struct use now) {
    struct node *tree = NULL, *last = NULL;
    while (lo < hi) {
        struct node *n = list;
        if (n && n->lo == lo)
            list = n->right;
        else
            n = take_node(c, lo, n ? n->lo : hi);
        lo = n->hi;
        n->right = NULL;
        forget_known(c, n);
        set_reader(c, n, now);
        if (last && alike(last, n)) {
            last->hi = n->hi;
            free_node(c, n);
        } else {
            tree = join(tree, n);
            last = n;
        }
    }
    return tree;
}

static struct node *write_all(tidei_checker *c, struct node *list, tidei_addr lo, tidei_addr hi,
                              struct use now) {
    while (list) {
        struct node *next = list->right;
        free_node(c, list);
        list = next;
    }
    struct node *n = take_node(c, lo, hi);
    n->writer = now;
    return n;
}

/* ---- operations ---- */

/* Enters one range. Returns 1 with *r filled when it was not ordered after an earlier use, 0 when
** all is well, -1 when host memory is exhausted. */
static int use_range(tidei_checker *c, struct use now, const tidei_range *range, tidei_finding *r) {
    tidei_addr lo = range->addr, hi = lo + range->bytes;
    struct node *below, *above;
    const struct use *found = NULL;
    unsigned earlier_mode = 0;
    if (lo >= hi || !(range->mode & (TIDEI_READ | TIDEI_WRITE))) return 0;
    if (!reserve_for(c, lo, hi)) return -1;
    struct node *list = take_out(c, lo, hi, &below, &above);
    for (struct node *n = list; n && !found; n = n->right)
        found = unordered_use(c, n, now.stream, range->mode, &earlier_mode);
    if (found)
        *r = (tidei_finding){now.op,      found->op,    now.stream, found->stream,
                             range->mode, earlier_mode, lo,         range->bytes};
    struct node *middle = range->mode & TIDEI_WRITE ? write_all(c, list, lo, hi, now)
                                                    : read_all(c, list, lo, hi, now);
    c->root = join(join(below, middle), above);
    return found != NULL;
}

/* Whether the operation conflicts with a range that is lent to the host; *r says which. */
static bool meets_host(const tidei_checker *c, const char *op, unsigned stream,
                       const tidei_range *range, tidei_finding *r) {
    for (size_t i = 0; i < c->nlent; i++) {
        const tidei_range *x = &c->lent[i].range;
        if (!((x->mode | range->mode) & TIDEI_WRITE) || !range->bytes) continue;
        if (x->addr >= range->addr + range->bytes || range->addr >= x->addr + x->bytes) continue;
        *r = (tidei_finding){op,          c->lent[i].op, stream,      TIDEI_BY_HOST,
                             range->mode, x->mode,       range->addr, range->bytes};
        return true;
    }
    return false;
}

static bool use_locked(tidei_checker *c, unsigned stream, const char *op, const tidei_range *ranges,
                       unsigned nranges, tidei_finding *reports, unsigned *n) {
    struct lane *l = &c->lanes[stream];
    tidei_finding r;
    if (l->host_version != c->host_version) {
        if (!row_raise(c, &l->row, stream, c->host, stream, 0)) return false;
        l->host_version = c->host_version;
    }
    struct use now = {keep_name(c, op), ++l->clock, stream};
    for (unsigned i = 0; i < nranges; i++) {
        int found = use_range(c, now, &ranges[i], &r);
        if (found < 0) return false;
        if (!found) found = meets_host(c, now.op, stream, &ranges[i], &r);
        if (found && *n < TIDEI_FINDINGS_MAX) reports[(*n)++] = r;
        c->reports += (uint64_t)found;
    }
    return true;
}

bool tidei_checker_use(tidei_checker *c, unsigned stream, const char *op, const tidei_range *ranges,
                       unsigned nranges, tidei_finding *reports, unsigned *n) {
    pthread_mutex_lock(&c->lock);
    *n = 0;
    bool ok = use_locked(c, stream, op, ranges, nranges, reports, n);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

/* A use of the stretch that may not be past; NULL if there is none. */
static const struct use *pending_use(const tidei_checker *c, const struct node *n, unsigned *mode) {
    *mode = TIDEI_WRITE;
    if (n->writer.clock && !known(c, &n->writer)) return &n->writer;
    *mode = TIDEI_READ;
    for (const struct reader *r = n->readers; r; r = r->next)
        if (!known(c, &r->use)) return &r->use;
    return NULL;
}

/* ---- the host's own ---- */

/* A use between lo and hi that the host may not know to be past, of those that conflict with
** `mode`; NULL if there is none. */
static const struct use *use_within(const tidei_checker *c, const struct node *t, tidei_addr lo,
                                    tidei_addr hi, unsigned mode, unsigned *earlier_mode) {
    if (!t) return NULL;
    const struct use *u = lo < t->lo ? use_within(c, t->left, lo, hi, mode, earlier_mode) : NULL;
    if (!u && t->lo < hi && lo < t->hi) {
        u = pending_use(c, t, earlier_mode);
        if (u && !((mode | *earlier_mode) & TIDEI_WRITE)) u = NULL;
    }
    return u || hi <= t->hi ? u : use_within(c, t->right, lo, hi, mode, earlier_mode);
}

static bool lent_reserve(tidei_checker *c) {
    size_t more = c->lent_cap ? 2 * c->lent_cap : 8;
    if (c->nlent < c->lent_cap) return true;
    struct lent *lent = tidei_host_alloc(c->rt, more * sizeof *lent);
    if (!lent) return false;
    if (c->nlent) memcpy(lent, c->lent, c->nlent * sizeof *lent);
    tidei_host_free(c->rt, c->lent);
    c->lent = lent;
    c->lent_cap = more;
    return true;
}

bool tidei_checker_lend(tidei_checker *c, const char *op, const tidei_range *range,
                        tidei_finding *r, unsigned *n) {
    unsigned earlier_mode;
    *n = 0;
    pthread_mutex_lock(&c->lock);
    bool ok = lent_reserve(c);
    if (ok) {
        const char *kept = keep_name(c, op);
        tidei_addr lo = range->addr, hi = lo + range->bytes;
        const struct use *u =
            lo < hi ? use_within(c, c->root, lo, hi, range->mode, &earlier_mode) : NULL;
        if (u) {
            *r = (tidei_finding){kept,         u->op, TIDEI_BY_HOST, u->stream, range->mode,
                                 earlier_mode, lo,    range->bytes};
            *n = 1;
            c->reports++;
        }
        c->lent[c->nlent++] = (struct lent){kept, *range};
    }
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void tidei_checker_unlend(tidei_checker *c, const tidei_range *range) {
    pthread_mutex_lock(&c->lock);
    for (size_t i = c->nlent; i-- > 0;) {
        const tidei_range *x = &c->lent[i].range;
        if (x->addr != range->addr || x->bytes != range->bytes || x->mode != range->mode) continue;
        c->lent[i] = c->lent[--c->nlent];
        break;
    }
    pthread_mutex_unlock(&c->lock);
}

bool tidei_checker_forget(tidei_checker *c, tidei_addr addr, size_t bytes, tidei_finding *r) {
    struct node *below, *above, *next;
    bool pending = false;
    if (!bytes) return false;
    pthread_mutex_lock(&c->lock);
    /* Without memory for the cuts the uses stay in the map; the host knows that they are past, so
    ** they lead to no report. */
    if (reserve_for(c, addr, addr + bytes)) {
        for (struct node *n = take_out(c, addr, addr + bytes, &below, &above); n; n = next) {
            unsigned mode;
            const struct use *u = pending || !r ? NULL : pending_use(c, n, &mode);
            next = n->right;
            if (u) {
                *r = (tidei_finding){NULL, u->op, 0, u->stream, 0, mode, addr, bytes};
                pending = true;
                c->reports++;
            }
            free_node(c, n);
        }
        c->root = join(below, above);
    }
    pthread_mutex_unlock(&c->lock);
    return pending;
}

/* ---- streams ---- */

static bool lanes_grow(tidei_checker *c, unsigned n) {
    struct lane *lanes = tidei_host_alloc(c->rt, n * sizeof *lanes);
    tidei_row *host = row_new(c, n);
    if (!lanes || !host) {
        tidei_host_free(c->rt, lanes);
        tidei_host_free(c->rt, host);
        return false;
    }
    if (c->nlanes) {
        memcpy(lanes, c->lanes, c->nlanes * sizeof *lanes);
        memcpy(host->v, c->host->v, c->host->n * sizeof host->v[0]);
    }
    tidei_host_free(c->rt, c->lanes);
    row_drop(c, c->host);
    c->lanes = lanes;
    c->nlanes = n;
    c->host = host;
    return true;
}

/* A stream's number may have been an earlier stream's: the clock goes on, and the host knows that
** the earlier work is past. */
bool tidei_checker_stream_new(tidei_checker *c, unsigned stream) {
    pthread_mutex_lock(&c->lock);
    bool ok = stream < c->nlanes || lanes_grow(c, (stream + 8) / 8 * 8);
    if (ok && !c->lanes[stream].row) ok = (c->lanes[stream].row = row_new(c, c->host->n)) != NULL;
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void drop_publishes(tidei_checker *c, struct lane *l) {
    while (l->n) drop_first_publish(c, l);
    tidei_host_free(c->rt, l->published);
    l->published = NULL;
    l->first = l->cap = 0;
}

void tidei_checker_stream_release(tidei_checker *c, unsigned stream) {
    pthread_mutex_lock(&c->lock);
    tidei_moment m = moment_now(c, stream);
    host_learns(c, &m);
    drop_publishes(c, &c->lanes[stream]);
    pthread_mutex_unlock(&c->lock);
}

/* ---- the checker's life ---- */

tidei_checker *tidei_checker_open(tidei_runtime *rt) {
    tidei_checker *c = tidei_host_alloc(rt, sizeof *c);
    if (!c) return NULL;
    c->rt = rt;
    c->random = 2463534242u; /* the same seed every time, so that every run is the same */
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void tidei_checker_close(tidei_checker *c) {
    if (!c) return;
    for (unsigned i = 0; i < c->nlanes; i++) {
        drop_publishes(c, &c->lanes[i]);
        row_drop(c, c->lanes[i].row);
    }
    row_drop(c, c->host);
    tidei_host_free(c->rt, c->lanes);
    for (struct slab *s = c->slabs, *next; s; s = next) {
        next = s->next;
        tidei_host_free(c->rt, s);
    }
    tidei_host_free(c->rt, c->lent);
    for (size_t i = 0; i < c->names_cap; i++) tidei_host_free(c->rt, c->names[i]);
    tidei_host_free(c->rt, c->names);
    pthread_mutex_destroy(&c->lock);
    tidei_host_free(c->rt, c);
}

uint64_t tidei_checker_reports(tidei_checker *c) {
    pthread_mutex_lock(&c->lock);
    uint64_t n = c->reports;
    pthread_mutex_unlock(&c->lock);
    return n;
}

static bool valid_tree(const struct node *t, tidei_addr *end) {
    if (!t) return true;
    if (!valid_tree(t->left, end)) return false;
    if (t->lo < *end || t->lo >= t->hi || (!t->writer.clock && !t->readers)) return false;
    *end = t->hi;
    if ((t->left && t->left->priority > t->priority) ||
        (t->right && t->right->priority > t->priority))
        return false;
    return valid_tree(t->right, end);
}

bool tidei_checker_valid(tidei_checker *c) {
    tidei_addr end = 0;
    pthread_mutex_lock(&c->lock);
    bool ok = valid_tree(c->root, &end);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static const char *verb(unsigned mode) { return mode & TIDEI_WRITE ? "writes" : "reads"; }

static const char *actor(char buf[32], unsigned stream) {
    if (stream == TIDEI_BY_HOST) return "the host";
    tidei_format(buf, 32, "stream %u", stream);
    return buf;
}

void tidei_finding_log(tidei_runtime *rt, const char *device, const tidei_finding *r) {
    unsigned long long addr = r->addr;
    char b[2][32];
    if (r->op)
        tidei_log(rt, TIDE_LOG_WARNING,
                  "%s: unordered access: %s on %s %s %zu bytes at 0x%llx, which %s on %s %s; no "
                  "wait orders the two",
                  device, r->op, actor(b[0], r->stream), verb(r->mode), r->bytes, addr,
                  r->earlier_op, actor(b[1], r->earlier_stream), verb(r->earlier_mode));
    else
        tidei_log(rt, TIDE_LOG_WARNING,
                  "%s: unordered access: %zu bytes at 0x%llx are given back, which %s on stream %u "
                  "%s; the host did "
                  "not wait for it",
                  device, r->bytes, addr, r->earlier_op, r->earlier_stream, verb(r->earlier_mode));
}
