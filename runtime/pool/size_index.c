/* size_index.c: the treaps of a size index's bins, and walking a size index in order. */
#include "runtime/pool/size_index.h"

static bool before(const tidei_extent *a, const tidei_extent *b) {
    return tidei_extent_before(a, b->size, b->off);
}

static void put_among(tidei_extent **root, tidei_extent *x) {
    while (*root && (*root)->rank >= x->rank)
        root = before(x, *root) ? &(*root)->left : &(*root)->right;
    tidei_extent *rest = *root, **low = &x->left, **high = &x->right;
    *root = x;
    while (rest) { /* what ranks lower falls apart into what comes before x and what comes behind */
        if (before(rest, x)) {
            *low = rest;
            low = &rest->right;
            rest = rest->right;
        } else {
            *high = rest;
            high = &rest->left;
            rest = rest->left;
        }
    }
    *low = *high = NULL;
}

void tidei_size_index_take_among(tidei_extent **root, tidei_extent *x) {
    while (*root != x) root = before(x, *root) ? &(*root)->left : &(*root)->right;
    tidei_extent *low = x->left, *high = x->right;
    while (low && high) {
        if (low->rank >= high->rank) {
            *root = low;
            root = &low->right;
            low = low->right;
        } else {
            *root = high;
            root = &high->left;
            high = high->left;
        }
    }
    *root = low ? low : high;
}

/* The first that does not come before (size, off). */
static tidei_extent *first_from(tidei_extent *root, size_t size, size_t off) {
    tidei_extent *found = NULL;
    while (root) {
        if (tidei_extent_before(root, size, off)) {
            root = root->right;
        } else {
            found = root;
            root = root->left;
        }
    }
    return found;
}

/* The treap of a bin, after the loose extents were put into it. */
static tidei_extent *root_of(tidei_size_index *sh, unsigned bin) {
    tidei_extent *x = sh->in[bin].loose;
    if (tidei_likely(!x)) return sh->in[bin].root;
    sh->in[bin].loose = NULL;
    for (tidei_extent *next; x; x = next) {
        next = x->right;
        x->loose = false;
        put_among(&sh->in[bin].root, x);
    }
    return sh->in[bin].root;
}

static uint64_t bits_of(const tidei_size_index *sh, unsigned word) {
    return atomic_load_explicit(&sh->bins[word], memory_order_relaxed);
}
static uint64_t words_of(const tidei_size_index *sh) {
    return atomic_load_explicit(&sh->words, memory_order_relaxed);
}

unsigned tidei_size_index_look(const tidei_size_index *sh, unsigned bin) {
    unsigned w = bin / 64;
    if (bin >= TIDEI_INDEX_BINS) return TIDEI_INDEX_BINS;
    uint64_t bits = bits_of(sh, w) & ~(uint64_t)0 << bin % 64;
    if (!bits) {
        uint64_t words = words_of(sh) & ~(uint64_t)0 << w << 1;
        if (!words) return TIDEI_INDEX_BINS;
        w = (unsigned)__builtin_ctzll(words);
        /* 0 only for a thread that looks while another writes */
        if (tidei_unlikely(!(bits = bits_of(sh, w)))) return TIDEI_INDEX_BINS;
    }
    return w * 64 + (unsigned)__builtin_ctzll(bits);
}

static tidei_extent *leftmost(tidei_extent *x) {
    while (x->left) x = x->left;
    return x;
}

static tidei_extent *first_of_bins(tidei_size_index *sh, unsigned bin) {
    bin = tidei_size_index_look(sh, bin);
    return bin == TIDEI_INDEX_BINS ? NULL : leftmost(root_of(sh, bin));
}

tidei_extent *tidei_size_index_fit(tidei_size_index *sh, size_t size) {
    if (sh->bytes < size) return NULL;
    unsigned exact = tidei_size_index_bin(sh, size), bin = tidei_size_index_look(sh, exact);
    if (bin == exact) { /* this bin has extents both larger and smaller than the request */
        tidei_extent *x = first_from(root_of(sh, bin), size, 0);
        if (x) return x;
        bin = tidei_size_index_look(sh, bin + 1);
    }
    return bin == TIDEI_INDEX_BINS ? NULL : leftmost(root_of(sh, bin));
}

tidei_extent *tidei_size_index_next(tidei_size_index *sh, const tidei_extent *x) {
    unsigned bin = tidei_size_index_bin(sh, x->size);
    tidei_extent *root = root_of(sh, bin), *next = NULL;
    if (x->right) return leftmost(x->right);
    if (root != x) next = first_from(root, x->size, x->off + 1);
    return next ? next : first_of_bins(sh, bin + 1);
}

unsigned tidei_size_index_look_last(const tidei_size_index *sh) {
    uint64_t words = words_of(sh);
    if (!words) return TIDEI_INDEX_BINS;
    unsigned w = 63 - (unsigned)__builtin_clzll(words);
    uint64_t bits = bits_of(sh, w);
    return bits ? w * 64 + 63 - (unsigned)__builtin_clzll(bits) : TIDEI_INDEX_BINS;
}

tidei_extent *tidei_size_index_largest(tidei_size_index *sh) {
    unsigned bin = tidei_size_index_look_last(sh);
    if (bin == TIDEI_INDEX_BINS) return NULL;
    tidei_extent *x = root_of(sh, bin);
    while (x->right) x = x->right;
    return x;
}

/* Puts what a treap holds before a chain: a root with a low child is turned below it until there is
** none. */
static tidei_extent *chained(tidei_extent *root, tidei_extent *chain) {
    while (root) {
        tidei_extent *low = root->left, *high = root->right;
        if (low) {
            root->left = low->right;
            low->right = root;
            root = low;
        } else {
            root->right = chain;
            chain = root;
            root = high;
        }
    }
    return chain;
}

static tidei_extent *empty_bin(tidei_size_index *sh, unsigned bin, tidei_extent *chain) {
    chain = chained(sh->in[bin].root, chain);
    for (tidei_extent *x = sh->in[bin].loose, *next; x; x = next) {
        next = x->right;
        x->loose = false;
        x->right = chain;
        chain = x;
    }
    sh->in[bin].root = sh->in[bin].loose = NULL;
    tidei_size_index_unmark(sh, bin);
    return chain;
}

tidei_extent *tidei_size_index_take_all(tidei_size_index *sh) {
    tidei_extent *chain = NULL;
    for (unsigned bin = 0; (bin = tidei_size_index_look(sh, bin)) < TIDEI_INDEX_BINS; bin++)
        chain = empty_bin(sh, bin, chain);
    sh->bytes = 0;
    sh->tick = 0;
    return chain;
}

static bool in_bin(const tidei_size_index *sh, unsigned bin, const tidei_extent *x) {
    return tidei_extent_is(x) == TIDEI_EXTENT_FREE && tidei_size_index_bin(sh, x->size) == bin;
}

static bool bin_valid(const tidei_size_index *sh, unsigned bin, const tidei_extent *x,
                      size_t *count, size_t *bytes) {
    for (; x; x = x->right) {
        if (!in_bin(sh, bin, x) || x->loose) return false;
        if (x->left && (!before(x->left, x) || x->left->rank > x->rank)) return false;
        if (x->right && (!before(x, x->right) || x->right->rank > x->rank)) return false;
        ++*count;
        *bytes += x->size;
        if (!bin_valid(sh, bin, x->left, count, bytes)) return false;
    }
    return true;
}

static bool loose_valid(const tidei_size_index *sh, unsigned bin, size_t *count, size_t *bytes) {
    const tidei_extent *before = NULL;
    for (const tidei_extent *x = sh->in[bin].loose; x; before = x, x = x->right) {
        if (!in_bin(sh, bin, x) || !x->loose || x->left != before) return false;
        ++*count;
        *bytes += x->size;
    }
    return true;
}

bool tidei_size_index_valid(const tidei_size_index *sh, size_t *count) {
    size_t bytes = 0;
    for (unsigned bin = 0; bin < TIDEI_INDEX_BINS; bin++) {
        uint64_t bits = bits_of(sh, bin / 64);
        if (!!(bits >> bin % 64 & 1) != (sh->in[bin].root || sh->in[bin].loose)) return false;
        if (!!(words_of(sh) >> bin / 64 & 1) != !!bits) return false;
        if (!bin_valid(sh, bin, sh->in[bin].root, count, &bytes)) return false;
        if (!loose_valid(sh, bin, count, &bytes)) return false;
    }
    return bytes == sh->bytes;
}
