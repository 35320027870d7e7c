#!/bin/sh
# own_policy.sh BUILD WORK: policies of one's own in `tide study`, as a user has them: the page's
# listing compiles without a warning, and its rows are those that the page shows; what crashes, loops
# or answers nonsense is a line of the table while the others are shown; what is no policy is told.
set -eu
tide=$1/tools/tide doubles=$1/tests/lib work=$2/own_policy page=${TIDE_TEST_SOURCE:?}/docs/own-policy.md
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "own_policy: $*"; exit 1; }
ends() { # STATUS TEXT ARGS: ends so, and says so on stdout or stderr
    wanted=$1 text=$2 status=0
    shift 2
    "$tide" study "$@" >out 2>err || status=$?
    [ $status = "$wanted" ] || fail "tide study $* ends with $status: $(cat out err)"
    [ -z "$text" ] || grep -qF -e "$text" out err || fail "tide study $* says: $(cat out err)"
}
shown() { awk -v kind="^\`\`\`$1\$" '$0 ~ kind { on = 1; next } on && /^```/ { exit } on' "$page"; }
indented() { sed -n "s/^    \($1 .*\)/\1/p" "$page" | head -n 1; } # a command of the page

# The page, to the letter.
shown c >slack.c
[ "$(wc -l <slack.c)" -le 30 ] || fail "thirty lines are $(wc -l <slack.c)"
compile=$(indented cc)
sh -c "${CC:-cc} -Wall -Wextra -Wno-unused-parameter -Werror -I'$TIDE_TEST_SOURCE/include' ${compile#cc }" ||
    fail "the listing does not compile"
shown text >wanted
sh -c "'$tide' $(indented 'tide study' | sed 's/^tide //')" >out
diff wanted out || fail "the page shows other rows"

# Live.
TIDE_POLICY=./slack.so "$tide" info --env >out 2>&1 || fail "info: $(cat out)"
grep -q 'TIDE_POLICY  *\./slack\.so' out || fail "TIDE_POLICY: $(cat out)"
TIDE_DEVICE=host TIDE_POLICY=./none.so "$tide" info >out 2>&1 || true
grep -q 'TIDE_POLICY=./none.so is not understood (./none.so: cannot open' out || fail "$(cat out)"

# Others' rows stand as they would without it.
ends 0 '' full-static --policy never --json
mv out alone
wrong() { # NAME TEXT: the policy's row says so, and the status is 1
    name=$1 text=$2
    ends 1 "$text" full-static --patience 1 --policy "${doubles}policy_$name.so,never"
    grep -q '^  never ' out || fail "$name: no row of never: $(cat out)"
    ends 1 "\"error\": \"$text" full-static --patience 1 --json --policy "${doubles}policy_$name.so,never"
    tail -n 1 out | cmp - alone || fail "$name changes other rows"
    python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <out || fail "JSON: $(cat out)"
}
wrong crash_double 'crashed (signal 11)'
wrong divides_double 'crashed (signal 8)'
wrong loop_double 'took more than 1 s'
wrong quits_double 'ended the process (status 0)'
ends 1 'answers make no sense; the first: level is 7' full-static --policy "${doubles}policy_nonsense_double.so"
ends 1 '"first_nonsense": "level is 7"' full-static --json --policy "${doubles}policy_nonsense_double.so"
ends 0 '' full-static --policy "${doubles}policy_nan_double.so"

# What it prints is dropped, whenever it does.
cat >loud.c <<'END'
#include "slack.c"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void say(void) { printf("LOUD\n"), (void)!write(1, "LOUD\n", 5); }
__attribute__((constructor)) static void begin(void) { atexit(say), say(); }
__attribute__((destructor)) static void end(void) { say(); }
END
sh -c "${CC:-cc} -I'$TIDE_TEST_SOURCE/include' -O2 -shared -fPIC -ffp-contract=off -o loud.so loud.c"
for flag in '' --json; do
    # shellcheck disable=SC2086 # no flag is no argument
    ends 0 '' full-static --policy './slack.so,./loud.so' $flag
    ! grep -q LOUD out || fail "its output: $(cat out)"
    [ "$(grep -c 'lou[d].so' out)" = 1 ] || fail "no row: $(cat out)"
done

# The same bytes on any number of cores, and as the same rule within.
ends 0 '' train threads --limit 1.2x,none --json --jobs 1 --policy "${doubles}policy_double.so(share=0.3)"
mv out one
ends 0 '' train threads --limit 1.2x,none --json --jobs 5 --policy "${doubles}policy_double.so(share=0.3)"
cmp one out || fail "other figures on other cores"

# What is no policy.
printf 'text' >text.so
ends 2 '--policy: ./gone.so: cannot open shared object file: No such file or directory' --policy ./gone.so
ends 2 '--policy: ./text.so: file too short' --policy ./text.so
ends 2 'has no symbol tide_policy_entry' --policy "${doubles}driver_double.so"
ends 2 'tide_policy_entry is refused: tide_policy.struct_size is 4096' --policy "${doubles}policy_tall_double.so"
ends 2 'tide_policy_entry is refused: the name ""' --policy "${doubles}policy_nameless_double.so"
ends 2 'policy_constructor_double.so crashed (signal 11) as it was opened' \
    --policy "${doubles}policy_constructor_double.so"
ends 2 "expected share from 0.25 to 1, found '2)'" --policy './slack.so(share=2)'
ends 2 "--patience wants a number from 1 to 3600, not '0'" --patience 0
