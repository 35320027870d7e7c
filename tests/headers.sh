#!/bin/sh
# headers.sh: every public header compiles alone, as C11 and as C++17, without a warning; in both
# languages tide_map and its like box arrays and numbers, as the same kinds, but no other pointer,
# and take 0 to 16 of them without a warning of any compiler that is here; C's error says that more
# are too many, and C++ takes them; tide_slicef's arguments are checked against
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

# kinds: a program that says of which kind each number is as an argument; what the library would do
# stands in it
kinds() {
    cat <<'END'
#include <stdbool.h>
#include <stdio.h>
#include <tide/tide.h>
static tide_arg of(int kind) {
    tide_arg a;
    a.kind = kind;
    return a;
}
tide_arg tide_arg_array(tide_array *a) { return (void)a, of(TIDE_ARG_ARRAY); }
tide_arg tide_arg_bool(int v) { return (void)v, of(TIDE_ARG_BOOL); }
tide_arg tide_arg_int(int64_t v) { return (void)v, of(TIDE_ARG_INT); }
tide_arg tide_arg_uint(uint64_t v) { return (void)v, of(TIDE_ARG_UINT); }
tide_arg tide_arg_float(double v) { return (void)v, of(TIDE_ARG_FLOAT); }
#define SAY(type) printf("%s %d\n", #type, (int)tide_box((type)0).kind)
int main(void) {
END
    for type in bool char 'signed char' 'unsigned char' short 'unsigned short' int unsigned \
        long 'unsigned long' 'long long' 'unsigned long long' float double int8_t uint8_t \
        uint16_t uint32_t uint64_t size_t; do
        printf '    typedef %s the_%s;\n' "$type" "$(echo "$type" | tr ' ' _)"
        printf '    SAY(the_%s);\n' "$(echo "$type" | tr ' ' _)"
    done
    echo '    return 0;'
    echo '}'
}
kinds >"$work/kinds.c"
cp "$work/kinds.c" "$work/kinds.cpp"
${CC:-cc} -std=c11 -Iinclude "$work/kinds.c" -o "$work/kinds_c" || status=1
${CXX:-c++} -std=c++17 -Iinclude "$work/kinds.cpp" -o "$work/kinds_cpp" || status=1
"$work/kinds_c" >"$work/kinds_c.out"
"$work/kinds_cpp" >"$work/kinds_cpp.out"
diff "$work/kinds_c.out" "$work/kinds_cpp.out" || wrong "C and C++ box numbers of other kinds"

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

# 17 arguments, and more, and what a compiler says of them
for call in 'tide_map(rt, ""' 'tide_map_into(x, ""' 'tide_map_many(rt, out, 1, ""'; do
    for more in '' ', 18' ', 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32'; do
        cat >"$work/many.c" <<END
#include <tide/tide.h>
void f(tide_runtime *rt, tide_array *x, tide_array **out);
void f(tide_runtime *rt, tide_array *x, tide_array **out) {
    (void)rt, (void)x, (void)out;
    (void)!$call, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17$more);
}
END
        cp "$work/many.c" "$work/many.cpp"
        ! strictly c "$work/many.c" 2>"$work/many.err" || wrong "$call takes more than 16 arguments"
        grep -q tide_map_takes_at_most_16_arguments "$work/many.err" ||
            wrong "$call of too many arguments: $(cat "$work/many.err")"
        strictly cpp "$work/many.cpp" || wrong "C++: $call does not take more than 16 arguments"
    done
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
