/* sized.c: which sizes a struct of the caller's may have. The model stands in sized.h. */
#include "runtime/base/sized.h"

/* Such structs begin with a size_t, and nothing in them is aligned to more. */
#define ALIGN sizeof(size_t)

static tide_status refused(const tidei_sized *s, size_t given, const char *op, size_t below,
                           size_t above, size_t whole) {
    if (given > whole)
        return tidei_fail(TIDE_E_INVALID, op, "%s.struct_size is %zu; this library knows up to %zu",
                          s->name, given, whole);
    if (given < s->least)
        return tidei_fail(TIDE_E_INVALID, op,
                          "%s.struct_size is %zu; wanted: at least %zu, and %zu here", s->name,
                          given, s->least, whole);
    return tidei_fail(
        TIDE_E_INVALID, op,
        "%s.struct_size is %zu, inside a field: one ends at %zu, the next at %zu; wanted: "
        "sizeof(%s), which is %zu here",
        s->name, given, below, above, s->name, whole);
}

tide_status tidei_sized_check(const tidei_sized *s, size_t given, const char *op) {
    size_t below = 0, above = SIZE_MAX, last = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t end = s->ends[i];
        if (given >= s->least && (given == end || given == tidei_round_up(end, ALIGN)))
            return TIDE_OK;
        if (end < given) below = tidei_max_size(below, end);
        if (end > given) above = tidei_min_size(above, end);
        last = tidei_max_size(last, end);
    }
    return refused(s, given, op, below, above, tidei_round_up(last, ALIGN));
}
