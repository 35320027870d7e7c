#!/bin/sh
# run.sh PRELOAD LUA MODULE PROGRAM [ARGUMENT]...: runs a program with the module that was built as
# MODULE; PRELOAD is a sanitizer's library, which the interpreter was not built with, or "-".
preload=$1 lua=$2 module=$3 program=$4
shift 4
LUA_CPATH="$(dirname "$module")/?.so;;"
# the host device, whichever the tests run on: what is tested is the binding
TIDE_DEVICE=host
TIDE_HOST_DEVICES=2
export LUA_CPATH TIDE_DEVICE TIDE_HOST_DEVICES
[ "$preload" = - ] || export LD_PRELOAD="$preload"
exec "$lua" "$program" "$@"
