#!/bin/sh
# headers.sh: every public header compiles alone, as C11 and as C++17, without a warning; in both
# languages tide_map and its like box arrays and numbers, but no other pointer, and take 0 to 16 of
# them without a warning of any compiler that is here; a bad argument of tide_slicef is one.
set -eu
cd "$TIDE_TEST_SOURCE"
status=0
strict="-Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -fsyntax-only"
for h in include/tide/*.h; do
    printf '#include <tide/%s>\n' "$(basename "$h")" >"$1/alone.c"
    cp "$1/alone.c" "$1/alone.cpp"
    ${CC:-cc} -std=c11 $strict "$1/alone.c" || status=1
    ${CXX:-c++} -std=c++17 $strict "$1/alone.cpp" || status=1
done

# box LANGUAGE TYPE: whether a TYPE may be an argument of tide_map
box() {
    printf '#include <tide/tide.h>\n#if !defined(__cplusplus)\n#include <stdbool.h>\n#endif\n' >"$work/box.$1"
    printf 'tide_array *f(tide_runtime *rt, %s v);\n' "$2" >>"$work/box.$1"
    printf 'tide_array *f(tide_runtime *rt, %s v) { return tide_map(rt, "(v) -> v", v); }\n' "$2" >>"$work/box.$1"
    case $1 in
    c) ${CC:-cc} -std=c11 $strict "$work/box.c" ;;
    cpp) ${CXX:-c++} -std=c++17 $strict "$work/box.cpp" ;;
    esac
}
work=$1
for language in c cpp; do
    for type in 'tide_array *' bool int 'unsigned char' 'long long' 'unsigned long' float double tide_arg; do
        box $language "$type" || { echo "$language: $type is not boxed"; status=1; }
    done
    for type in 'float *' 'const char *' 'const tide_array *' 'tide_runtime *'; do
        ! box $language "$type" 2>"$work/box.err" || { echo "$language: $type is boxed"; status=1; }
    done
done

# calls: a function with tide_map, tide_map_many and tide_map_into of 0 to 16 arguments, alone and
# in each other
calls() {
    printf '#include <tide/tide.h>\n#include <stddef.h>\n'
    printf 'tide_array *f(tide_runtime *rt, tide_array *x);\n'
    printf 'tide_array *f(tide_runtime *rt, tide_array *x) {\n    tide_status s = TIDE_OK;\n    tide_array *out[1];\n'
    list=
    for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        printf '    x = tide_map(rt, "(...) -> text"%s);\n' "$list"
        printf '    s |= tide_map_into(x, "(...) -> text"%s);\n' "$list"
        printf '    s |= tide_map_many(rt, out, 1, "(...) -> text"%s);\n' "$list"
        case $((n % 4)) in 0) list="$list, x" ;; 1) list="$list, 2.5" ;; 2) list="$list, 3u" ;; 3) list="$list, -1L" ;; esac
    done
    printf '    s |= tide_map_many(rt, out, 1 + tide_map_into(x, "() -> 1"), "(x) -> x", tide_map(rt, "() -> 1"));\n'
    printf '    x = tide_map(rt, "(x, y) -> x + y", tide_map(rt, "() -> 1"), tide_map(rt, "(x) -> x", x));\n'
    printf '    return s == TIDE_OK ? x : NULL;\n}\n'
}
calls >"$work/calls.c"
cp "$work/calls.c" "$work/calls.cpp"
plain="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"
for compiler in "${CC:-cc}" gcc clang; do
    ! command -v "${compiler##* }" >/dev/null || $compiler -std=c17 $plain "$work/calls.c" || status=1
done
for compiler in "${CXX:-c++}" g++ clang++; do
    ! command -v "${compiler##* }" >/dev/null || $compiler -std=c++17 $plain "$work/calls.cpp" || status=1
done

# slicef ARGUMENT: whether it is taken for the format's %lld
slicef() {
    printf '#include <tide/tide.h>\ntide_array *f(tide_array *x, long long i);\n' >"$work/slicef.c"
    printf 'tide_array *f(tide_array *x, long long i) { return tide_slicef(x, "%%lld:", %s); }\n' "$1" >>"$work/slicef.c"
    cp "$work/slicef.c" "$work/slicef.cpp"
    ${CC:-cc} -std=c11 $strict "$work/slicef.c" && ${CXX:-c++} -std=c++17 $strict "$work/slicef.cpp"
}
slicef i || { echo "tide_slicef takes no number"; status=1; }
! slicef '"1"' 2>"$work/slicef.err" || { echo "tide_slicef takes a text for a number"; status=1; }
exit $status
