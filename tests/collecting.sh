#!/bin/sh
# collecting.sh BUILD WORK: the benchmark of what collecting costs, as a user runs it, as short as it
# can be; its sides' bad input. No figure of it that goes by the clock is judged.
set -eu
build=$1 work=$2/collecting source=${TIDE_TEST_SOURCE:?}
export TIDE_DEVICE=host
rm -rf "$work"
mkdir -p "$work/bench"
fail() { echo "collecting: $*"; exit 1; }
ends() { # STATUS TEXT COMMAND...: ends so, and says so on stderr
    wanted=$1 text=$2 status=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ $status = "$wanted" ] || fail "$* ends with $status: $(cat "$work/err")"
    [ -z "$text" ] || grep -qF -e "$text" "$work/err" || fail "$* says: $(cat "$work/err")"
}
said() { grep -Eq "$1" "$work/out" || fail "nothing like '$1' in: $(cat "$work/out")"; }
collecting() { python3 "$source/bench/collecting.py" --build "$work" "$@"; }
side=$build/bench/collecting-work
ln -s "$side" "$work/bench/collecting-work"

status=0
"$side" small hand </dev/null >/dev/null 2>&1 || status=$?
[ $status != 77 ] || exit 77

# Two processes of two pairs of each work; every way has its row, and the last lines are there.
# (Without --seconds processes warm up for as long as a measurement would want it.)
once='--rows 3000 --processes 2 --pairs 2 --turn 0.001 --seconds 1 --others 1'
number='-?[0-9]+\.[0-9]+'
for one in dense adds small; do
    limit=1.5x
    [ $one != small ] || limit=16MiB
    ends 0 '' collecting $one $once --limits 2x,$limit \
        --policies 'default,every(n=5,full=1),never,hand'
    for row in hand '  by hand beside it' default 'every\(n=5,full=1\)' never; do said "^$row +$number"; done
    said '^  default over by hand: processor '
    # (of fewer than two processes, where clocks were uneven, there is no interval)
    for time in processor wall; do
        said "^collecting early costs ($number|nan) % over by hand, \\+- ($number|inf|nan) \\([012] processes; $time time\\)\$"
    done
done

# A bar's figure, and once more without measuring.
ends 0 '' collecting small $once --limits 16MiB --bar climbs
said '^figure 0$'
ends 0 '' collecting --bar climbs
[ "$(cat "$work/out")" = 'figure 0' ] || fail "measured again: $(cat "$work/out")"

# A way that fails is told, and the others go on: a limit that what lives does not fit, no policy.
ends 0 '' collecting dense $once --limits 1MiB,2x --policies 'never,hopeful'
said '^never +failed: .*out of memory'
said '^never +[0-9]'
said '^hopeful +failed: .*there is no policy "hopeful"'

# Instructions, in parts that sum to the difference.
if command -v valgrind >/dev/null 2>&1; then
    ends 0 '' collecting adds --count
    LC_ALL=C awk '/^  .* %$/ && !/all but waiting/ { hand += $(NF - 4); more += $(NF - 2); n++ }
        /all but waiting/ { wrong = hand - $(NF - 4) > n || $(NF - 4) - hand > n ||
                                more - $(NF - 2) > n || $(NF - 2) - more > n }
        /^  tracing/ && $(NF - 3) <= 0 { wrong = 1 }
        END { exit wrong || n < 6 }' "$work/out" || fail "the parts do not sum: $(cat "$work/out")"
    said '^collecting early costs .* % over by hand in instructions of the calling thread$'
fi

# Bad input.
ends 2 "--limits wants bytes, 4GiB or 1.2x, not '1.2y'" collecting small --limits 1.2y
ends 2 'invalid choice' collecting large
ends 2 'is above 0' collecting --within 0
ends 2 'beside by hand' collecting --policies ,
ends 2 'usage: collecting-work' "$side" dense
ends 2 'usage: collecting-work' "$side" large hand
ends 2 'usage: collecting-work' "$side" dense hand --rows 3x
ends 1 'there is no policy "hopeful"' "$side" dense hopeful
echo 3x | "$side" small hand >/dev/null 2>"$work/err" && fail "a turn of 3x units"
grep -q 'a turn wants a number of units, not 3x' "$work/err" || fail "$(cat "$work/err")"
rm -rf "$work"
