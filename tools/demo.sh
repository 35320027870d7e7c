#!/bin/sh
# demo.sh: installs what is missing, builds, and shows what Tidepool is for:
#   1. a network learns handwritten digits under a tight memory limit; its program frees nothing;
#   2. a model that makes garbage all the time, its memory given back in three ways: collected early
#      by the policy, collected when an allocation fails, freed by hand; a table of medians, what it
#      shows in one line, and a picture of memory over time.
# Arguments are for dense (--rows N, --epochs N, ...). TIDE_BUILD names a folder
# that is built already: nothing is installed then. DEMO_ROUNDS (5) is the number of rounds, an odd
# one, so that a median is the figure of a round.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
export LC_ALL=C # figures have a point, in the table and for gnuplot
rounds=${DEMO_ROUNDS:-5}
case $rounds in
0* | *[!0-9]* | *[02468])
    say "DEMO_ROUNDS wants an odd number from 1 on, not '$rounds'" >&2
    exit 2
    ;;
esac
b=${TIDE_BUILD:-build-release}
[ -n "${TIDE_BUILD:-}" ] || { tools/setup.sh && build $b $release_options; }
out=$b/demo
mkdir -p $out
device=$($b/tools/tide info --device)
say "runs on $device"
say ""
say "1. Digits: 64-128-10, Adam; hard limit 1 MiB above what is live after the first step;" \
    "no free in the program."
progress=
[ ! -t 2 ] || progress=--progress
$b/examples/c/digits $progress

# Sizes that make the same number of collections everywhere: live data fill 28 % of the limit.
case $device in
cuda*) size="--rows 300000 --epochs 100 --limit 4GiB" ;;
*) size="--rows 15000 --epochs 20 --limit 204.8MiB" ;;
esac
say ""
say "2. Dense: 1000 features, batches of 2048 copied, $size${*:+ $*}"

# What a process does first on a machine is dear (kernels are compiled, pages are fresh): one round
# warms up. Then the ways take turns, each round in another order. Shown are medians, between which
# totals they lie, and the longest of all steps.
one() { # WAY ROUND ARGUMENTS
    way=$1 round=$2
    shift 2
    $b/examples/c/dense $size "$@" --free=$way --quiet --summary --memory "$out/$way.txt" \
        >"$out/$way.$round.log" || { cat "$out/$way.$round.log"; exit 1; }
}
[ -z "$progress" ] || printf '   round' >&2
order="eager lazy hand"
for round in $(seq 0 $rounds); do
    [ -z "$progress" ] || printf ' %s/%s' "$round" "$rounds" >&2
    for way in $order; do one $way $round "$@"; done
    order="${order#* } ${order%% *}"
done
[ -z "$progress" ] || printf '\n' >&2

# Figure $2 of way $1 in each round, the least first.
sorted() {
    for round in $(seq 1 $rounds); do
        sed -n "s/^summary .*$2=\([^ ]*\).*/\1/p" "$out/$1.$round.log"
    done | sort -g
}
median() { sorted $1 $2 | sed -n "$(((rounds + 1) / 2))p"; }
least() { sorted $1 $2 | head -n 1; }
most() { sorted $1 $2 | tail -n 1; }
mib() { awk "BEGIN { printf \"%.1f\", $1 / 1048576 }"; }
say ""
printf '%-6s %8s %8s %8s %9s %9s %11s %6s %12s %12s\n' free 'total s' 'least s' 'most s' \
    'queue us' 'worst us' collections climbs 'peak live' 'peak backed'
for way in eager lazy hand; do
    printf '%-6s %8s %8s %8s %9s %9s %11s %6s %8s MiB %8s MiB\n' $way "$(median $way total_s)" \
        "$(least $way total_s)" "$(most $way total_s)" \
        "$(median $way median_step_us)" "$(most $way worst_step_us)" \
        "$(median $way collections)" "$(median $way climbs)" \
        "$(mib "$(median $way peak_live)")" "$(mib "$(median $way peak_backed)")"
done
say "Medians of $rounds rounds, in which the ways took turns, after one to warm up; least s"
say "and most s are of the rounds' totals. A step is timed as the host queues it (queue us;"
say "worst us is the longest of all rounds): the device works on behind it, and total s ends when"
say "it is done."
compared() { # WAY: its time, against that by hand
    awk "BEGIN { more = 100 * ($(median "$1" total_s) / $(median hand total_s) - 1)
                 printf \"%.0f %% %s\", more < 0 ? -more : more, more < 0 ? \"less\" : \"more\" }"
}
say ""
say "Shown: a program that frees nothing takes $(compared eager) time than one that frees by hand" \
    "where the policy collects early, $(compared lazy) where an allocation has to fail first."

if command -v gnuplot >/dev/null 2>&1; then
    gnuplot <<END
set terminal pngcairo size 1100,800 font "sans,11"
set output "$out/memory.png"
set multiplot layout 2,1 \
    title "Live bytes of dense, three ways to give memory back (${device%%;*})"
set ylabel "MiB"
set key outside right top
set grid
set yrange [0:*]
limit = $(median eager limit) / 1048576.0
file(way) = sprintf("$out/%s.txt", way)
set xlabel "step"
plot file("lazy") using 0:(\$2/1048576) with steps lw 1.5 lc rgb "#c0504d" title "lazy", \
     file("eager") using 0:(\$2/1048576) with steps lw 1.5 lc rgb "#1f77b4" title "eager", \
     file("hand") using 0:(\$2/1048576) with steps lw 2 lc rgb "#2ca02c" title "by hand", \
     limit with lines dt 2 lc rgb "#555555" title "hard limit"
set xlabel "seconds, as the host submits: ahead of the device, but where memory makes it wait"
plot file("lazy") using 1:(\$2/1048576) with steps lw 1.5 lc rgb "#c0504d" title "lazy", \
     file("eager") using 1:(\$2/1048576) with steps lw 1.5 lc rgb "#1f77b4" title "eager", \
     file("hand") using 1:(\$2/1048576) with steps lw 2 lc rgb "#2ca02c" title "by hand", \
     limit with lines dt 2 lc rgb "#555555" title "hard limit"
unset multiplot
END
    say ""
    say "memory over time: $out/memory.png"
else
    say "gnuplot is not here: the figures lie in $out/eager.txt, lazy.txt and hand.txt"
fi
