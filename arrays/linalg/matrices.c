/* matrices.c: operands as matrices (matrices.h). */
#include "arrays/expr/copy.h"
#include "arrays/layout.h"
#include "arrays/linalg/matrices.h"

bool tidei_as_stored(int64_t rows, int64_t cols, int64_t row, int64_t col, bool *trans,
                     int64_t *ld) {
    if ((col == 1 || cols == 1) && (rows == 1 || row >= cols)) {
        *trans = false;
        *ld = rows == 1 ? cols : row;
        return true;
    }
    if ((row == 1 || rows == 1) && (cols == 1 || col >= rows)) {
        *trans = true;
        *ld = cols == 1 ? rows : col;
        return true;
    }
    return false;
}

tidei_layout tidei_batch_of(const tidei_layout *l, int core) {
    tidei_layout b = *l;
    b.ndim = l->ndim > core ? l->ndim - core : 0;
    return b;
}

tide_status tidei_batch_join(const tidei_layout *l, int core, int *nbatch, int64_t *batch,
                             const char *op) {
    if (l->ndim <= core) return TIDE_OK;
    tidei_layout b = tidei_batch_of(l, core);
    return tidei_broadcast(nbatch, batch, &b, op);
}

void tidei_batch_strides(const tidei_layout *l, int core, int nbatch, const int64_t *batch,
                         int64_t *strides) {
    if (!nbatch) return;
    tidei_layout b = tidei_batch_of(l, core);
    tidei_broadcast_strides(&b, nbatch, batch, strides);
}

tide_status tidei_matrices_copy(const tidei_operand *o, int core, tide_dtype t, const char *op,
                                tidei_operand *out) {
    tidei_operand from = *o;
    for (int i = 0; i < from.lay.ndim - core; i++)
        if (from.lay.strides[i] == 0) from.lay.shape[i] = 1;
    tide_status s = tidei_operand_make(o->rt, t, from.lay.ndim, from.lay.shape, op, out);
    if (s != TIDE_OK) return s;
    s = tidei_store_elements(o->rt, out, &from, op);
    if (s != TIDE_OK) tidei_operand_put(out);
    return s;
}

tide_status tidei_ready(const tidei_operand *o, bool will_do, int core, tide_dtype t,
                        const char *op, tidei_readied *out) {
    out->o = will_do ? o : &out->copy;
    return will_do ? TIDE_OK : tidei_matrices_copy(o, core, t, op, &out->copy);
}

tide_status tidei_linalg_type(const tidei_operand *x, int n, const char *op, tide_dtype *out) {
    tide_dtype t = TIDE_F64;
    bool any = false;
    for (int i = 0; i < n; i++) {
        tide_dtype u = x[i].lay.dtype;
        tidei_kind kind = tidei_dtype_kind(u);
        if (u == TIDE_F16 || u == TIDE_BF16)
            return tidei_fail(
                TIDE_E_DTYPE, op,
                "linear algebra computes in f32, f64, c64 and c128, not in %s: cast it",
                tide_dtype_name(u));
        if (kind != TIDEI_KIND_FLOAT && kind != TIDEI_KIND_COMPLEX) continue;
        if (!any) t = u;
        tide_status s = t != u ? tidei_promote(t, u, op, &t) : TIDE_OK;
        if (s != TIDE_OK) return s;
        any = true;
    }
    *out = t;
    return TIDE_OK;
}
