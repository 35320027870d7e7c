#!/bin/sh
# headers.sh: every public header compiles alone, as C11 and as C++17, without a warning; in both
# languages tide_map and its like box arrays and numbers, but no other pointer, and take 0 to 16 of
# them without a warning of any compiler that is here; tide_slicef's arguments are checked against
# its format.
set -eu
cd "$TIDE_TEST_SOURCE"
work=$1
status=0
wrong() {
    echo "$1"
    status=1
}

strict="-Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -fsyntax-only"
# strictly LANGUAGE FILE
strictly() {
    case $1 in
    c) ${CC:-cc} -std=c11 $strict "$2" ;;
    cpp) ${CXX:-c++} -std=c++17 $strict "$2" ;;
    esac
}

for h in include/tide/*.h; do
    for language in c cpp; do
        printf '#include <tide/%s>\n' "$(basename "$h")" >"$work/alone.$language"
        strictly $language "$work/alone.$language" || status=1
    done
done

# box LANGUAGE TYPE: whether a TYPE may be an argument of tide_map
box() {
    cat >"$work/box.$1" <<END
#include <tide/tide.h>
#if !defined(__cplusplus)
#include <stdbool.h>
#endif
tide_array *f(tide_runtime *rt, $2 v);
tide_array *f(tide_runtime *rt, $2 v) { return tide_map(rt, "(v) -> v", v); }
END
    strictly "$1" "$work/box.$1"
}
for language in c cpp; do
    for type in 'tide_array *' bool int 'unsigned char' 'long long' 'unsigned long' float double \
        tide_arg; do
        box $language "$type" || wrong "$language: $type is not boxed"
    done
    for type in 'float *' 'const char *' 'const tide_array *' 'tide_runtime *'; do
        ! box $language "$type" 2>"$work/box.err" || wrong "$language: $type is boxed"
    done
done

# calls: a function with tide_map, tide_map_many and tide_map_into of 0 to 16 arguments, alone and
# in each other
calls() {
    cat <<'END'
#include <tide/tide.h>
#include <stddef.h>
tide_array *f(tide_runtime *rt, tide_array *x);
tide_array *f(tide_runtime *rt, tide_array *x) {
    tide_status s = TIDE_OK;
    tide_array *out[1];
END
    list=
    for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        printf '    x = tide_map(rt, "(...) -> text"%s);\n' "$list"
        printf '    s |= tide_map_into(x, "(...) -> text"%s);\n' "$list"
        printf '    s |= tide_map_many(rt, out, 1, "(...) -> text"%s);\n' "$list"
        case $((n % 4)) in
        0) list="$list, x" ;;
        1) list="$list, 2.5" ;;
        2) list="$list, 3u" ;;
        3) list="$list, -1L" ;;
        esac
    done
    cat <<'END'
    s |= tide_map_many(rt, out, 1, "(x) -> x", tide_map(rt, "() -> 1"));
    x = tide_map(rt, "(x, y) -> x + y", tide_map(rt, "() -> 1"), tide_map(rt, "(x) -> x", x));
    return s == TIDE_OK ? x : NULL;
}
END
}
calls >"$work/calls.c"
cp "$work/calls.c" "$work/calls.cpp"
plain="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"
for compiler in "${CC:-cc}" gcc clang; do
    command -v "${compiler##* }" >/dev/null || continue
    $compiler -std=c17 $plain "$work/calls.c" || status=1
done
for compiler in "${CXX:-c++}" g++ clang++; do
    command -v "${compiler##* }" >/dev/null || continue
    $compiler -std=c++17 $plain "$work/calls.cpp" || status=1
done

# slicef LANGUAGE ARGUMENT: whether that is taken for a number of the format
slicef() {
    cat >"$work/slicef.$1" <<END
#include <tide/tide.h>
tide_array *f(tide_array *x, long long i);
tide_array *f(tide_array *x, long long i) { return tide_slicef(x, "%lld:%lld", i, $2); }
END
    strictly "$1" "$work/slicef.$1"
}
for language in c cpp; do
    slicef $language i || wrong "$language: tide_slicef takes no number"
    ! slicef $language '"1"' 2>"$work/slicef.err" || wrong "$language: tide_slicef takes any type"
done
exit $status
