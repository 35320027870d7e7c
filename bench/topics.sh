#!/bin/sh
# topics.sh TOPIC...: how many cases of these test programs fail on this machine's device.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
build build -Dwerror=true || exit 1
case $(build/tools/tide info --device) in cuda*) export TIDE_TEST_DEVICE=cuda TIDE_DEVICE=cuda ;; esac
rm -f build/meson-logs/testlog*.json
meson test -C build --no-rebuild "$@" >build/topics.log 2>&1
python3 tools/count.py build/meson-logs/testlog.json | tee build/topics.count
sed -n 's/.* passed, \([0-9]*\) failed, .*/figure \1/p' build/topics.count | grep .
