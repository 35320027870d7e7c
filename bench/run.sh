#!/bin/sh
# run.sh [ROUNDS]: B1 to B7 on this machine's device, ours and the peers', and one table of them in
# bench/RESULTS.md in place of the last one. What is compared takes turns over the rounds (default
# 3), each time in another order and in a process of its own. A peer that is not here is skipped
# with a line; on a host device all of them are. About five minutes on a GPU.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
rounds=${1:-3}
case $rounds in '' | *[!0-9]* | 0) say "usage: bench/run.sh [ROUNDS]" >&2; exit 2 ;; esac
build build-release $release_options || exit 1
device=$(build-release/tools/tide info --device)
out=build-release/bench/run
rm -rf $out
mkdir -p $out
bad=0

# Compiles torch.cpp against the installed PyTorch.
build_torch() {
    why=$(python3 -c 'import torch' 2>&1) || { say "PyTorch: skipped, $(printf '%s\n' "$why" | tail -n 1)"; return 1; }
    flags=$(python3 bench/peers/torch_flags.py) && [ -n "$flags" ] || { say "PyTorch: skipped, its headers or CUDA's are not here"; return 1; }
    for t in tests/traces/*.csv.gz; do gunzip -c "$t" >$out/"$(basename "$t" .gz)"; done
    # A compiler that puts the C++ library into the program makes two of them in one process with
    # PyTorch's, and the program frees with one what the other allocated.
    for compiler in "${CXX:-c++}" c++ g++ clang++; do
        $compiler -std=c++20 -O2 -I. bench/peers/torch.cpp -o $out/peer-torch $flags >$out/torch.log 2>&1 || continue
        ! readelf -d $out/peer-torch | grep -qE 'NEEDED.*(libstdc|libc)[+][+]' || return 0
        say "PyTorch: $compiler puts the C++ library into programs, trying another compiler"
    done
    say "PyTorch: skipped, torch.cpp does not compile here as PyTorch was: $(grep -m 1 error $out/torch.log)"
    return 1
}

command_of() { # CONTESTANT BENCH
    case $1 in
    tide) echo "build-release/bench/tide-bench $2 --json" ;;
    driver) echo "build-release/bench/peer-driver $2 max" ;;
    driver-0) echo "build-release/bench/peer-driver $2 default" ;;
    raw) echo "build-release/bench/peer-driver $2 raw" ;;
    torch) echo "env PYTORCH_CUDA_ALLOC_CONF= $out/peer-torch $2 $out" ;;
    torch-expandable) echo "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True $out/peer-torch $2 $out" ;;
    *) echo "python3 bench/peers/peers.py $2 $1" ;;
    esac
}

plays() { # CONTESTANT BENCH: whether that is asked of it
    case $1:$2 in
    raw:pair) ;;
    raw:* | cupy:threads | cupy:trace | rmm-*:threads | rmm-*:trace) return 1 ;;
    esac
    [ ! -e "$out/without-$1-$2" ]
}

# Runs one; its figures are a line of $out/figures. Who cannot is not asked again.
play() { # CONTESTANT BENCH
    timeout 150 $(command_of "$1" "$2") >$out/figure 2>$out/why
    status=$?
    if [ $status = 0 ]; then
        printf '%s\t%s\n' "$1" "$(tail -n 1 $out/figure)" >>$out/figures
        return
    fi
    : >"$out/without-$1-$2"
    say "$1 $2: $([ $status = 77 ] && echo skipped || echo "failed ($status)"), $(tail -n 3 $out/why | tr '\n' ' ')"
    [ "$1" != tide ] || [ $status = 77 ] || bad=1
}

# The list after ROUND of them went to its end.
rotated() {
    n=$1
    shift
    while [ "$n" -gt 0 ]; do
        first=$1
        shift
        set -- "$@" "$first"
        n=$((n - 1))
    done
    echo "$@"
}

contestants=tide
case $device in
cuda*)
    contestants="tide driver driver-0 raw"
    ! build_torch || contestants="$contestants torch torch-expandable"
    for p in cupy rmm; do
        python3 -c "import $p" 2>/dev/null || { say "$p: skipped, there is no Python package of that name"; continue; }
        [ $p = cupy ] && contestants="$contestants cupy" || contestants="$contestants rmm-pool rmm-arena rmm-async"
    done ;;
*) say "the peers: skipped, they want cuda; this is $device" ;;
esac

for bench in pair random threads trace; do
    round=0
    while [ $round -lt "$rounds" ]; do
        for who in $(rotated $round $contestants); do
            ! plays "$who" $bench || play "$who" $bench
        done
        round=$((round + 1))
    done
    say "$bench: done"
done
for bench in "pair --level storage" "pair --level array" holes frontier breaker pipeline move; do
    play tide "$bench"
    say "$bench: done"
done

driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
python3 bench/table.py $out/figures bench/RESULTS.md "$device" "${driver:-none}" "bench/run.sh $rounds" || bad=1
exit $bad
