/* test_capture.c: captures: what nodes say of slots, where in the arena slots lie, and what is over
** with a capture. */
#include "runtime/memory/capture.h"
#include "tests/support/tidetest.h"

static int open_runtime(void **state) {
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_runtime(void **state) {
    assert_int_equal(atomic_load(&test_rt(*state)->capturing), 0);
    assert_int_equal(test_stats(*state).live, 0);
    assert_true(tidei_runtime_valid(test_rt(*state)));
    tide_close(*state);
    return 0;
}

static uint64_t seed = 1;
static unsigned below(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((seed >> 33) % n);
}

static void nothing(const void *params) { (void)params; }
static tide_status launch(tidei_capture *c, const tidei_use *uses, unsigned n) {
    static const tidei_addr words[TIDEI_USES_MAX];
    const tidei_launch l = {
        .name = "nothing", .host_fn = nothing, .params = words, .params_bytes = sizeof words};
    return tidei_capture_launch(c, uses, n, &l, NULL, "test");
}
static tide_status call(const tidei_graph_node *x, tidei_dev *d, tidei_dgraph *g,
                        const tidei_submission *w, const tidei_graph_range *ranges) {
    return (void)x, (void)d, (void)g, (void)w, (void)ranges, TIDE_OK;
}

static tidei_capture *begin(tide_runtime *rt) {
    tidei_capture *c;
    assert_ok(
        tidei_capture_begin(tidei_thread_get(test_rt(rt)), &test_rt(rt)->devs[0], "test", &c));
    return c;
}
static void end(tide_runtime *rt, tidei_capture *c) {
    assert_ok(tidei_capture_end(tidei_thread_get(test_rt(rt)), c));
}

/* ---- places ---- */

static bool live_together(const tidei_slot *a, const tidei_slot *b) {
    return a->first <= b->last && b->first <= a->last;
}
static bool wants_place(const tidei_slot *s) {
    return s->mode && (s->kind == TIDEI_SLOT_MADE || (s->kind == TIDEI_SLOT_GIVEN && s->fixed));
}

/* All that must be so of a finished capture's arena; returns what is live at once at most. */
static size_t check_places(const tidei_capture *c, size_t align) {
    size_t most = 0, end = 0;
    for (unsigned i = 0; i < c->nslots; i++) {
        const tidei_slot *a = &c->slots[i];
        assert_int_equal(a->in_arena, wants_place(a));
        if (!a->in_arena) continue;
        assert_int_equal(a->place % align, 0);
        end = tidei_max_size(end, a->place + a->hi);
        for (unsigned k = 0; k < i; k++) {
            const tidei_slot *b = &c->slots[k];
            if (b->in_arena && live_together(a, b))
                assert_true(a->place + a->hi <= b->place || b->place + b->hi <= a->place);
        }
    }
    assert_int_equal(c->arena, end);
    for (unsigned n = 0; n < c->nnodes; n++) {
        size_t sum = 0;
        for (unsigned i = 0; i < c->nslots; i++)
            if (c->slots[i].in_arena && c->slots[i].first <= n && n <= c->slots[i].last)
                sum += tidei_round_up(c->slots[i].hi, align);
        most = tidei_max_size(most, sum);
    }
    return most;
}

/* Nodes over placeholders of random sizes, some of them a library's call. */
static void draw_nodes(tide_runtime *rt, tidei_capture *c, tidei_storage **st, unsigned nst) {
    tidei_pool *pool = test_rt(rt)->devs[0].pool;
    for (unsigned i = 0; i < nst; i++) {
        const size_t bytes = below(8) ? 1 + below(5000) : below(3) * 4096u;
        assert_ok(i < 3 ? tidei_capture_give(c, pool, bytes, &st[i])
                        : tidei_capture_make(c, pool, bytes, "test", &st[i]));
    }
    for (unsigned n = 2 + below(40); n; n--) {
        tidei_use uses[4];
        unsigned k = 0, from = below(nst), wide = 1 + below(6);
        for (unsigned i = 0; i < 1 + below(4); i++) {
            tidei_storage *s = st[(from + below(wide)) % nst];
            const size_t lo = s->bytes ? below((unsigned)s->bytes) : 0;
            if (s->bytes) /* those without memory are left out by launches, and refused by calls */
                uses[k++] = (tidei_use){s, lo, 1 + below((unsigned)(s->bytes - lo)), 1 + below(3)};
        }
        assert_ok(below(8) || !k ? launch(c, uses, k)
                                 : tidei_capture_call(c, uses, k, call, "", 1, "test"));
    }
}

static void slots_that_live_together_share_nothing(void **state) {
    size_t took = 0, needed = 0;
    for (int round = 0; round < (test_quick() ? 200 : 2000); round++) {
        tidei_capture *c = begin(*state);
        tidei_storage *st[30];
        const unsigned nst = 4 + below(26);
        draw_nodes(*state, c, st, nst);
        end(*state, c);
        for (unsigned i = 0; i < nst; i++) tidei_storage_release(st[i]);
        assert_ok(tidei_capture_finish(c));
        const size_t most = check_places(c, c->dev->d->info.align);
        took += c->arena;
        needed += most;
        tidei_capture_drop(c);
    }
    assert_true((double)took < 1.2 * (double)needed);
}

/* a -> b -> c -> ...: each lies where the one before the last did. */
static void a_chain_takes_two_places(void **state) {
    tidei_capture *c = begin(*state);
    tidei_pool *pool = test_rt(*state)->devs[0].pool;
    tidei_storage *st[20];
    for (int i = 0; i < 20; i++)
        assert_ok(i < 19 ? tidei_capture_make(c, pool, 1000, "test", &st[i])
                         : tidei_capture_give(c, pool, 1000, &st[i]));
    for (int i = 0; i + 1 < 20; i++)
        assert_ok(launch(
            c, (tidei_use[]){{st[i], 0, 1000, TIDEI_READ}, {st[i + 1], 0, 1000, TIDEI_WRITE}}, 2));
    end(*state, c);
    for (int i = 0; i < 20; i++) tidei_storage_release(st[i]);
    assert_ok(tidei_capture_finish(c));
    assert_int_equal(c->arena, tidei_round_up(1000, c->dev->d->info.align) + 1000);
    tidei_capture_drop(c);
}

/* ---- what nobody reads ---- */

/* x -> a -> b, a -> c -> x, d -> e: b, and d with e, are for nobody. */
static void what_nobody_reads_is_left_out(void **state) {
    tidei_capture *c = begin(*state);
    tidei_pool *pool = test_rt(*state)->devs[0].pool;
    tidei_storage *x, *st[5];
    assert_ok(tidei_capture_give(c, pool, 64, &x));
    for (int i = 0; i < 5; i++)
        assert_ok(tidei_capture_make(c, pool, 1000u * (unsigned)(i + 1), "test", &st[i]));
    static const struct {
        int from, to; /* -1: x */
    } nodes[] = {{-1, 0}, {0, 1}, {0, 2}, {3, 3}, {3, 4}, {2, -1}};
    for (size_t i = 0; i < TIDEI_COUNT(nodes); i++) {
        tidei_storage *from = nodes[i].from < 0 ? x : st[nodes[i].from],
                      *to = nodes[i].to < 0 ? x : st[nodes[i].to];
        assert_ok(launch(
            c, (tidei_use[]){{from, 0, 64, TIDEI_READ}, {to, 0, to->bytes, TIDEI_WRITE}}, 2));
    }
    assert_ok(launch(c, (tidei_use[]){{x, 0, 8, TIDEI_READ}}, 1)); /* writes nothing: it stays */
    assert_ok(
        tidei_capture_call(c, (tidei_use[]){{st[4], 0, 8, TIDEI_WRITE}}, 1, call, "", 1, "test"));
    const tidei_graph_node *kept[] = {c->nodes[0], c->nodes[2], c->nodes[5], c->nodes[6]};
    end(*state, c);
    tidei_storage_release(x);
    for (int i = 0; i < 5; i++) tidei_storage_release(st[i]);
    assert_ok(tidei_capture_finish(c));
    assert_int_equal(c->nnodes, TIDEI_COUNT(kept));
    for (unsigned i = 0; i < c->nnodes; i++) assert_ptr_equal(c->nodes[i], kept[i]);
    static const bool lies[] = {false, true, false, true, false, false}; /* by slot, x the first */
    for (unsigned i = 0; i < c->nslots; i++) {
        assert_int_equal(c->slots[i].in_arena, lies[i]);
        assert_int_equal(c->slots[i].mode != 0, lies[i] || i == 0);
    }
    assert_int_equal(c->slots[1].last, 1);
    assert_int_equal(c->slots[3].first, 1);
    assert_int_equal(c->slots[3].last, 2);
    tidei_capture_drop(c);
}

/* By a model: a node is needed if it writes what is not made, or what a needed one behind it
** reads. */
static void what_is_left_out_is_read_by_nobody(void **state) {
    for (int round = 0; round < 300; round++) {
        tidei_capture *c = begin(*state);
        tidei_storage *st[12];
        draw_nodes(*state, c, st, TIDEI_COUNT(st));
        end(*state, c);
        bool needed[64] = {false};
        const tidei_graph_node *all[64];
        const unsigned n = c->nnodes;
        assert_true(n <= TIDEI_COUNT(all));
        memcpy(all, c->nodes, n * sizeof *all);
        unsigned count = 0;
        for (unsigned i = n; i-- > 0;) {
            bool writes = false;
            for (unsigned k = 0; k < all[i]->n; k++) {
                const tidei_graph_range *w = &all[i]->uses[k];
                if (!(w->mode & TIDEI_WRITE)) continue;
                writes = true;
                needed[i] |= c->slots[w->slot].kind != TIDEI_SLOT_MADE;
                for (unsigned j = i + 1; j < n; j++)
                    for (unsigned u = 0; needed[j] && u < all[j]->n; u++)
                        needed[i] |=
                            all[j]->uses[u].slot == w->slot && (all[j]->uses[u].mode & TIDEI_READ);
            }
            needed[i] |= !writes;
            count += needed[i];
        }
        for (size_t i = 0; i < TIDEI_COUNT(st); i++) tidei_storage_release(st[i]);
        assert_ok(tidei_capture_finish(c));
        assert_int_equal(c->nnodes, count);
        for (unsigned i = 0, k = 0; i < n; i++)
            if (needed[i]) assert_ptr_equal(c->nodes[k++], all[i]);
        tidei_capture_drop(c);
    }
}

/* ---- slots ---- */

static void a_slot_knows_its_uses(void **state) {
    tidei_capture *c = begin(*state);
    tidei_pool *pool = test_rt(*state)->devs[0].pool;
    tidei_storage *given, *made, *unused;
    assert_ok(tidei_capture_give(c, pool, 400, &given));
    assert_ok(tidei_capture_make(c, pool, 0, "test", &unused));
    assert_ok(tidei_capture_make(c, pool, 256, "test", &made));
    assert_ok(launch(c,
                     (tidei_use[]){{given, 16, 32, TIDEI_READ},
                                   {unused, 0, 0, TIDEI_READ},
                                   {made, 0, 256, TIDEI_WRITE}},
                     3));
    assert_ok(tidei_capture_fill(c, &(tidei_use){given, 64, 8, TIDEI_WRITE}, "x", 1, "test"));
    assert_ok(tidei_capture_copy(c, &(tidei_use){made, 0, 8, TIDEI_READ},
                                 &(tidei_use){given, 8, 8, TIDEI_WRITE}, "test"));
    end(*state, c);
    const tidei_slot *g = tidei_capture_slot(c, given), *m = tidei_capture_slot(c, made);
    assert_int_equal(c->nodes[0]->n, 2); /* what has no memory is not used */
    assert_int_equal(c->nodes[0]->at[1], 2 * sizeof(tidei_addr));
    assert_int_equal(g->lo, 8);
    assert_int_equal(g->hi, 72);
    assert_int_equal(g->mode, TIDEI_READ | TIDEI_WRITE);
    assert_int_equal(g->first, 0);
    assert_int_equal(g->last, 2);
    assert_int_equal(m->mode, TIDEI_READ | TIDEI_WRITE);
    assert_false(g->fixed || m->fixed);
    tidei_storage_release(given);
    tidei_storage_release(made);
    tidei_storage_release(unused);
    assert_ok(tidei_capture_finish(c));
    tidei_capture_drop(c);
}

/* ---- failures ---- */

static void the_first_failure_is_the_captures(void **state) {
    tidei_capture *c = begin(*state);
    tidei_storage *st;
    tidei_fail(TIDE_E_SHAPE, "first", "the first");
    assert_int_equal(tidei_capture_fail(c, TIDE_E_SHAPE), TIDE_E_SHAPE);
    tidei_fail(TIDE_E_IO, "second", "the second");
    tidei_capture_fail(c, TIDE_E_IO);
    tide_error_clear();
    assert_int_equal(tidei_capture_make(c, test_rt(*state)->devs[0].pool, 4, "test", &st),
                     TIDE_E_SHAPE);
    tide_error_clear();
    assert_int_equal(tidei_capture_end(tidei_thread_get(test_rt(*state)), c), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "the first");
    tidei_capture_drop(c);
}

/* Each draw begins where the one before it ended; afterwards the generator is where it was. */
static void draws_add_up_and_are_undone(void **state) {
    tidei_capture *c = begin(*state);
    tide_rng rng[2] = {{1, 100}, {2, 7}};
    uint64_t before;
    for (unsigned i = 0; i < 6; i++) {
        assert_ok(tidei_capture_draw(c, &rng[i % 2], 10, &before));
        rng[i % 2].counter += 10;
        assert_int_equal(before, i / 2 * 10);
    }
    end(*state, c);
    assert_int_equal(rng[0].counter, 100);
    assert_int_equal(rng[1].counter, 7);
    assert_int_equal(c->ndraws, 2);
    assert_int_equal(c->draws[0].taken, 30);
    tidei_capture_drop(c);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(slots_that_live_together_share_nothing),
        CASE(a_chain_takes_two_places),
        CASE(what_nobody_reads_is_left_out),
        CASE(what_is_left_out_is_read_by_nobody),
        CASE(a_slot_knows_its_uses),
        CASE(the_first_failure_is_the_captures),
        CASE(draws_add_up_and_are_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
