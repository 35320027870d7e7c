-- examples.lua: an example of each function of the Lua module that bind.py makes from tide-api.json,
-- for tide.help and docs/lua.md; functions.md has those of the others. Each begins at a line of three
-- dashes and the function's name, and is a program of its own, with `tide` at hand. What it prints
-- stands behind `-->`: tests/lua/examples.lua runs it and compares. The same in every Lua: so floats
-- are given as such where they are whole.
--- empty
local a = tide.empty({2, 3}, "f32")
a[{}] = 1
print(a:sum()) --> 6.0
--- zeros
print(tide.zeros({2, 3}, "i32"))
--> [[0 0 0]
-->  [0 0 0]]
--- ones
print(tide.ones(3)) --> [1. 1. 1.]
--- full
print(tide.full({2, 2}, 7, "u8"))
--> [[7 7]
-->  [7 7]]
--- npy_read
local path = os.tmpname()
tide.arange(4):npy_write(path)
print(tide.npy_read(path)) --> [0 1 2 3]
os.remove(path)
--- npy_write
local path = os.tmpname()
tide.array{1.5, 2.5}:npy_write(path)
print(tide.npy_read(path).dtype) --> f64
os.remove(path)
--- is_contiguous
local a = tide.zeros{2, 3}
print(a:is_contiguous(), a:transpose():is_contiguous()) --> true  false
--- is_freed
local a = tide.zeros(3)
a:free()
print(a:is_freed()) --> true
--- transpose
local a = tide.array{{1, 2, 3}, {4, 5, 6}}
print(a:transpose())
--> [[1 4]
-->  [2 5]
-->  [3 6]]
print(#a:transpose{2, 1}) --> 3
--- reshape
print(tide.arange(6):reshape{2, 3})
--> [[0 1 2]
-->  [3 4 5]]
print(#tide.arange(6):reshape{3, -1}) --> 3
--- broadcast_to
print(tide.array{1, 2}:broadcast_to{3, 2})
--> [[1 2]
-->  [1 2]
-->  [1 2]]
--- expand_dims
print(tide.array{1, 2}:expand_dims(2))
--> [[1]
-->  [2]]
--- squeeze
print(tide.array{{1, 2}}:squeeze(1)) --> [1 2]
--- copy
local a = tide.array{1, 2}
local b = a:copy()
b[1] = 5
print(a, b) --> [1 2]  [5 2]
--- contiguous
local columns = tide.array{{1, 2}, {3, 4}}:transpose()
print(columns:contiguous():is_contiguous()) --> true
--- cast
print(tide.array{1.7, -1.7}:cast("i32")) --> [ 1 -1]
--- assign
local a = tide.zeros({2, 2}, "i64")
a[1]:assign{1, 2}
print(a)
--> [[1 2]
-->  [0 0]]
--- fill
print(tide.zeros({3}, "i64"):fill(4)) --> [4 4 4]
--- set_ordered
local a = tide.zeros(3):set_ordered(false)
tide.synchronize()
a:set_ordered(true)
--- memset
print(tide.zeros({2}, "u16"):memset(1)) --> [257 257]
--- take
local a = tide.array{10, 20, 30}
print(a:take{3, 1, 1}) --> [30 10 10]
print(tide.array{{1, 2}, {3, 4}}:take({2}, 2))
--> [[2]
-->  [4]]
--- concat
print(tide.concat({tide.array{1, 2}, tide.array{3}}, 1)) --> [1 2 3]
--- add
print(tide.add(tide.array{1, 2}, 10), tide.array{1, 2} + 10) --> [11 12]  [11 12]
--- sub
print(tide.sub(10, tide.array{1, 2}), 10 - tide.array{1, 2}) --> [9 8]  [9 8]
--- mul
print(tide.array{1, 2}:mul(tide.array{3, 4}), tide.array{1, 2} * 3) --> [3 8]  [3 6]
--- div
print(tide.array{1, 2}:div(2), tide.array{1, 2} / 2) --> [0.5 1. ]  [0.5 1. ]
--- floordiv
print(tide.array{7, -7}:floordiv(2)) -- from Lua 5.3 on: a // 2
--> [ 3 -4]
--- rem
print(tide.array{7, -7}:rem(4), tide.array{7, -7} % 4) --> [3 1]  [3 1]
--- truncdiv
print(tide.array{7, -7}:truncdiv(2)) --> [ 3 -3]
--- fmod
print(tide.array{7, -7}:fmod(4)) --> [ 3 -3]
--- pow
print(tide.array{2, 3}:pow(2), tide.array{2, 3} ^ 2) --> [4 9]  [4 9]
--- maximum
print(tide.array{1, 5}:maximum(3)) --> [3 5]
--- minimum
print(tide.array{1, 5}:minimum(3)) --> [1 3]
--- atan2
print(tide.array{1.0, -1.0}:cast("f64"):atan2(0.5)) --> [ 1.10714872 -1.10714872]
--- hypot
print(tide.array({3, 5}, "f64"):hypot(tide.array({4, 12}, "f64"))) --> [ 5. 13.]
--- copysign
print(tide.array({1, 2}, "f64"):copysign(-0.5)) --> [-1. -2.]
--- nextafter
print(tide.array({1}, "f64"):nextafter(2.5):gt(1)) --> [ True]
--- ldexp
print(tide.array{1.5, 2.5}:ldexp(3)) --> [12. 20.]
--- logaddexp
print(tide.array({0, 1000}, "f64"):logaddexp(1000.5)) --> [1000.5        1000.97407698]
--- gcd
print(tide.array{12, 18}:gcd(8)) --> [4 2]
--- neg
print(tide.array{1, -2}:neg(), -tide.array{1, -2}) --> [-1  2]  [-1  2]
--- abs
print(tide.array{1, -2}:abs()) --> [1 2]
--- sign
print(tide.array{3, 0, -2}:sign()) --> [ 1  0 -1]
--- square
print(tide.array{3, -2}:square()) --> [9 4]
--- reciprocal
print(tide.array{2, 4}:reciprocal()) --> [0.5  0.25]
--- mantissa
print(tide.array({6, 0.75}, "f64"):mantissa()) --> [0.75 0.75]
--- exponent
print(tide.array({6, 0.75}, "f64"):exponent()) --> [3 0]
--- real
print(tide.array({1, 2}, "c128"):real()) --> [1. 2.]
--- imag
print(tide.array({1, 2}, "f64"):complex(0.5):imag()) --> [0.5 0.5]
--- conj
print(tide.array({1, 2}, "f64"):complex(0.5):conj()) --> [1.-0.5j 2.-0.5j]
--- complex
print(tide.array({1, 2}, "f64"):complex(0.5)) --> [1.+0.5j 2.+0.5j]
--- angle
print(tide.array({0, 2}, "f64"):complex(0.5):angle()) --> [1.57079633 0.24497866]
--- eq
print(tide.array{1, 2}:eq(2)) --> [False  True]
--- ne
print(tide.array{1, 2}:ne(2)) --> [ True False]
--- lt
print(tide.array{1, 2, 3}:lt(2)) --> [ True False False]
--- le
print(tide.array{1, 2, 3}:le(2)) --> [ True  True False]
--- gt
print(tide.array{1, 2, 3}:gt(2)) --> [False False  True]
--- ge
print(tide.array{1, 2, 3}:ge(2)) --> [False  True  True]
--- isnan
print(tide.array{1.5, 0 / 0}:isnan()) --> [False  True]
--- isinf
print(tide.array{1.5, 1 / 0}:isinf()) --> [False  True]
--- isfinite
print(tide.array{1.5, 1 / 0}:isfinite()) --> [ True False]
--- signbit
print(tide.array{1.5, -1.5}:signbit()) --> [False  True]
--- logical_and
print(tide.array{true, false}:logical_and(true)) --> [ True False]
--- logical_or
print(tide.array{true, false}:logical_or(false)) --> [ True False]
--- logical_xor
print(tide.array{true, false}:logical_xor(true)) --> [False  True]
--- logical_not
print(tide.array{true, false}:logical_not()) --> [False  True]
--- bit_and
print(tide.array{6, 3}:bit_and(5)) -- from Lua 5.3 on: a & 5
--> [4 1]
--- bit_or
print(tide.array{6, 3}:bit_or(8)) -- from Lua 5.3 on: a | 8
--> [14 11]
--- bit_xor
print(tide.array{6, 3}:bit_xor(1)) -- from Lua 5.3 on: a ~ 1
--> [7 2]
--- bit_not
print(tide.array{0, 1}:bit_not()) -- from Lua 5.3 on: ~a
--> [-1 -2]
--- shl
print(tide.array{1, 3}:shl(4)) -- from Lua 5.3 on: a << 4
--> [16 48]
--- shr
print(tide.array{16, -16}:shr(2)) -- from Lua 5.3 on: a >> 2
--> [ 4 -4]
--- popcount
print(tide.array{7, 8}:popcount()) --> [3 1]
--- floor
print(tide.array{1.5, -1.5}:floor()) --> [ 1. -2.]
--- ceil
print(tide.array{1.5, -1.5}:ceil()) --> [ 2. -1.]
--- trunc
print(tide.array{1.5, -1.5}:trunc()) --> [ 1. -1.]
--- round
print(tide.array{0.5, 1.5, 2.4}:round()) --> [0. 2. 2.]
--- sqrt
print(tide.array({4, 2}, "f64"):sqrt()) --> [2.         1.41421356]
--- exp
print(tide.array({0, 1}, "f64"):exp()) --> [1.         2.71828183]
--- expm1
print(tide.array{1e-12}:expm1()) --> [1.e-12]
--- exp2
print(tide.array({3, 0.5}, "f64"):exp2()) --> [8.         1.41421356]
--- log
print(tide.array({1, 10}, "f64"):log()) --> [0.         2.30258509]
--- log1p
print(tide.array{1e-12}:log1p()) --> [1.e-12]
--- log2
print(tide.array({8, 0.5}, "f64"):log2()) --> [ 3. -1.]
--- log10
print(tide.array({1000, 0.1}, "f64"):log10()) --> [ 3. -1.]
--- sin
print(tide.array{0.5, 1.5}:sin()) --> [0.47942554 0.99749499]
--- cos
print(tide.array{0.5, 1.5}:cos()) --> [0.87758256 0.0707372 ]
--- tan
print(tide.array{0.5, 1.5}:tan()) --> [ 0.54630249 14.10141995]
--- asin
print(tide.array{0.5, -0.5}:asin()) --> [ 0.52359878 -0.52359878]
--- acos
print(tide.array{0.5, -0.5}:acos()) --> [1.04719755 2.0943951 ]
--- atan
print(tide.array{0.5, 1.5}:atan()) --> [0.46364761 0.98279372]
--- sinh
print(tide.array{0.5, 1.5}:sinh()) --> [0.52109531 2.12927946]
--- cosh
print(tide.array{0.5, 1.5}:cosh()) --> [1.12762597 2.35240962]
--- tanh
print(tide.array{0.5, 1.5}:tanh()) --> [0.46211716 0.90514825]
--- asinh
print(tide.array{0.5, 1.5}:asinh()) --> [0.48121183 1.19476322]
--- acosh
print(tide.array{1.5, 2.5}:acosh()) --> [0.96242365 1.56679924]
--- atanh
print(tide.array{0.5, -0.5}:atanh()) --> [ 0.54930614 -0.54930614]
--- erf
print(tide.array{0.5, 1.5}:erf()) --> [0.52049988 0.96610515]
--- erfc
print(tide.array{0.5, 10.5}:erfc()) --> [4.79500122e-01 7.03592809e-50]
--- erfinv
print(tide.array{0.5, -0.5}:erfinv()) --> [ 0.47693628 -0.47693628]
--- norm_cdf
print(tide.array{-1.96, 1.96}:norm_cdf()) --> [0.0249979 0.9750021]
--- norm_ppf
print(tide.array{0.025, 0.975}:norm_ppf()) --> [-1.95996398  1.95996398]
--- lgamma
print(tide.array({4, 0.5}, "f64"):lgamma()) --> [1.79175947 0.57236494]
--- digamma
print(tide.array({1, 2}, "f64"):digamma()) --> [-0.57721566  0.42278434]
--- sinc
print(tide.array{0.5, 1.5}:sinc()) --> [ 0.63661977 -0.21220659]
--- where
local a = tide.array{1, -2, 3}
print(tide.where(a:gt(0), a, 0)) --> [1 0 3]
--- clip
print(tide.array{-5, 0, 5}:clip(-1, 1)) --> [-1  0  1]
--- sum
local a = tide.array{{1, 2}, {3, 4}}
print(a:sum(), a:sum(1), a:sum{axis = 2, keepdims = true}.shape[2]) --> 10  [4 6]  1
--- prod
print(tide.array{{1, 2}, {3, 4}}:prod(2)) --> [ 2 12]
--- min
print(tide.array{{4, 2}, {3, 1}}:min(1)) --> [3 1]
--- max
print(tide.array{{4, 2}, {3, 1}}:max{axis = {1, 2}}) --> 4
--- mean
print(tide.array{{1, 2}, {3, 4}}:mean(1)) --> [2. 3.]
--- any
print(tide.array{{0, 0}, {0, 1}}:any(2)) --> [False  True]
--- all
print(tide.array{{1, 0}, {1, 1}}:all(2)) --> [False  True]
--- argmin
print(tide.array{4, 1, 3}:argmin()) --> 2
--- argmax
local a = tide.array{{4, 1}, {3, 9}}
print(a:argmax(2)) --> [1 2]
--- var
print(tide.array{1, 2, 3, 4}:var(), tide.array{1, 2, 3, 4}:var{correction = 1})
--> 1.25  1.6666666666666667
--- std
print(tide.array{1, 3}:std()) --> 1.0
--- matmul
local a = tide.array{{1, 2}, {3, 4}}
print(a:matmul(a), a:matmul{1, 1})
--> [[ 7 10]
-->  [15 22]]  [3 7]
--- linear
local x, w, b = tide.array({{1, 2}}, "f32"), tide.array({{3, -4}, {5, 1}}, "f32"), tide.array({1, 1}, "f32")
print(tide.linear(x, w, b), x:linear(w, b, "relu")) --> [[14. -1.]]  [[14.  0.]]
--- take_along_axis
local a = tide.array{{30, 10, 20}, {5, 6, 4}}
print(a:take_along_axis(a:argsort(2), 2))
--> [[10 20 30]
-->  [ 4  5  6]]
--- put_along_axis
local a = tide.zeros({2, 3}, "i64")
print(a:put_along_axis(tide.array{{2}, {3}}, 2, 7))
--> [[0 7 0]
-->  [0 0 7]]
--- repeated
print(tide.array{1, 2}:repeated(2)) --> [1 1 2 2]
--- repeat_each
print(tide.array{1, 2}:repeat_each(tide.array{1, 3})) --> [1 2 2 2]
--- scatter_put
print(tide.zeros({4}, "i64"):scatter_put({2, 4}, 1, {7, 8})) --> [0 7 0 8]
--- scatter_add
print(tide.zeros({3}, "i64"):scatter_add({1, 1, 3}, 1, {10, 20, 30})) --> [30  0 30]
--- scatter_mul
print(tide.ones({3}, "i64"):scatter_mul({1, 1, 3}, 1, {2, 3, 4})) --> [6 1 4]
--- scatter_min
print(tide.full({3}, 9, "i64"):scatter_min({1, 1, 3}, 1, {5, 4, 12})) --> [4 9 9]
--- scatter_max
print(tide.zeros({3}, "i64"):scatter_max({1, 1, 3}, 1, {5, 4, 12})) --> [ 5  0 12]
--- segment_sum
print(tide.array{1, 2, 3, 4}:segment_sum(tide.array{1, 2, 1, 2}, 2)) --> [4 6]
--- segment_mean
print(tide.array{1, 2, 3, 4}:segment_mean(tide.array{1, 2, 1, 2}, 2)) --> [2. 3.]
--- segment_min
print(tide.array{1, 2, 3, 4}:segment_min(tide.array{1, 2, 1, 2}, 2)) --> [1 2]
--- segment_max
print(tide.array{1, 2, 3, 4}:segment_max(tide.array{1, 2, 1, 2}, 2)) --> [3 4]
--- segment_sum_offsets
print(tide.array{1, 2, 3, 4}:segment_sum_offsets{1, 2, 5}) --> [1 9]
--- segment_mean_offsets
print(tide.array{1, 2, 3, 4}:segment_mean_offsets{1, 2, 5}) --> [1. 3.]
--- segment_min_offsets
print(tide.array{1, 2, 3, 4}:segment_min_offsets{1, 2, 5}) --> [1 2]
--- segment_max_offsets
print(tide.array{1, 2, 3, 4}:segment_max_offsets{1, 2, 5}) --> [1 4]
--- flip
print(tide.array{{1, 2}, {3, 4}}:flip(1))
--> [[3 4]
-->  [1 2]]
--- moveaxis
print(table.concat(tide.zeros{2, 3, 4}:moveaxis(1, 3).shape, " ")) --> 3 4 2
--- diagonal
local a = tide.array{{1, 2}, {3, 4}}
a:diagonal():fill(0)
print(a)
--> [[0 2]
-->  [3 0]]
--- windows
print(tide.arange(5):windows(1, 3))
--> [[0 1 2]
-->  [1 2 3]
-->  [2 3 4]]
--- reshape_with
print(tide.arange(4):reshape_with({2, 2}, "never"))
--> [[0 1]
-->  [2 3]]
--- unstack
local first, second = (table.unpack or unpack)(tide.array{{1, 2}, {3, 4}}:unstack(1))
print(first, second) --> [1 2]  [3 4]
--- split
local parts = tide.arange(5):split{parts = 2}
print(parts[1], parts[2]) --> [0 1 2]  [3 4]
print(tide.arange(5):split({2})[2]) --> [1 2 3 4]
--- broadcast_arrays
local both = tide.broadcast_arrays{tide.array{1, 2}, tide.array{{3}, {4}}}
print(both[1])
--> [[1 2]
-->  [1 2]]
--- meshgrid
local grid = tide.meshgrid({tide.array{1, 2}, tide.array{3, 4}}, "ij")
print(grid[1], grid[2])
--> [[1 1]
-->  [2 2]]  [[3 4]
-->  [3 4]]
--- roll
print(tide.arange(5):roll(2)) --> [3 4 0 1 2]
--- pad
print(tide.array{1, 2}:pad(1, 2), tide.array{1, 2, 3}:pad(2, 0, "reflect"))
--> [0 1 2 0 0]  [3 2 1 2 3]
--- stack
print(tide.stack({tide.array{1, 2}, tide.array{3, 4}}, 1))
--> [[1 2]
-->  [3 4]]
--- tile
print(tide.array{1, 2}:tile(2)) --> [1 2 1 2]
--- tril
print(tide.array{{1, 2}, {3, 4}}:tril())
--> [[1 0]
-->  [3 4]]
--- triu
print(tide.array{{1, 2}, {3, 4}}:triu(1))
--> [[0 2]
-->  [0 0]]
--- eye
print(tide.eye(2, 3, 1, "i32"))
--> [[0 1 0]
-->  [0 0 1]]
--- empty_like
print(tide.zeros({2, 3}, "i8"):empty_like().dtype) --> i8
--- zeros_like
print(tide.array{1, 2}:zeros_like()) --> [0 0]
--- ones_like
print(tide.array{1, 2}:ones_like()) --> [1 1]
--- full_like
print(tide.array{1, 2}:full_like(7)) --> [7 7]
--- linspace
print(tide.linspace(0, 1, 5)) --> [0.   0.25 0.5  0.75 1.  ]
--- logspace
print(tide.logspace(0, 3, 4)) --> [   1.   10.  100. 1000.]
--- diff
print(tide.array{1, 4, 9}:diff(), tide.array{1, 4, 9}:diff(2)) --> [3 5]  [2]
--- trapezoid
print(tide.array({1, 2, 3}, "f64"):trapezoid(0.5)) --> 2.0
--- sort
print(tide.array{3, 1, 2}:sort(), tide.array{3, 1, 2}:sort{descending = true})
--> [1 2 3]  [3 2 1]
--- argsort
local a = tide.array{3, 1, 2}
local places = a:argsort()
print(places, a[places]) --> [2 3 1]  [1 2 3]
--- sort_both
print(tide.array{3, 1, 2}:sort_both()) --> [1 2 3]  [2 3 1]
--- partition
print(tide.array{3, 1, 2}:partition(2)[2]) --> 2
--- argpartition
print(tide.array{3, 1, 2}:argpartition(1)[1]) --> 2
--- topk
local values, places = tide.array{3, 1, 2}:topk(2)
print(values, places) --> [3 2]  [1 3]
--- lexsort
print(tide.lexsort{tide.array{1, 0, 1}, tide.array{2, 9, 1}}) --> [2 3 1]
--- searchsorted
print(tide.array{10, 20, 30}:searchsorted{5, 20, 35}) --> [1 2 4]
--- isin
print(tide.array{1, 2, 3}:isin{2, 5}) --> [False  True False]
--- unique_values
print(tide.array{3, 1, 3}:unique_values()) --> [1 3]
--- unique_counts
print(tide.array{3, 1, 3}:unique_counts()) --> [1 3]  [1 2]
--- unique_inverse
local values, places = tide.array{3, 1, 3}:unique_inverse()
print(values[places]) --> [3 1 3]
--- unique_all
local values, first, inverse, counts = tide.array{3, 1, 3}:unique_all()
print(values, first, inverse, counts) --> [1 3]  [2 1]  [2 1 2]  [1 2]
--- median
print(tide.array{4, 1, 3, 2}:median()) --> 2.5
--- quantile
print(tide.array({0, 1, 2, 3}, "f64"):quantile{0.5, 0.9}) --> [1.5 2.7]
--- histogram
local counts, edges = tide.array{0.5, 1.5, 1.7}:histogram(2, 0, 2)
print(counts, edges) --> [1 2]  [0. 1. 2.]
--- bincount
print(tide.array{0, 2, 2}:bincount{bins = 3}) --> [1 0 2]
--- cumsum
print(tide.array{1, 2, 3}:cumsum(), tide.array{1, 2, 3}:cumsum{flags = "reverse"})
--> [1 3 6]  [6 5 3]
--- cumprod
print(tide.array{1, 2, 3}:cumprod()) --> [1 2 6]
--- cummin
print(tide.array{3, 1, 2}:cummin()) --> [3 1 1]
--- cummax
print(tide.array{1, 3, 2}:cummax()) --> [1 3 3]
--- nonzero
local a = tide.array{{0, 5}, {7, 0}}
local at = a:nonzero()
print(at[1], at[2]) --> [1 2]  [2 1]
--- argwhere
print(tide.array{{0, 5}, {7, 0}}:argwhere())
--> [[1 2]
-->  [2 1]]
--- count_nonzero
print(tide.array{{0, 5}, {7, 1}}:count_nonzero(2)) --> [1 2]
--- masked_select
local a = tide.array{1, -2, 3}
print(a:masked_select(a:gt(0)), a[a:gt(0)]) --> [1 3]  [1 3]
--- masked_put
local a = tide.array{1, -2, 3}
print(a:masked_put(a:lt(0), 0)) --> [1 0 3]
--- gemm
local c = tide.ones({2, 2}, "f64")
print(c:gemm(2, tide.eye(2), tide.eye(2), 1))
--> [[3. 1.]
-->  [1. 3.]]
--- gemv
print(tide.zeros({2}, "f64"):gemv(1, tide.eye(2), tide.array({3, 4}, "f64"), 0)) --> [3. 4.]
--- ger
print(tide.zeros({2, 2}, "f64"):ger(1, tide.array({1, 2}, "f64"), tide.array({3, 4}, "f64")))
--> [[3. 4.]
-->  [6. 8.]]
--- axpy
print(tide.ones({2}, "f64"):axpy(2, tide.array({3, 4}, "f64"))) --> [7. 9.]
--- dot
print(tide.array{1, 2, 3}:dot{4, 5, 6}) --> 32
--- nrm2
print(tide.array({3, 4}, "f64"):nrm2()) --> 5.0
--- solve_triangular
local l = tide.array({{2, 0}, {1, 1}}, "f64")
print(l:solve_triangular(tide.array({4, 5}, "f64"), "lower")) --> [2. 3.]
--- lu_factor
local lu, pivots = tide.array({{4, 0}, {0, 2}}, "f64"):lu_factor()
print(lu:lu_solve(pivots, tide.array({8, 8}, "f64"))) --> [2. 4.]
--- lu_solve
local lu, pivots = tide.array({{2, 0}, {0, 4}}, "f64"):lu_factor()
print(tide.lu_solve(lu, pivots, tide.array({2, 8}, "f64"))) --> [1. 2.]
--- lu
local a = tide.array({{0, 2}, {1, 0}}, "f64")
local perm, l, u = a:lu()
print(perm) --> [2 1]
print(l:matmul(u))
--> [[1. 0.]
-->  [0. 2.]]
--- cholesky
print(tide.array({{4, 0}, {0, 9}}, "f64"):cholesky("lower"))
--> [[2. 0.]
-->  [0. 3.]]
--- qr
local a = tide.array({{1, 2}, {3, 4}}, "f64")
local q, r = a:qr()
print((q:matmul(r) - a):abs():lt(1e-12):all()) --> True
--- svd
local u, s, vh = tide.array({{3, 0}, {0, 4}}, "f64"):svd()
print(s) --> [4. 3.]
--- eigh
local w, v = tide.array({{2, 0}, {0, 1}}, "f64"):eigh()
print(w) --> [1. 2.]
--- solve
print(tide.array({{2, 0}, {0, 4}}, "f64"):solve(tide.array({2, 8}, "f64"))) --> [1. 2.]
--- inv
print(tide.array({{2, 0}, {0, 4}}, "f64"):inv())
--> [[0.5  0.  ]
-->  [0.   0.25]]
--- det
print(tide.array({{2, 0}, {0, 4}}, "f64"):det()) --> 8.0
--- slogdet
local sign, logabs = tide.array({{2, 0}, {0, -4}}, "f64"):slogdet()
print((sign * logabs:exp()):round()) --> -8.0
--- lstsq
local a, b = tide.array({{1, 0}, {1, 1}, {1, 2}}, "f64"), tide.array({1, 3, 5}, "f64")
local x = a:lstsq(b)
print((x * 1000):round() / 1000) --> [1. 2.]
--- random_uniform
tide.seed(1)
print(tide.random_uniform({1000}, "f32"):max():lt(1)) --> True
--- random_normal
tide.seed(1)
print(tide.random_normal({10000}, "f32"):mean():abs():lt(0.05)) --> True
--- random_integers
tide.seed(1)
local dice = tide.random_integers({1000}, 1, 7)
print(dice:min(), dice:max()) --> 1  6
--- random_permutation
tide.seed(1)
print(tide.random_permutation(5):sort()) --> [1 2 3 4 5]
--- empty_in
print(tide.empty_in("pinned", {2, 3}, "f32").memory) --> pinned
--- to_memory
local a = tide.arange(3):to_memory("pinned")
print(a, a.memory) --> [0 1 2]  pinned
--- prefetch
local a = tide.arange(8):to_memory("unified")
print(a:prefetch(1, 8, "host")) --> [0 1 2 3 4 5 6 7]
--- advise
local a = tide.arange(8):to_memory("unified")
print(a:advise(1, 8, "read_mostly")) --> [0 1 2 3 4 5 6 7]
