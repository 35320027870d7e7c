#!/bin/sh
# tsan.sh: the figure of 2.1f: what goes wrong when 16 threads make 10^7 pairs of mixed sizes, each
# giving back what others took, under ThreadSanitizer: its reports and the cases that fail. In the
# folder that tools/check.sh builds.
set -u
. tools/common.sh
build build-tsan -Dwerror=true -Doptimization=1 -Db_sanitize=thread -Db_lundef=false -Dboehm=disabled || exit 1
log=build-tsan/many-threads.log
TIDE_TEST_LONG=1 TIDE_TEST_DEVICE=host TIDE_DEVICE=host TIDE_TEST_SOURCE=. CMOCKA_MESSAGE_OUTPUT=TAP \
    build-tsan/tests/test_pool_battery >$log 2>&1
status=$?
wrong=$(grep -cE 'WARNING: ThreadSanitizer|^not ok' $log)
[ $status = 0 ] || [ "$wrong" != 0 ] || wrong=1
grep 'many_threads_mixed' $log
[ "$wrong" = 0 ] || head -60 $log
echo "figure $wrong"
