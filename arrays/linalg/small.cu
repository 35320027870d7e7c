/* small.cu: factorizations of many small matrices, after small.h. Embedded as text
** (tidei_small_text).
**
** Model. A block has a matrix in its shared memory (tide_room), and takes one after the other; a
** block of a single warp may be p.teams teams, which have one each. A team's threads are groups of
** p.group threads in a row, within a warp. A column belongs to a group, the
** j-th to group j modulo their number; in it a row belongs to a thread, the i-th to thread i modulo
** p.group. Each step of a factorization has one column that all groups read: every group computes
** what it needs of it (a pivot, a norm) for itself, in the same order and so with the same result,
** and applies it to its own columns. Behind the barrier that ends the step nobody reads that column
** any more but its owner, who then brings it into its last form.
** What must stay true: shuffles and barriers of a warp are met by all of its threads, so the loops
** over columns have as many rounds for each group, and a team without a matrix at the end goes
** through the steps with whatever lies there; a thread writes its own rows alone, and reads
** others' in columns of its own group only before a barrier of the warp.
** The steps are those of LAPACK's unblocked routines (getf2, potf2, geqr2, org2r). */

#define SM_FN  static __device__ __forceinline__
#define SM_ALL 0xffffffffu

/* ---- numbers ---- */

template <class R> struct sm_complex {
    R re, im;
};

template <class T> struct sm_type;
template <> struct sm_type<float> {
    typedef float real;
};
template <> struct sm_type<double> {
    typedef double real;
};
template <class R> struct sm_type<sm_complex<R>> {
    typedef R real;
};

/* Sums of squares within these bounds lost nothing to overflow or underflow; `far` times what is
** too small for them is not, nor is what is too large by `far`. A number below `tiny` may have no
** reciprocal, and that of one above 1 / tiny may have lost bits or, of a complex one, be 0. */
template <class R> struct sm_range;
template <> struct sm_range<float> {
    SM_FN float least() { return 0x1p-70f; }
    SM_FN float most() { return 0x1p+112f; }
    SM_FN float far() { return 0x1p+90f; }
    SM_FN float tiny() { return 0x1p-120f; }
};
template <> struct sm_range<double> {
    SM_FN double least() { return 0x1p-900; }
    SM_FN double most() { return 0x1p+1000; }
    SM_FN double far() { return 0x1p+600; }
    SM_FN double tiny() { return 0x1p-1000; }
};

SM_FN float sm_re(float x) { return x; }
SM_FN double sm_re(double x) { return x; }
template <class R> SM_FN R sm_re(sm_complex<R> x) { return x.re; }
SM_FN float sm_im(float) { return 0; }
SM_FN double sm_im(double) { return 0; }
template <class R> SM_FN R sm_im(sm_complex<R> x) { return x.im; }

SM_FN void sm_set(float &to, float re, float) { to = re; }
SM_FN void sm_set(double &to, double re, double) { to = re; }
template <class R> SM_FN void sm_set(sm_complex<R> &to, R re, R im) { to.re = re, to.im = im; }
template <class T> SM_FN T sm_number(typename sm_type<T>::real re, typename sm_type<T>::real im) {
    T x;
    sm_set(x, re, im);
    return x;
}
template <class T> SM_FN T sm_zero() { return sm_number<T>(0, 0); }
template <class T> SM_FN T sm_conj(T x) { return sm_number<T>(sm_re(x), -sm_im(x)); }
template <class T> SM_FN T sm_minus(T x) { return sm_number<T>(-sm_re(x), -sm_im(x)); }
template <class T> SM_FN T sm_times(T x, typename sm_type<T>::real by) {
    return sm_number<T>(sm_re(x) * by, sm_im(x) * by);
}

/* z + x y */
SM_FN float sm_fma(float x, float y, float z) { return fma(x, y, z); }
SM_FN double sm_fma(double x, double y, double z) { return fma(x, y, z); }
template <class R>
SM_FN sm_complex<R> sm_fma(sm_complex<R> x, sm_complex<R> y, sm_complex<R> z) {
    z.re = fma(x.re, y.re, fma(-x.im, y.im, z.re));
    z.im = fma(x.re, y.im, fma(x.im, y.re, z.im));
    return z;
}
SM_FN float sm_product(float x, float y) { return x * y; }
SM_FN double sm_product(double x, double y) { return x * y; }
template <class R> SM_FN sm_complex<R> sm_product(sm_complex<R> x, sm_complex<R> y) {
    return sm_number<sm_complex<R>>(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

SM_FN float sm_quotient(float x, float y) { return x / y; }
SM_FN double sm_quotient(double x, double y) { return x / y; }
/* Smith's: no square of a part overflows. */
template <class R> SM_FN sm_complex<R> sm_quotient(sm_complex<R> x, sm_complex<R> y) {
    bool turned = fabs(y.re) < fabs(y.im);
    R large = turned ? y.im : y.re, little = turned ? y.re : y.im;
    R ratio = large == 0 ? 0 : little / large, divisor = fma(little, ratio, large);
    if (turned) return sm_number<sm_complex<R>>(fma(x.re, ratio, x.im) / divisor,
                                                fma(x.im, ratio, -x.re) / divisor);
    return sm_number<sm_complex<R>>(fma(x.im, ratio, x.re) / divisor,
                                    fma(-x.re, ratio, x.im) / divisor);
}
template <class T> SM_FN T sm_inverse(T x) { return sm_quotient(sm_number<T>(1, 0), x); }

/* What LAPACK compares to find a pivot. */
template <class T> SM_FN typename sm_type<T>::real sm_size(T x) {
    return fabs(sm_re(x)) + fabs(sm_im(x));
}
template <class T> SM_FN typename sm_type<T>::real sm_square(T x) {
    return fma(sm_re(x), sm_re(x), sm_im(x) * sm_im(x));
}

/* The sum over a group: the same bits for each of its threads. */
template <class R> SM_FN R sm_sum_of_reals(R x, int group) {
    for (int d = group / 2; d; d /= 2) x += __shfl_xor_sync(SM_ALL, x, d);
    return x;
}
SM_FN float sm_sum(float x, int group) { return sm_sum_of_reals(x, group); }
SM_FN double sm_sum(double x, int group) { return sm_sum_of_reals(x, group); }
template <class R> SM_FN sm_complex<R> sm_sum(sm_complex<R> x, int group) {
    return sm_number<sm_complex<R>>(sm_sum_of_reals(x.re, group), sm_sum_of_reals(x.im, group));
}

/* ---- threads, and a matrix among them ---- */

struct sm_place {
    int team, thread; /* the latter counted within the team, */
    int group, groups;
    int lane, lanes; /* and within the group */
};
SM_FN sm_place sm_place_of(const sm_params &p) {
    sm_place at;
    at.lanes = p.group;
    const int threads = blockDim.x / p.teams;
    at.team = threadIdx.x / threads;
    at.thread = threadIdx.x & (threads - 1);
    at.groups = threads / p.group;
    at.group = at.thread / p.group;
    at.lane = at.thread & (p.group - 1);
    return at;
}
SM_FN bool sm_owns_row(const sm_place &t, int i) { return (i & (t.lanes - 1)) == t.lane; }
SM_FN bool sm_owns_column(const sm_place &t, int j) { return (j & (t.groups - 1)) == t.group; }
/* The thread's first row from i on; the next is t.lanes further. */
SM_FN int sm_row_from(const sm_place &t, int i) { return i + ((t.lane - i) & (t.lanes - 1)); }
/* Where the round of columns begins that has column j. */
SM_FN int sm_round_of(const sm_place &t, int j) { return j & ~(t.groups - 1); }

extern "C" {
extern __shared__ __align__(16) char tide_room[];
}
template <class T> SM_FN T *sm_room(const sm_params &p, const sm_place &t) {
    return (T *)(tide_room + t.team * p.room);
}

/* The loop over what the block's teams take at once, from number `first` on. */
#define SM_EACH(first)                                                                             \
    for (long long first = (long long)blockIdx.x * p.teams; first < p.items;                       \
         first += (long long)gridDim.x * p.teams)

template <class T>
SM_FN void sm_load(T *s, int ld, const T *from, long long from_ld, int rows, int cols,
                   const sm_place &t) {
    for (int j = t.group; j < cols; j += t.groups)
        for (int i = t.lane; i < rows; i += t.lanes) s[i + j * ld] = from[i + j * from_ld];
}
template <class T>
SM_FN void sm_store(T *to, long long to_ld, const T *s, int ld, int rows, int cols,
                    const sm_place &t) {
    for (int j = t.group; j < cols; j += t.groups)
        for (int i = t.lane; i < rows; i += t.lanes) to[i + j * to_ld] = s[i + j * ld];
}

/* ---- LU ---- */

/* The row of the first greatest element of a column, from row k on. */
template <class T> SM_FN int sm_pivot(const T *column, const sm_place &t, int k, int m) {
    typename sm_type<T>::real best = -1;
    int at = k;
    for (int i = sm_row_from(t, k); i < m; i += t.lanes) {
        typename sm_type<T>::real size = sm_size(column[i]);
        if (size > best) best = size, at = i;
    }
    for (int d = t.lanes / 2; d; d /= 2) {
        typename sm_type<T>::real size = __shfl_xor_sync(SM_ALL, best, d);
        int other = __shfl_xor_sync(SM_ALL, at, d);
        if (size > best || (size == best && other < at)) best = size, at = other;
    }
    return at;
}

/* Element i of column k of L, before the rows k and `at` are exchanged; `was` is element k. The
** scale keeps the pivot's reciprocal within the range. */
template <class T> struct sm_multiplier {
    T inverse, was;
    typename sm_type<T>::real scale;
    int at;
};
template <class T> SM_FN sm_multiplier<T> sm_multiplier_of(const T *column, int k, int at) {
    typedef typename sm_type<T>::real R;
    sm_multiplier<T> l;
    T pivot = column[at];
    l.was = column[k];
    l.at = at;
    l.scale = sm_size(pivot) < sm_range<R>::tiny()       ? 1 / sm_range<R>::tiny()
              : sm_size(pivot) > 1 / sm_range<R>::tiny() ? sm_range<R>::tiny()
                                                         : (R)1;
    l.inverse = sm_size(pivot) == 0 ? sm_zero<T>() : sm_inverse(sm_times(pivot, l.scale));
    return l;
}
template <class T> SM_FN T sm_multiply(const sm_multiplier<T> &l, const T *column, int i) {
    return sm_product(sm_times(i == l.at ? l.was : column[i], l.scale), l.inverse);
}

/* Step k of a group's columns. */
template <class T>
SM_FN void sm_eliminate(T *s, const sm_params &p, const sm_place &t, const sm_multiplier<T> &l,
                        int k) {
    const T *column = s + k * p.ld;
    for (int first = 0; first < p.n; first += t.groups) {
        const int j = first + t.group;
        const bool mine = j < p.n && j != k;
        T *own = s + (mine ? j : k) * p.ld, up = own[l.at], down = own[k];
        __syncwarp();
        if (!mine) continue;
        if (sm_owns_row(t, k)) own[k] = up;
        if (j < k) {
            if (sm_owns_row(t, l.at) && l.at != k) own[l.at] = down;
            continue;
        }
        for (int i = sm_row_from(t, k + 1); i < p.m; i += t.lanes)
            own[i] = sm_fma(sm_minus(sm_multiply(l, column, i)), up, i == l.at ? down : own[i]);
    }
}

template <class T> SM_FN void sm_getrf(const sm_params &p) {
    const sm_place t = sm_place_of(p);
    T *const s = sm_room<T>(p, t);
    const int least = p.m < p.n ? p.m : p.n;
    SM_EACH(first) {
        const long long w = first + t.team;
        const bool there = w < p.items;
        int info = 0;
        if (there) sm_load(s, p.ld, (const T *)p.a + w * p.a_step, p.a_ld, p.m, p.n, t);
        __syncthreads();
        for (int k = 0; k < least; k++) {
            T *const column = s + k * p.ld;
            const int at = sm_pivot(column, t, k, p.m);
            const T pivot = column[at];
            const sm_multiplier<T> l = sm_multiplier_of(column, k, at);
            if (!info && sm_size(pivot) == 0) info = k + 1;
            sm_eliminate(s, p, t, l, k);
            if (there && t.thread == 0) {
                if (p.narrow)
                    ((int *)p.b)[w * p.b_step + k] = at + 1;
                else
                    ((long long *)p.b)[w * p.b_step + k] = at + 1;
            }
            __syncthreads();
            if (sm_owns_column(t, k)) {
                for (int i = sm_row_from(t, k + 1); i < p.m; i += t.lanes)
                    column[i] = sm_multiply(l, column, i);
                if (sm_owns_row(t, k)) column[k] = pivot;
            }
            __syncwarp();
        }
        __syncthreads();
        if (there) sm_store((T *)p.a + w * p.a_step, p.a_ld, s, p.ld, p.m, p.n, t);
        if (there && t.thread == 0) ((int *)p.info)[w] = info;
        __syncthreads();
    }
}

/* ---- systems ---- A team's first p.sides groups have a right side each; the others only load. */

/* x of L x = b, or of U x = b from the last row on: element (r, c) of the matrix is
** s[r * row + c * col]. */
template <class T>
SM_FN void sm_substitute(const T *s, int row, int col, int n, bool upwards, bool unit, T *x,
                         const sm_place &t) {
    for (int step = 0; step < n; step++) {
        const int i = upwards ? n - 1 - step : step;
        const T value = unit ? x[i] : sm_quotient(x[i], s[i * (row + col)]), less = sm_minus(value);
        const int from = upwards ? t.lane : sm_row_from(t, i + 1), end = upwards ? i : n;
        for (int r = from; r < end; r += t.lanes) x[r] = sm_fma(s[r * row + i * col], less, x[r]);
        __syncwarp();
        if (!unit && sm_owns_row(t, i)) x[i] = value;
    }
    __syncwarp();
}

template <class T> SM_FN void sm_exchange(T *x, const int *pivots, int n, bool backwards) {
    for (int step = 0; step < n; step++) {
        const int i = backwards ? n - 1 - step : step;
        const T was = x[i];
        x[i] = x[pivots[i]];
        x[pivots[i]] = was;
    }
}

template <class T> SM_FN void sm_getrs(const sm_params &p) {
    const sm_place t = sm_place_of(p);
    T *const s = sm_room<T>(p, t), *const sides = s + p.ld * p.n, *const x = sides + t.group * p.ld;
    int *const pivots = (int *)(sides + p.sides * p.ld);
    const bool solves = t.group < p.sides; /* as all of its warp */
    SM_EACH(begin) {
        const long long item = begin + t.team;
        const bool there = item < p.items;
        const long long w = kt_quotient(item, p.parts);
        const int first = (int)(item - w * p.parts) * p.sides;
        const int cols = p.k - first < p.sides ? p.k - first : p.sides;
        T *const c = (T *)p.c + w * p.c_step + first * p.c_ld;
        if (there) sm_load(s, p.ld, (const T *)p.a + w * p.a_step, p.a_ld, p.n, p.n, t);
        if (there) sm_load(sides, p.ld, c, p.c_ld, p.n, cols, t);
        for (int i = t.thread; there && i < p.n; i += t.groups * t.lanes)
            pivots[i] = (int)((const long long *)p.b)[w * p.b_step + i] - 1;
        __syncthreads();
        if (there && !p.trans && t.thread < cols)
            sm_exchange(sides + t.thread * p.ld, pivots, p.n, false);
        __syncthreads();
        /* the last part has fewer; groups beyond them solve for whatever lies there */
        const int row = p.trans ? p.ld : 1, col = p.trans ? 1 : p.ld;
        if (solves) sm_substitute(s, row, col, p.n, false, !p.trans, x, t);
        if (solves) sm_substitute(s, row, col, p.n, true, p.trans, x, t);
        __syncthreads();
        if (there && p.trans && t.thread < cols)
            sm_exchange(sides + t.thread * p.ld, pivots, p.n, true);
        __syncthreads();
        if (there) sm_store(c, p.c_ld, sides, p.ld, p.n, cols, t);
        __syncthreads();
    }
}

/* ---- Cholesky ---- By the lower triangle; an upper one is loaded as its adjoint. */

template <class T> SM_FN int sm_cholesky(T *s, const sm_params &p, const sm_place &t) {
    typedef typename sm_type<T>::real R;
    int info = 0; /* the first minor that is not positive, behind which nothing is a number */
    for (int k = 0; k < p.n; k++) {
        T *const column = s + k * p.ld;
        const R square = sm_re(column[k]), root = sqrt(square), inverse = 1 / root;
        if (!info && !(square > 0)) info = k + 1;
        for (int j = sm_round_of(t, k + 1) + t.group; j < p.n; j += t.groups) {
            if (j <= k) continue;
            const T by = sm_minus(sm_conj(sm_times(column[j], inverse)));
            T *const own = s + j * p.ld;
            for (int i = sm_row_from(t, j); i < p.n; i += t.lanes)
                own[i] = sm_fma(sm_times(column[i], inverse), by, own[i]);
        }
        __syncthreads();
        if (!sm_owns_column(t, k)) continue;
        for (int i = sm_row_from(t, k); i < p.n; i += t.lanes)
            column[i] = i == k ? sm_number<T>(root, 0) : sm_times(column[i], inverse);
    }
    return info;
}

template <class T> SM_FN void sm_potrf(const sm_params &p) {
    const sm_place t = sm_place_of(p);
    T *const s = sm_room<T>(p, t);
    SM_EACH(first) {
        const long long w = first + t.team;
        const bool there = w < p.items;
        T *const a = (T *)p.a + w * p.a_step;
        for (int j = t.group; there && j < p.n; j += t.groups)
            for (int i = t.lane; i < p.n; i += t.lanes) {
                const T x = a[i + j * p.a_ld];
                s[p.upper ? j + i * p.ld : i + j * p.ld] = p.upper ? sm_conj(x) : x;
            }
        __syncthreads();
        const int info = sm_cholesky(s, p, t);
        __syncthreads();
        for (int j = t.group; there && j < p.n; j += t.groups)
            for (int i = t.lane; i < p.n; i += t.lanes)
                if (p.upper ? i <= j : i >= j)
                    a[i + j * p.a_ld] = p.upper ? sm_conj(s[j + i * p.ld]) : s[i + j * p.ld];
        if (there && t.thread == 0) ((int *)p.info)[w] = info;
        __syncthreads();
    }
}

/* ---- QR ---- */

/* A reflection: I - tau v v^H, where v[k] is 1 and v[i] is a column's element, scaled twice. */
template <class T> struct sm_reflector {
    T tau, inverse;
    typename sm_type<T>::real scale, beta; /* beta: what element k becomes */
};
template <class T> SM_FN T sm_vector(const sm_reflector<T> &h, T x) {
    return sm_product(sm_times(x, h.scale), h.inverse);
}

template <class T>
SM_FN typename sm_type<T>::real sm_squares(const T *column, const sm_place &t, int from, int m,
                                           typename sm_type<T>::real scale) {
    typename sm_type<T>::real sum = 0;
    for (int i = sm_row_from(t, from); i < m; i += t.lanes)
        sum += sm_square(sm_times(column[i], scale));
    return sm_sum(sum, t.lanes);
}

template <class T>
SM_FN sm_reflector<T> sm_reflect(const T *column, const sm_place &t, int k, int m) {
    typedef typename sm_type<T>::real R;
    sm_reflector<T> h;
    T first = column[k];
    h.scale = 1;
    R below = sm_squares(column, t, k + 1, m, h.scale), all = below + sm_square(first);
    const bool lost = !(all > sm_range<R>::least() && all < sm_range<R>::most());
    if (__any_sync(SM_ALL, lost)) { /* another team's sum comes out as it was */
        if (lost) h.scale = all < 1 ? sm_range<R>::far() : 1 / sm_range<R>::far();
        first = sm_times(first, h.scale);
        below = sm_squares(column, t, k + 1, m, h.scale), all = below + sm_square(first);
    }
    h.tau = h.inverse = sm_zero<T>();
    h.beta = sm_re(column[k]);
    if (below == 0 && sm_im(first) == 0) return h;
    const R norm = sqrt(all), beta = sm_re(first) < 0 ? norm : -norm;
    h.tau = sm_number<T>((beta - sm_re(first)) / beta, -sm_im(first) / beta);
    h.inverse = sm_inverse(sm_number<T>(sm_re(first) - beta, sm_im(first)));
    h.beta = beta / h.scale;
    return h;
}

/* The reflection of a group's columns from `from` on, with `tau` for h's. */
template <class T>
SM_FN void sm_apply(T *s, const sm_params &p, const sm_place &t, const sm_reflector<T> &h, T tau,
                    int k, int from) {
    const T *const column = s + k * p.ld;
    for (int first = sm_round_of(t, from); first < p.n; first += t.groups) {
        const int j = first + t.group;
        const bool mine = j >= from && j < p.n;
        T *const own = s + (mine ? j : k) * p.ld;
        T sum = mine && sm_owns_row(t, k) ? own[k] : sm_zero<T>();
        for (int i = sm_row_from(t, k + 1); mine && i < p.m; i += t.lanes)
            sum = sm_fma(sm_conj(sm_vector(h, column[i])), own[i], sum);
        const T less = sm_minus(sm_product(tau, sm_sum(sum, t.lanes)));
        if (!mine) continue;
        if (sm_owns_row(t, k)) own[k] = sm_fma(sm_number<T>(1, 0), less, own[k]);
        for (int i = sm_row_from(t, k + 1); i < p.m; i += t.lanes)
            own[i] = sm_fma(sm_vector(h, column[i]), less, own[i]);
    }
}

template <class T> SM_FN void sm_geqrf(const sm_params &p) {
    const sm_place t = sm_place_of(p);
    T *const s = sm_room<T>(p, t);
    const int least = p.m < p.n ? p.m : p.n;
    SM_EACH(first) {
        const long long w = first + t.team;
        const bool there = w < p.items;
        if (there) sm_load(s, p.ld, (const T *)p.a + w * p.a_step, p.a_ld, p.m, p.n, t);
        __syncthreads();
        for (int k = 0; k < least; k++) {
            T *const column = s + k * p.ld;
            const sm_reflector<T> h = sm_reflect(column, t, k, p.m);
            sm_apply(s, p, t, h, sm_conj(h.tau), k, k + 1);
            if (there && t.thread == 0) ((T *)p.b)[w * p.b_step + k] = h.tau;
            __syncthreads();
            if (!sm_owns_column(t, k)) continue;
            for (int i = sm_row_from(t, k); i < p.m; i += t.lanes)
                column[i] = i == k ? sm_number<T>(h.beta, 0) : sm_vector(h, column[i]);
        }
        __syncthreads();
        if (there) sm_store((T *)p.a + w * p.a_step, p.a_ld, s, p.ld, p.m, p.n, t);
        __syncthreads();
    }
}

/* The columns without a reflector begin as the unit matrix's. */
template <class T> SM_FN void sm_orgqr(const sm_params &p) {
    const sm_place t = sm_place_of(p);
    T *const s = sm_room<T>(p, t);
    SM_EACH(first) {
        const long long w = first + t.team;
        const bool there = w < p.items;
        if (there) sm_load(s, p.ld, (const T *)p.a + w * p.a_step, p.a_ld, p.m, p.k, t);
        for (int j = p.k + t.group; j < p.n; j += t.groups)
            for (int i = t.lane; i < p.m; i += t.lanes) s[i + j * p.ld] = sm_number<T>(i == j, 0);
        __syncthreads();
        for (int k = p.k - 1; k >= 0; k--) {
            T *const column = s + k * p.ld;
            sm_reflector<T> h; /* whose vector is what lies there */
            h.tau = there ? ((const T *)p.b)[w * p.b_step + k] : sm_zero<T>();
            h.inverse = sm_number<T>(1, 0);
            h.scale = 1;
            sm_apply(s, p, t, h, h.tau, k, k + 1);
            __syncthreads();
            if (!sm_owns_column(t, k)) continue;
            for (int i = sm_row_from(t, 0); i < p.m; i += t.lanes)
                column[i] = i < k    ? sm_zero<T>()
                            : i == k ? sm_number<T>(1 - sm_re(h.tau), -sm_im(h.tau))
                                     : sm_minus(sm_product(h.tau, column[i]));
        }
        __syncthreads();
        if (there) sm_store((T *)p.a + w * p.a_step, p.a_ld, s, p.ld, p.m, p.n, t);
        __syncthreads();
    }
}

/* ---- kernels ---- */

#define SM_KERNEL(routine, name, T)                                                                \
    WANTED(small_##routine##_##name)                                                               \
    (extern "C" __global__ void __launch_bounds__(256) small_##routine##_##name(                   \
        const sm_params p) {                                                                       \
        kt_grid_wait();                                                                            \
        sm_##routine<T>(p);                                                                        \
    })
#define SM_KERNELS(routine)                                                                        \
    SM_KERNEL(routine, f32, float)                                                                 \
    SM_KERNEL(routine, f64, double)                                                                \
    SM_KERNEL(routine, c64, sm_complex<float>)                                                     \
    SM_KERNEL(routine, c128, sm_complex<double>)
SM_KERNELS(getrf)
SM_KERNELS(getrs)
SM_KERNELS(potrf)
SM_KERNELS(geqrf)
SM_KERNELS(orgqr)
