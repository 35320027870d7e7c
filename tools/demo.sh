#!/bin/sh
# demo.sh: installs what is missing, builds, and shows what Tidepool is for:
#   1. a network learns handwritten digits under a tight memory limit, and its program frees nothing;
#   2. a model that makes garbage all the time, its memory given back in three ways: collected early by the policy, collected
#      when an allocation fails, freed by hand; a table, and a picture of memory over time.
# Arguments are for dense (--rows N, --epochs N, ...). TIDE_BUILD names a folder that is built already: nothing is installed then.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
export LC_ALL=C # figures have a point, in the table and for gnuplot
b=${TIDE_BUILD:-build-release}
[ -n "${TIDE_BUILD:-}" ] || { tools/setup.sh && build $b $release_options; }
out=$b/demo
mkdir -p $out
device=$($b/tools/tide info --device)
say "runs on $device"
say ""
say "1. Digits: 64-128-10, Adam; hard limit 1 MiB above what is live after the first step; no free in the program."
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
for way in eager lazy hand; do
    $b/examples/c/dense $size "$@" --free=$way --quiet --summary --memory $out/$way.txt >$out/$way.log || { cat $out/$way.log; exit 1; }
done

field() { sed -n "s/^summary .*$2=\([^ ]*\).*/\1/p" $out/$1.log; }
mib() { awk "BEGIN { printf \"%.1f\", $1 / 1048576 }"; }
say ""
printf '%-8s %10s %14s %14s %12s %8s %12s %14s\n' free 'total s' 'median step us' 'worst step us' collections climbs 'peak live' 'peak backed'
for way in eager lazy hand; do
    printf '%-8s %10s %14s %14s %12s %8s %8s MiB %10s MiB\n' $way "$(field $way total_s)" "$(field $way median_step_us)" "$(field $way worst_step_us)" \
        "$(field $way collections)" "$(field $way climbs)" "$(mib "$(field $way peak_live)")" "$(mib "$(field $way peak_backed)")"
done

if command -v gnuplot >/dev/null 2>&1; then
    gnuplot <<END
set terminal pngcairo size 1100,800 font "sans,11"
set output "$out/memory.png"
set multiplot layout 2,1 title "Live bytes of dense, three ways to give memory back ($(printf '%s' "$device" | sed 's/;.*//'))"
set ylabel "MiB"
set key outside right top
set grid
set yrange [0:*]
limit = $(field eager limit) / 1048576.0
file(way) = sprintf("$out/%s.txt", way)
set xlabel "step"
plot file("lazy") using 0:(\$2/1048576) with steps lw 1.5 lc rgb "#c0504d" title "lazy", \
     file("eager") using 0:(\$2/1048576) with steps lw 1.5 lc rgb "#1f77b4" title "eager", \
     file("hand") using 0:(\$2/1048576) with steps lw 2 lc rgb "#2ca02c" title "by hand", \
     limit with lines dt 2 lc rgb "#555555" title "hard limit"
set xlabel "seconds, as the host submits: it runs ahead of the device, and waits where memory or the program makes it"
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
