#!/bin/sh
# headers.sh: every public header compiles alone, as C11 and as C++17, without a warning.
set -eu
cd "$TIDE_TEST_SOURCE"
status=0
for h in include/tide/*.h; do
    printf '#include <tide/%s>\n' "$(basename "$h")" >"$1/alone.c"
    cp "$1/alone.c" "$1/alone.cpp"
    ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -fsyntax-only "$1/alone.c" || status=1
    ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -fsyntax-only "$1/alone.cpp" || status=1
done
exit $status
