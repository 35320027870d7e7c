/* solver_operands.c: what both sides of a factorization ask of its descriptor: its name, which
** memory it touches, and whether it makes sense. */
#include "libs/solver.h"
#include "runtime/base/dtype.h"

const char *tidei_lapack_name(const tidei_lapack *x) {
    static const char *const names[TIDEI_LAPACK_ROUTINES] = {
        [TIDEI_GETRF] = "getrf", [TIDEI_GETRS] = "getrs", [TIDEI_POTRF] = "potrf",
        [TIDEI_GEQRF] = "geqrf", [TIDEI_ORGQR] = "orgqr", [TIDEI_GESVD] = "gesvd",
        [TIDEI_SYEVD] = "syevd"};
    return names[x->routine];
}

/* One operand's matrices: a vector has one column. rows 0: the routine has no such operand. */
typedef struct span {
    const tidei_mats *at;
    int64_t rows, cols;
    tide_dtype dtype;
    unsigned mode;
} span;

/* The table of solver.h, in C. */
static void spans_of(const tidei_lapack *x, span s[4]) {
    const unsigned in = TIDEI_READ, out = TIDEI_WRITE, both = TIDEI_READ | TIDEI_WRITE;
    int64_t m = x->m, n = x->n, k = x->k, least = m < n ? m : n;
    tide_dtype t = x->dtype, real = tidei_real_of(t);
    bool vectors = x->job != 'N';
    s[0] = (span){&x->a, n, n, t, both};
    s[1] = s[2] = s[3] = (span){0};
    switch (x->routine) {
    case TIDEI_GETRF:
        s[0].rows = m;
        s[1] = (span){&x->b, least, 1, x->narrow ? TIDE_I32 : TIDE_I64, out};
        break;
    case TIDEI_GETRS:
        s[0].mode = in;
        s[1] = (span){&x->b, n, 1, TIDE_I64, in};
        s[2] = (span){&x->c, n, k, t, both};
        break;
    case TIDEI_POTRF: break;
    case TIDEI_GEQRF:
        s[0].rows = m;
        s[1] = (span){&x->b, least, 1, t, out};
        break;
    case TIDEI_ORGQR:
        s[0].rows = m;
        s[1] = (span){&x->b, k, 1, t, in};
        break;
    case TIDEI_GESVD:
        s[0].rows = m;
        s[1] = (span){&x->b, n, 1, real, out};
        if (vectors) s[2] = (span){&x->c, m, x->job == 'S' ? n : m, t, out};
        if (vectors) s[3] = (span){&x->d, n, n, t, out};
        break;
    default: s[1] = (span){&x->b, n, 1, real, out};
    }
}

static tidei_use use_of(const span *s, int64_t count) {
    size_t size = tide_dtype_size(s->dtype);
    int64_t elements = s->at->step * (count - 1) + s->at->ld * (s->cols - 1) + s->rows;
    return (tidei_use){.st = s->at->st,
                       .offset = (size_t)s->at->offset * size,
                       .bytes = (size_t)elements * size,
                       .mode = s->mode};
}

unsigned tidei_lapack_uses(const tidei_lapack *x, tidei_use uses[5], int at[5]) {
    span s[4];
    unsigned n = 0;
    spans_of(x, s);
    for (int i = 0; i < 4; i++) {
        if (!s[i].rows) continue;
        if (at) at[n] = i;
        uses[n++] = use_of(&s[i], x->count);
    }
    if (x->info) {
        if (at) at[n] = 4;
        uses[n++] = (tidei_use){x->info, 0, (size_t)x->count * sizeof(int32_t), TIDEI_WRITE};
    }
    return n;
}

bool tidei_lapack_valid(const tidei_lapack *x) {
    span s[4];
    bool rectangular = x->routine == TIDEI_GETRF || x->routine == TIDEI_GEQRF ||
                       x->routine == TIDEI_ORGQR || x->routine == TIDEI_GESVD;
    bool fails = x->routine == TIDEI_GETRF || x->routine == TIDEI_POTRF ||
                 x->routine == TIDEI_GESVD || x->routine == TIDEI_SYEVD;
    bool ok = x->n >= 1 && x->count >= 1 && (!rectangular || x->m >= 1) && (!fails || x->info);
    if (x->routine == TIDEI_GETRS) ok = ok && x->k >= 1;
    if (x->routine == TIDEI_ORGQR) ok = ok && x->k >= 1 && x->n <= x->m && x->k <= x->n;
    if (x->routine == TIDEI_GESVD)
        ok = ok && x->m >= x->n && (x->job == 'N' || x->job == 'S' || x->job == 'A');
    spans_of(x, s);
    for (int i = 0; i < 4 && ok; i++) {
        if (!s[i].rows) continue;
        ok = s[i].at->st && s[i].at->offset >= 0 && (i == 1 || s[i].at->ld >= s[i].rows) &&
             (x->count == 1 || s[i].at->step >= s[i].at->ld * (s[i].cols - 1) + s[i].rows);
    }
    return ok;
}
