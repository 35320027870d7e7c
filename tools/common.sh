# common.sh: what the tools share. Sourced from the project's root.
say() { printf '%s\n' "$*"; }

# Configures $1 once with the options after it, then builds it; quiet unless it fails.
build() {
    dir=$1
    shift
    if [ ! -f "$dir/build.ninja" ]; then
        meson setup "$dir" "$@" >"$dir.log" 2>&1 || { cat "$dir.log"; say "configuring $dir failed"; return 1; }
    fi
    ninja -C "$dir" >"$dir.log" 2>&1 || { cat "$dir.log"; say "building $dir failed"; return 1; }
    rm -f "$dir.log"
}
