#include <tide/tide.h>
#include <tide/base.h>
#include <tide/runtime.h>
#include <tide/reclaim.h>
#include <tide/device.h>
#include <tide/pool.h>
#include <tide/array.h>
#include <tide/memory.h>
#include <tide/expr.h>
#include <tide/ops.h>
#include <tide/linalg.h>
#include <tide/random.h>
#include <tide/adapt.h>
#include <tide/batches.h>
#include <tide/collector.h>
#include <cstdio>
#include <memory>
#include <vector>
struct Rel {
    void operator()(tide_array *a) const { tide_release(a); }
};
using Arr = std::unique_ptr<tide_array, Rel>;
struct Layer {
    tide_data w, b[2];
};
struct Net {
    Layer l[3];
    int64_t n;
};
int main() {
    tide_config c{};
    c.struct_size = sizeof c;
    c.collector = "refcount";
    tide_runtime *rt = nullptr;
    if (tide_open(&c, &rt) != TIDE_OK) return 1;
    {
        const int64_t shape[] = {3, 4};
        Arr x(tide_ones(rt, TIDE_F32, 2, shape));
        Arr y(tide_map(rt, "(x, a, n, b, u) -> sum(x*a + n + b + u)", x.get(), 2.5f, 3, true, 7u));
        Arr z(tide_map(rt, "() -> 1"));
        Arr zz(tide_map(rt, "(c, f) -> where(c, f, 0)", 'c' > 'b', static_cast<short>(2)));
        std::printf("%g %g %g %s\n", tide_item_f64(y.get()), z ? tide_item_f64(z.get()) : -1,
                    tide_item_f64(zz.get()), tide_error_last()->message);
        tide_status s = tide_map_into(x.get(), "(x) -> x*2", x.get());
        static const tide_adapt_field lf[] = {TIDE_FIELD(Layer, w), TIDE_FIELD(Layer, b)};
        static const tide_adapt_field nf[] = {TIDE_FIELD_OF(Net, l, Layer, "Layer")};
        tide_adapt_rule r1{"Layer", sizeof(Layer), lf, 2, nullptr, nullptr},
            r2{"Net", sizeof(Net), nf, 1, nullptr, nullptr};
        if (tide_adapt_register(rt, &r1, NULL) || tide_adapt_register(rt, &r2, NULL)) return 2;
        Arr u(tide_to_memory(x.get(), TIDE_MEMORY_UNIFIED));
        tide_host_view v;
        if (tide_host_view_begin(u.get(), TIDE_READ, &v) == TIDE_OK) {
            std::printf("AT %g\n", static_cast<double>(TIDE_AT(float, &v, 1, 2)));
            s |= tide_host_view_end(&v);
        }
        tide_array *bad = nullptr;
        Arr n(tide_map(rt, "(x) -> x", bad));
        std::printf("null: %p %s %s; s %d\n", static_cast<void *>(n.get()),
                    tide_status_name(tide_error_last()->status), tide_error_last()->message, s);
    }
    tide_close(rt);
}
