# common.sh: what the tools share. Sourced from the project's root.
say() { printf '%s\n' "$*"; }

# What a build folder is made with unless the caller says otherwise: each is named, so that a folder
# that was once made with other options does not keep them.
plain_options='-Dbuildtype=debugoptimized -Doptimization=2 -Ddebug=true -Dwerror=false -Db_sanitize=none -Db_lundef=true
-Db_lto=false -Db_ndebug=if-release -Db_coverage=false -Dboehm=auto -Dlibdw=auto -Dtests=true -Dstress=false -Dreversed=false
-Dfuzz=false'
release_options='-Dbuildtype=release -Doptimization=3 -Ddebug=false -Dtests=false'
# Link-time optimisation takes a tenth of the instructions off a small operation; not every
# compiler's installation has it.
! echo 'int main(void) { return 0; }' | ${CC:-cc} -flto -O2 -x c -o /dev/null - 2>/dev/null || release_options="$release_options -Db_lto=true"

targets= # what build makes; empty: all

# Builds in folder $1 with plain_options and those after it, which win; quiet unless it fails. A
# folder that is not there is made, one that has other options is configured again, and one that
# this meson cannot read is emptied and made again.
build() {
    dir=$1
    shift
    if ! has_options "$dir" $plain_options "$@"; then
        how=
        [ ! -f "$dir/build.ninja" ] || { how=--reconfigure; say "$dir: has other options, configuring it again"; }
        meson setup $how "$dir" $plain_options "$@" >"$dir.log" 2>&1 ||
            { [ -n "$how" ] && meson setup --wipe "$dir" $plain_options "$@" >"$dir.log" 2>&1; } ||
            { cat "$dir.log"; say "configuring $dir failed"; return 1; }
    fi
    ninja -C "$dir" $targets >"$dir.log" 2>&1 || { cat "$dir.log"; say "building $dir failed"; return 1; }
    rm -f "$dir.log"
}

# Whether build folder $1 is there and has the meson options after it; of one given twice, the last
# counts.
has_options() {
    [ -f "$1/build.ninja" ] && meson introspect --buildoptions "$1" 2>/dev/null | python3 -c '
import json, sys
wanted = dict(a[2:].split("=", 1) for a in sys.argv[2:])
have = {o["name"]: o["value"] for o in json.load(sys.stdin)}
text = lambda v: str(v).lower() if isinstance(v, bool) else str(v)
sys.exit(any(text(have.get(name)) != value for name, value in wanted.items()))' "$@" 2>/dev/null
}
