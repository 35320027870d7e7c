#!/bin/sh
# headers.sh: every public header compiles alone, as C11 and as C++17, without a warning; and in both languages tide_map boxes
# arrays and numbers, but no other pointer.
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
exit $status
