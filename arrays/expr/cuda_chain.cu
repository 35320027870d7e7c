/* cuda_chain.cu: folds over rows and what hangs on them, in one kernel. Embedded as text
** (tidei_cuda_chain_text), after the program's own part, which gives
**   tide_form         0: a row is a few lanes' of a warp; 1: a block's, or that of tide_K blocks, a
**                     cluster; 2: rows run across memory, neighbouring threads work on neighbouring
**                     ones, 1 << p.shift of which are a group
**   tide_in_warp      a row's threads are lanes of one warp: always in form 0, never in form 1; in
**                     form 2 a warp then has one or more groups
**   tide_L            how many lanes these are; else 1
**   tide_nested       rows lie along more than one dimension
**   tide_V, tide_U    elements of a vector; vectors that a thread keeps of a row
**   tide_R            rows that a thread works on beside each other (form 0), else 1
**   tide_W            results of a thread: tide_R, or tide_V in form 2, where vectors lie across
**                     rows
**   tide_B, tide_M    threads of a block at most; blocks of a multiprocessor at least
**   tide_uneven       rows begin and end anywhere: vectors are those that lie within a row as a
**                     whole, and what is before and behind them goes alone, an element a lane.
**                     Addresses then count elements, else vectors
**   tide_carried      rows are short and lie one after the other: a thread has one by itself, of
**                     tide_U elements, and they move as whole vectors, by shared memory: tide_bring
**                     gets a block's rows, tide_pick an element; tide_lay puts one, tide_send a
**                     block's rows
**   tide_p            the parameters
**   tide_early        addresses of the inputs that are kept from the beginning: tide_first: of the
**                     first elements; tide_step, tide_goto, tide_skip move along kept dimensions,
**                     the row, the row by a thread's steps; tide_x: a vector of them; tide_get;
**                     tide_get_one: the first element of one; tide_behind: how many elements one is
**                     behind a boundary of a vector
**   tide_late         the same of inputs that only the last stage reads and that the cache keeps,
**                     being the same for all rows; tide_y
**   tide_outs         the same of results that have all elements; tide_z, tide_put_all,
**                     tide_put_one
**   tide_flats        offsets of what has one element a row, inputs and results; tide_first,
**                     tide_step
**   tide_u            the values of a row: such inputs, folds, what follows from both
**   tide_flat, tide_put_flat   read and write them
**   tide_stage<s>     fold: accumulators of this stage's folds, all over bodies that earlier stages
**                     settled the rest of; settle: computes what is known of a row by now; take:
**                     adds an element, and may put a value of it in the place of an input that is
**                     no longer needed; end: from accumulators to values. tide_stages: how many have
**                     folds
**   tide_share        computes reciprocals of values of the row by which results divide
**   tide_final        computes an element of each result
**   tide_final_shared the same, with quotients through these reciprocals, and whether all of them
**                     are right: `divides`
** Every thread loads all of its elements before it uses the first, and keeps them in registers: a
** row is read once. What must stay true: how elements are joined depends on the shape alone; and
** all threads of a row have the same values of it, since of two that are joined either may come
** first. */
struct tide_place {
    td_u32 lane, lanes;   /* among the threads of a row, in this block; how many they are */
    td_u32 across;        /* neighbouring lanes of a row are this many threads apart */
    td_u32 column;        /* rows before this one in its group (form 2) */
    td_u32 first;         /* of the block's vectors of a row */
    td_u32 row[tide_R];   /* in form 2 tide_V rows that lie side by side */
    td_u32 count[tide_R]; /* this thread's vectors of it; none beyond the last row */
    td_u32 head[tide_R];  /* its elements before its first vector */
    td_i32 alone[tide_R]; /* its element that this thread takes alone; negative: none */
};

/* A thread's vectors of a row that has so many. */
TD_FN void tide_divide(const tide_p &p, tide_place &at, int r, td_u32 vectors) {
    const td_u32 left = vectors <= at.first ? 0 : vectors - at.first,
                 all = at.row[r] >= p.rows ? 0 : left < p.part ? left : p.part;
    at.count[r] = all <= at.lane ? 0 : tide_carried ? tide_U : (all - at.lane - 1) / at.lanes + 1;
}

/* The same of a row that begins so many elements behind a boundary. There are as many lanes as
** there can be elements that go alone. */
TD_FN void tide_divide_uneven(const tide_p &p, tide_place &at, int r, td_u32 behind) {
    const td_u32 n = (td_u32)p.count, head = (tide_V - behind) % tide_V,
                 vectors = (n - head) / tide_V,
                 alone = at.lane < head ? at.lane : at.lane + vectors * tide_V;
    tide_divide(p, at, r, vectors);
    at.head[r] = head;
    at.alone[r] = at.first == 0 && at.row[r] < p.rows && alone < n ? (td_i32)alone : -1;
}

TD_FN tide_place tide_here(const tide_p &p) {
    const td_u32 t = threadIdx.x, block = blockIdx.x / tide_K, rank = blockIdx.x % tide_K;
    const td_u32 shift = tide_form == 2 ? p.shift : 0, lane = t >> shift,
                 lanes = blockDim.x >> shift;
    tide_place at;
    at.lanes = tide_in_warp ? tide_L : lanes;
    at.across = 1u << shift;
    at.lane = tide_in_warp ? lane % tide_L : lane;
    at.column = t & (at.across - 1);
    at.first = rank * p.part;
#pragma unroll
    for (int r = 0; r < tide_R; r++) {
        const td_u32 group = tide_in_warp ? (block * tide_R + r) * (lanes / tide_L) + lane / tide_L
                                          : block;
        at.row[r] = group * at.across + at.column;
        tide_divide(p, at, r, p.vectors);
        at.head[r] = 0;
        at.alone[r] = -1;
    }
    return at;
}

/* From the first row to row k. */
template <class Q> TD_FN void tide_locate(const tide_p &p, td_u32 k, Q &q) {
    if (tide_nested)
#pragma unroll 1
        for (td_u32 d = 0; d < p.last; d++) {
            const td_u32 over = tide_quotient(p.div[d], k);
            tide_step(p, d, k - over * p.div[d].d, q);
            k = over;
        }
    tide_step(p, tide_nested ? p.last : 0, k, q);
}

TD_FN bool tide_on(const tide_place &at, int r, int u) { return u < at.count[r]; }
/* The number within row r of element v of a thread's vector u. */
TD_FN td_u32 tide_number(const tide_place &at, int r, int u, int v) {
    const td_u32 i = at.first + at.lane + u * at.lanes;
    return tide_form == 2 ? i : at.head[r] + i * tide_V + v;
}
TD_FN td_i64 tide_linear(const tide_p &p, const tide_place &at, int r, int u, int v) {
    const td_i64 row = tide_form == 2 ? (td_i64)at.row[r] * tide_V + v : at.row[r];
    return row * p.count + tide_number(at, r, u, v);
}
TD_FN td_i64 tide_linear_alone(const tide_p &p, const tide_place &at, int r) {
    return (td_i64)at.row[r] * p.count + at.alone[r];
}

/* The number of the element that a thread's accumulator w took at this step (take). */
TD_FN td_i32 tide_settled(const tide_place &at, int w, td_i32 step) {
    if (tide_form == 2) return (td_i32)tide_number(at, 0, step, 0);
    if (tide_uneven && step == tide_U * tide_V) return at.alone[w];
    return (td_i32)tide_number(at, w, step / tide_V, step % tide_V);
}

/* How far a thread's first vector is within a row, and the others from each other, as offsets
** count. */
TD_FN td_u32 tide_begin(const tide_place &at, int r) {
    const td_u32 i = at.first + at.lane;
    return tide_uneven ? at.head[r] + i * tide_V : i;
}
TD_FN td_u32 tide_apart(const tide_place &at) {
    return tide_uneven ? at.lanes * tide_V : at.lanes;
}

/* ---- joining what the threads of a row have ---- */

/* What the lane has whose number differs in the bits of `by`. */
template <class ACC> TD_FN ACC tide_other(const ACC &a, td_u32 by) {
    constexpr int words = (sizeof(ACC) + 3) / 4;
    union {
        td_u32 w[words];
        ACC a;
    } mine, other;
    mine.w[words - 1] = 0;
    mine.a = a;
#pragma unroll
    for (int i = 0; i < words; i++) other.w[i] = __shfl_xor_sync(~0u, mine.w[i], by);
    return other.a;
}

/* Joins those of a warp that are `across` apart, up to `reach`. All lanes get it. */
template <class ACC>
TD_FN void tide_join_warp(const tide_place &at, td_u32 reach, ACC (&a)[tide_W]) {
#pragma unroll
    for (td_u32 by = 1; by < 32; by *= 2)
        if (by >= at.across && by < reach)
#pragma unroll
            for (int w = 0; w < tide_W; w++) a[w].join(tide_other(a[w], by));
}

/* The accumulators of a thread's rows, as they lie in shared memory: moved in whole vectors, or each
** access would meet few of the memory's banks (softmax of 4096 rows of 16384 bf16 across memory on
** an H200: 62 us of 219 were such accesses). */
template <class ACC> constexpr int tide_words = (tide_W * sizeof(ACC) + 3) / 4;
template <class ACC> union __align__(tide_words<ACC> % 4 == 0   ? 16
                                     : tide_words<ACC> % 2 == 0 ? 8
                                                                : 4) tide_accs {
    td_u32 w[tide_words<ACC>];
    ACC a[tide_W];
};
template <class ACC> TD_FN tide_accs<ACC> tide_accs_of(const ACC (&a)[tide_W]) {
    tide_accs<ACC> s;
    s.w[tide_words<ACC> - 1] = 0; /* bytes behind the last one are sent, too */
#pragma unroll
    for (int w = 0; w < tide_W; w++) s.a[w] = a[w];
    return s;
}

/* Joins what the warps of a block have, or in form 2 its threads that are a warp's length apart or
** more: by shared memory, in which each stage takes turns with the next, so that one barrier
** is enough. All threads get it. */
template <class ACC>
TD_FN void tide_join_block(const tide_p &p, const tide_place &at, ACC (&a)[tide_W],
                           tide_accs<ACC> *room) {
    const td_u32 t = threadIdx.x;
    const int same = tide_form == 1 ? 0 : p.shift < 5 ? p.shift : 5; /* log2 of rows in a warp */
    const td_u32 parts = same < 5 ? blockDim.x / 32 : at.lanes;
    if (parts == 1) {
        __syncwarp(); /* a room that others write is read before the next stage's comes */
        return;
    }
    /* as many lanes as there are parts, or all, read them */
    td_u32 lanes = 32 >> same;
    while (lanes / 2 >= parts) lanes /= 2;
    if ((t & 31) >> same == 0) room[(t / 32 << same) + (t & 31)] = tide_accs_of(a);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < tide_W; w++) a[w].start();
#pragma unroll 1
    for (td_u32 k = (t & 31) >> same & (lanes - 1); k < parts; k += lanes) {
        const tide_accs<ACC> other = room[k * at.across + at.column];
#pragma unroll
        for (int w = 0; w < tide_W; w++) a[w].join(other.a[w]);
    }
    tide_join_warp(at, lanes << same, a);
}

/* ---- what the blocks of a cluster have for each other ---- */

#if TIDE_K > 1
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1201
/* It goes to the receiver's memory and counts there as arrived (PTX's st.async). A barrier of the
** cluster would first have all that was written before seen by the whole device, which takes longer
** than the way. */
TD_FN td_u32 tide_mapped(const void *p, td_u32 rank) {
    td_u32 to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"((td_u32)__cvta_generic_to_shared(p)), "r"(rank));
    return to;
}
/* Before anything is sent: how many bytes are going to come. All blocks have met before they send,
** so that none comes earlier. */
TD_FN void tide_expect(td_u64 *arrived, td_u32 bytes) {
    const td_u32 at = (td_u32)__cvta_generic_to_shared(arrived);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(at), "r"(bytes)
                 : "memory");
}
TD_FN void tide_meet() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
TD_FN void tide_met() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/* As few messages as there can be: a receiver counts them one after the other. */
template <class ACC>
TD_FN void tide_send_to(td_u32 rank, tide_accs<ACC> *place, const tide_accs<ACC> &s,
                        td_u64 *arrived) {
    const td_u32 to = tide_mapped(place, rank), counts = tide_mapped(arrived, rank);
    constexpr int each = alignof(tide_accs<ACC>) / 4;
#pragma unroll
    for (int i = 0; i < tide_words<ACC>; i += each)
        if constexpr (each == 4)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], "
                         "{%1, %2, %3, %4}, [%5];"
                         :
                         : "r"(to + 4 * i), "r"(s.w[i]), "r"(s.w[i + 1]), "r"(s.w[i + 2]),
                           "r"(s.w[i + 3]), "r"(counts)
                         : "memory");
        else if constexpr (each == 2)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], "
                         "{%1, %2}, [%3];"
                         :
                         : "r"(to + 4 * i), "r"(s.w[i]), "r"(s.w[i + 1]), "r"(counts)
                         : "memory");
        else
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                         :
                         : "r"(to + 4 * i), "r"(s.w[i]), "r"(counts)
                         : "memory");
}
TD_FN void tide_all_sent() {}
TD_FN void tide_await(td_u64 *arrived) {
    const td_u32 at = (td_u32)__cvta_generic_to_shared(arrived);
    td_u32 done;
    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at)
                     : "memory");
    while (!done);
}
#else /* the same by the language's own means: the count falls to 0 */
TD_FN void tide_expect(td_u64 *arrived, td_u32 bytes) { *arrived = bytes; }
TD_FN void tide_meet() { __cluster_barrier_arrive(); }
TD_FN void tide_met() { __cluster_barrier_wait(); }
template <class ACC>
TD_FN void tide_send_to(td_u32 rank, tide_accs<ACC> *place, const tide_accs<ACC> &s,
                        td_u64 *arrived) {
    *(tide_accs<ACC> *)__cluster_map_shared_rank(place, rank) = s;
    __threadfence();
    atomicAdd((unsigned long long *)__cluster_map_shared_rank(arrived, rank),
              -(unsigned long long)sizeof s.w);
}
/* Emulated threads of a block take turns: one that waits lets none of them send. */
TD_FN void tide_all_sent() { __syncthreads(); }
TD_FN void tide_await(td_u64 *arrived) {
    while (atomicAdd((unsigned long long *)arrived, 0ull)) __nanosleep(64);
    __threadfence();
}
#endif

/* Where what a stage gets counts as arrived: behind its and the other stages' rooms. */
TD_FN td_u64 *tide_arrived(const tide_p &p, char *room, int stage) {
    return (td_u64 *)(room + 4 * p.room) + stage;
}

template <int S> TD_FN void tide_expect_from(const tide_p &p, td_u32 across, char *room) {
    if constexpr (S < tide_stages) {
        tide_expect(tide_arrived(p, room, S),
                    across * tide_K * sizeof(tide_accs<typename tide_stage<S>::fold>));
        tide_expect_from<S + 1>(p, across, room);
    }
}

/* Joins what came from the blocks, in the order of their ranks, `apart` from each other. */
template <class ACC>
TD_FN void tide_join_sent(const tide_accs<ACC> *from, td_u32 apart, tide_accs<ACC> &out) {
    out = from[0];
#pragma unroll
    for (td_u32 k = 1; k < tide_K; k++) {
        const tide_accs<ACC> other = from[k * apart];
#pragma unroll
        for (int w = 0; w < tide_W; w++) out.a[w].join(other.a[w]);
    }
}

/* Joins what the blocks of a cluster have. Each sends to all. A column's is joined by one thread,
** which tells the others: if all waited for it and joined it, they would keep shared memory from
** who computes (softmax of 4097 rows of 8190 across memory, by 16 blocks on an H200: 2179, 2568
** GB/s). */
template <class ACC>
TD_FN void tide_join_cluster(const tide_p &p, const tide_place &at, ACC (&a)[tide_W], char *place,
                             td_u64 *arrived) {
    tide_accs<ACC> *const room = (tide_accs<ACC> *)place;
    const td_u32 t = threadIdx.x, rank = blockIdx.x % tide_K;
    tide_accs<ACC> s = tide_accs_of(a);
    /* Where the columns are bytes a block may have fewer threads than that. A thread keeps its
    ** column: a block is whole rows of them. */
#pragma unroll 1
    for (td_u32 k = t; k < at.across * tide_K; k += blockDim.x)
        tide_send_to(k >> p.shift, room + rank * at.across + at.column, s, arrived);
    tide_all_sent();
    if (tide_form != 2 || t < at.across) {
        tide_await(arrived);
        tide_join_sent(room + at.column, at.across, s);
    }
    if (tide_form == 2) {
        if (t < at.across) room[t] = s; /* which no other thread reads before */
        __syncthreads();
        s = room[at.column];
    }
#pragma unroll
    for (int w = 0; w < tide_W; w++) a[w] = s.a[w];
}
#endif

/* ---- stages ---- */

struct tide_kept {
    tide_x x[tide_R][tide_U];
    tide_x one[tide_R]; /* its first element: what goes alone */
    tide_u u[tide_W];
};

/* Few threads of a block have an element alone, but most lanes of short rows. */
template <int S, class ACC>
TD_FN void tide_fold_alone(const tide_p &p, const tide_place &at, tide_kept &k,
                           ACC (&a)[tide_W]) {
#pragma unroll
    for (int r = 0; r < tide_R; r++) {
        const bool on = at.alone[r] >= 0;
        ACC lone;
        lone.start();
        if (tide_form == 0 || on)
            tide_stage<S>::take(p, k.u[r], tide_linear_alone(p, at, r), k.one[r], 0, on,
                                tide_U * tide_V, lone);
        lone.place(at, r);
        a[r].join(lone);
    }
}

template <int S, class ACC>
TD_FN void tide_fold_row(const tide_p &p, const tide_place &at, tide_kept &k, ACC (&a)[tide_W]) {
    /* two accumulators of a row, so that additions overlap */
    constexpr int chains = tide_W == 1 && tide_U * tide_V > 1 ? 2 : 1;
    ACC part[tide_W][chains];
#pragma unroll
    for (int w = 0; w < tide_W; w++)
#pragma unroll
        for (int c = 0; c < chains; c++) part[w][c].start();
#pragma unroll
    for (int r = 0; r < tide_R; r++)
#pragma unroll
        for (int u = 0; u < tide_U; u++) {
            const bool on = tide_on(at, r, u);
#pragma unroll
            for (int v = 0; v < tide_V; v++) {
                const int w = tide_form == 2 ? v : r, e = tide_form == 2 ? u : u * tide_V + v;
                tide_stage<S>::take(p, k.u[w], tide_linear(p, at, r, u, v), k.x[r][u], v, on, e,
                                    part[w][e % chains]);
            }
        }
#pragma unroll
    for (int w = 0; w < tide_W; w++) {
#pragma unroll
        for (int c = 0; c < chains; c++) part[w][c].place(at, w);
        a[w] = part[w][0];
        if (chains > 1) a[w].join(part[w][chains - 1]);
    }
    if (tide_uneven) tide_fold_alone<S>(p, at, k, a);
}

template <int S>
TD_FN void tide_stages_from(const tide_p &p, const tide_place &at, tide_kept &k, char *room) {
#pragma unroll
    for (int w = 0; w < tide_W; w++) tide_stage<S>::settle(p, k.u[w]);
    if constexpr (S < tide_stages) {
        typedef typename tide_stage<S>::fold ACC;
        ACC a[tide_W];
        tide_fold_row<S>(p, at, k, a);
        tide_join_warp(at, tide_in_warp ? at.across * tide_L : 32, a);
        if (!tide_in_warp) tide_join_block(p, at, a, (tide_accs<ACC> *)(room + (S % 2) * p.room));
#if TIDE_K > 1
        tide_join_cluster(p, at, a, room + (2 + S % 2) * p.room, tide_arrived(p, room, S));
#endif
#pragma unroll
        for (int w = 0; w < tide_W; w++) tide_stage<S>::end(p, a[w], k.u[w]);
        tide_stages_from<S + 1>(p, at, k, room);
    }
}

/* ---- results ---- */

/* The results of a vector of row r. */
TD_FN void tide_finish(const tide_p &p, const tide_place &at, const tide_kept &k, int r, int u,
                       const tide_y &y, tide_z &z) {
    bool divides = true;
#pragma unroll
    for (int v = 0; v < tide_V; v++)
        tide_final_shared(p, k.u[tide_form == 2 ? v : r], tide_linear(p, at, r, u, v), k.x[r][u], y,
                          v, z, divides);
    if (divides) return;
#pragma unroll
    for (int v = 0; v < tide_V; v++)
        tide_final(p, k.u[tide_form == 2 ? v : r], tide_linear(p, at, r, u, v), k.x[r][u], y, v, z);
}

/* ---- the whole ---- */

/* Copies n elements that a block has; all of a thread's are under way at once. */
template <class E> TD_FN void tide_carry(E *to, const E *from, td_u32 n) {
    constexpr int V = 16 / sizeof(E), M = (tide_U + V - 1) / V;
    const td_u32 t = threadIdx.x, alone = n / V * V + t;
    tide_vec<E, V> x[M];
#pragma unroll
    for (int i = 0; i < M; i++)
        if (t + i * blockDim.x < n / V) x[i] = tide_vectors<V>(from)[t + i * blockDim.x];
#pragma unroll
    for (int i = 0; i < M; i++)
        if (t + i * blockDim.x < n / V) tide_vectors<V>(to)[t + i * blockDim.x] = x[i];
    if (alone < n) to[alone] = from[alone];
}

/* Gets rows that are carried. */
TD_FN void tide_fetch_carried(const tide_p &p, const tide_place &at, tide_kept &k, char *room) {
    const td_u32 t = threadIdx.x, first = at.row[0] - t, left = p.rows - first;
    tide_bring(p, (td_i64)first * tide_U, (left < blockDim.x ? left : blockDim.x) * tide_U, room);
    __syncthreads();
#pragma unroll
    for (int u = 0; u < tide_U; u++) {
        k.x[0][u] = tide_x();
        if (tide_on(at, 0, u)) tide_pick(room, t * tide_U + u, k.x[0][u]);
    }
    __syncthreads(); /* results take the same room */
}

/* Puts results that are carried. */
TD_FN void tide_send_carried(const tide_p &p, const tide_place &at, const char *room) {
    const td_u32 first = at.row[0] - threadIdx.x, left = p.rows - first;
    __syncthreads();
    tide_send(p, (td_i64)first * tide_U, (left < blockDim.x ? left : blockDim.x) * tide_U, room);
}

TD_FN void tide_fetch(const tide_p &p, tide_place &at, tide_kept &k, char *room) {
    if (tide_carried) tide_fetch_carried(p, at, k, room);
#pragma unroll
    for (int r = 0; r < (tide_carried ? 0 : tide_R); r++) {
        tide_early q;
        tide_first(p, q);
        tide_locate(p, at.row[r], q);
        if (tide_uneven) {
            tide_early one = q;
            tide_divide_uneven(p, at, r, tide_behind(p, q));
            tide_goto(p, at.alone[r], one);
            if (at.alone[r] >= 0)
                tide_get_one(p, one, k.one[r]);
            else
                k.one[r] = tide_x();
        }
        tide_goto(p, tide_begin(at, r), q);
#pragma unroll
        for (int u = 0; u < tide_U; u++) {
            if (tide_on(at, r, u))
                tide_get(p, q, k.x[r][u]);
            else
                k.x[r][u] = tide_x();
            tide_skip(p, tide_apart(at), q);
        }
    }
#pragma unroll
    for (int r = 0; r < tide_R; r++) {
        tide_flats q;
        tide_first(p, q);
        tide_locate(p, at.row[r], q);
#pragma unroll
        for (int v = 0; v < (tide_form == 2 ? tide_V : 1); v++)
            if (at.row[r] < p.rows) tide_flat(p, q, v, k.u[tide_form == 2 ? v : r]);
    }
}

/* The results of an element that goes alone, whose row begins at `to`. */
TD_FN void tide_store_alone(const tide_p &p, const tide_place &at, const tide_kept &k, int r,
                            tide_outs to) {
    tide_late q;
    tide_y y;
    tide_z z;
    tide_first(p, q);
    tide_goto(p, at.alone[r], q);
    tide_goto(p, at.alone[r], to);
    tide_get_one(p, q, y);
    tide_final(p, k.u[r], tide_linear_alone(p, at, r), k.one[r], y, 0, z);
    tide_put_one(p, to, z);
}

TD_FN void tide_store(const tide_p &p, const tide_place &at, tide_kept &k, char *room) {
#pragma unroll
    for (int w = 0; w < tide_W; w++) tide_share(k.u[w]);
#pragma unroll
    for (int r = 0; r < tide_R; r++) {
        /* few at once, for they take registers beside what is kept */
        constexpr int some = !tide_has_late             ? tide_U
                             : tide_U * tide_V >= 32    ? 1
                             : tide_U < 2               ? tide_U
                                                        : 2;
        tide_late q;
        tide_outs to;
        tide_first(p, q);
        tide_first(p, to);
        tide_goto(p, tide_begin(at, r), q); /* the same in all rows, but for where vectors begin */
        tide_locate(p, at.row[r], to);
        if (tide_uneven && at.alone[r] >= 0) tide_store_alone(p, at, k, r, to);
        tide_goto(p, tide_begin(at, r), to);
#pragma unroll
        for (int first = 0; first < tide_U; first += some) {
            tide_y y[some];
#pragma unroll
            for (int i = 0; i < some; i++) {
                if (first + i < tide_U && tide_on(at, r, first + i)) tide_get(p, q, y[i]);
                tide_skip(p, tide_apart(at), q);
            }
#pragma unroll
            for (int i = 0; i < some; i++) {
                const int u = first + i;
                if (u < tide_U && tide_on(at, r, u)) {
                    tide_z z;
                    tide_finish(p, at, k, r, u, y[i], z);
                    if (tide_carried)
                        tide_lay(room, threadIdx.x * tide_U + u, z);
                    else
                        tide_put_all(p, to, z);
                }
                tide_skip(p, tide_apart(at), to);
            }
        }
        if (at.lane == 0 && at.first == 0 && at.row[r] < p.rows) {
            tide_flats flats;
            tide_first(p, flats);
            tide_locate(p, at.row[r], flats);
#pragma unroll
            for (int v = 0; v < (tide_form == 2 ? tide_V : 1); v++)
                tide_put_flat(p, flats, v, k.u[tide_form == 2 ? v : r]);
        }
    }
    if (tide_carried) tide_send_carried(p, at, room);
}

extern "C" __global__ void TIDE_CLUSTER __launch_bounds__(tide_B, tide_M)
    tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
    extern __shared__ __align__(16) char tide_room[];
    tide_place at = tide_here(p);
    tide_kept k;
#if TIDE_K > 1
    if (threadIdx.x == 0) tide_expect_from<0>(p, at.across, tide_room);
    tide_meet(); /* before one writes into another's memory, that has begun */
#endif
    tide_fetch(p, at, k, tide_room);
#if TIDE_K > 1
    tide_met();
#endif
    tide_stages_from<0>(p, at, k, tide_room);
    tide_store(p, at, k, tide_room);
}
