#!/bin/sh
# plot.sh BUILD WORK: pictures of a study and of a recording: the same tables and scripts whenever
# and wherever, a page that is sound and refers to nothing else, pictures that are some, whatever
# things are called; and what is said where something is missing. gnuplot must be here.
set -eu
tide=$1/tools/tide doubles=$1/tests work=$2/plot traces=${TIDE_TEST_SOURCE:?}/tests/traces
export TIDE_DEVICE=host
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "plot: $*"; exit 1; }
ends() { # STATUS TEXT ARGS: ends so, and says so on stderr
    wanted=$1 text=$2 status=0
    shift 2
    "$tide" "$@" >out 2>err || status=$?
    [ $status = "$wanted" ] || fail "tide $* ends with $status: $(cat err)"
    [ -z "$text" ] || grep -qF -e "$text" err || fail "tide $* says: $(cat err)"
}
command -v gnuplot >/dev/null || fail "there is no gnuplot: tools/setup.sh installs it"

# Every element closed, every reference to a file of the folder, every picture described; each
# picture a PNG and an SVG that are whole.
cat >check.py <<'END'
import html.parser, pathlib, sys, xml.etree.ElementTree
folder, want = pathlib.Path(sys.argv[1]), sys.argv[2:]
class Page(html.parser.HTMLParser):
    void = {"meta", "img", "br"}
    def __init__(self):
        super().__init__()
        self.open, self.refs, self.text, self.images = [], [], "", 0
    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)
        assert tag not in ("script", "link", "iframe", "object", "base"), tag
        for key, value in attrs:
            assert not key.startswith("on"), key
            if key in ("src", "href"):
                self.refs.append(value)
        if tag == "img":
            self.images += 1
            assert dict(attrs)["alt"].strip(), "a picture without words"
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"
    def handle_data(self, data):
        self.text += data
source = (folder / "index.html").read_text(encoding="utf-8")
assert source.startswith("<!DOCTYPE html>")
for outside in ("http:", "https:", "//", "url(", "@import"):
    assert outside not in source.replace("</", ""), outside
page = Page()
page.feed(source)
page.close()
assert not page.open, page.open
for ref in page.refs:
    assert "/" not in ref and ":" not in ref and (folder / ref).is_file(), ref
assert page.images == len(list(folder.glob("*.gp"))) > 0
for script in folder.glob("*.gp"):
    png = (folder / (script.name[:-3] + ".png")).read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and png.rstrip(b"\0")[-8:-4] == b"IEND", script
    root = xml.etree.ElementTree.parse(folder / (script.name[:-3] + ".svg")).getroot()
    assert root.tag.endswith("svg") and len(list(root.iter())) > 10, script
for text in want:
    assert text in page.text, f"the page lacks {text}"
END
check() { python3 check.py "$@" || fail "the page of $1"; }
data() { (cd "$1" && cat ./*.tsv ./*.gp) | cksum; }

# Where allocations failed less was done, and nothing is the better for it.
printf 'op,id,bytes,stream,time_us\na,1,8589934592,0,0\nf,1,8589934592,0,50000\na,2,1000000,0,50000\nf,2,1000000,0,100000\n' >fail.csv
ends 0 '' study fail.csv --limit 0.5x,1.2x --policy reserve,oracle --seeds 1 --plot failed
! grep -q '0\.5x' failed/*-best.tsv || fail "failures are best: $(cat failed/*-best.tsv)"
grep -q '1\.2x' failed/*-best.tsv || fail "nothing is best: $(cat failed/*-best.tsv)"
check failed 'reserve (incomplete)'
ends 0 '' study fail.csv --limit 0.5x --policy reserve --seeds 1 --plot failed-all
check failed-all

# What cannot be read twice is refused before anything is played.
mkfifo pipe
cat fail.csv | "$tide" study /dev/stdin --policy never --plot piped >out 2>err && fail "a pipe is drawn"
grep -qF '/dev/stdin: is no regular file, and --plot reads recordings twice' err || fail "a pipe: $(cat err)"
ends 2 'pipe: is no regular file' study pipe --policy never --plot piped
[ ! -s out ] && [ ! -e piped ] || fail "a pipe was played: $(cat out)"
"$tide" study /dev/stdin --policy never --plot stdin <fail.csv >out 2>err || fail "a file as stdin: $(cat err)"

# Of a study: what stands in its table stands on the page.
policies='sqrt,cudajl(slack=1),never,oracle'
ends 0 '' study full-static half --policy "$policies" --limit 1.1x,none --seeds 2 --plot one --jobs 1
check one 'tide study full-static half --policy' 'cudajl(slack=1)' 'Memory over time'
python3 - out one/index.html <<'END' || fail "the page's table"
import html, re, sys
page = open(sys.argv[2]).read()
rows = [[html.unescape(c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line)]
        for line in page.splitlines() if "<tr>" in line]
printed = [re.split(r"  +", line.strip()) for line in open(sys.argv[1]) if line.startswith("  ")]
printed = [" ".join(row) for row in printed if not row[0].startswith("dearer")]
shown = [re.sub(r"(.*) \(near\)(.*)", r"\1\2 near", " ".join(row)) for row in rows]
assert [re.sub(r" +", " ", p) for p in printed] == shown, (printed, shown)
END
[ "$(ls one/*.gp | wc -l)" = 16 ] || fail "pictures: $(ls one/*.gp)"
[ -f one/01-full-static-memory-1-2-cudajl_slack_1.png ] || fail "names: $(ls one)"
[ "$(head -n 1 one/02-half.tsv | tr '\t' '\n' | wc -l)" = 20 ] || fail "the rows' table"
[ "$(wc -l <one/02-half.tsv)" = 9 ] || fail "rows: $(cat one/02-half.tsv)"

# No collection is lost, however long the run: the events are those of the table's first seed.
ends 0 '' study full-short --policy cudajl --seeds 1 --json --plot many
python3 - out many/01-full-short-memory-1-1-cudajl <<'END' || fail "collections were lost"
import json, sys
row = json.loads(open(sys.argv[1]).readline())
table = lambda end: [line.rstrip("\n").split("\t") for line in open(sys.argv[2] + end)][1:]
events, columns = table("-events.tsv"), table(".tsv")
assert row["collections"] > 500 # more than are drawn one by one
assert len([e for e in events if e[2] != "stall"]) == row["collections"]
assert len([e for e in events if e[2] == "stall"]) == row["stalls"]
assert sum(int(c[6]) + int(c[7]) for c in columns) == row["collections"]
assert max(int(c[4]) for c in columns) == row["peak_held"]
assert 100 < len(columns) <= 1024
END

# The same bytes on any number of cores, and on every machine: where a picture was changed on
# purpose, the new sum stands here from then on.
ends 0 '' study full-static half --policy "$policies" --limit 1.1x,none --seeds 2 --plot two --jobs 5
[ "$(data one)" = "$(data two)" ] || fail "other files on other cores"
for name in $(cd one && ls ./*.svg ./*.png); do cmp "one/$name" "two/$name" || fail "$name"; done
[ "$(cat one/*.tsv | cksum)" = '2761686847 926360' ] || fail "another machine's bytes: $(cat one/*.tsv | cksum)"
(cd two && rm ./*.png && gnuplot 02-half-pareto.gp) && [ -s two/02-half-pareto.png ] || fail "by hand"

# A recording, in a file that is called what it should not be; a policy's file likewise.
odd="a <b>&\"'\`id\` %s {x}_@.csv"
cat >"$odd" <<'END'
op,id,bytes,stream,time_us
a,1,1048576,0,1000
a,2,2097152,0,2000
C,1,0,0,2500
c,1,0,0,2600
R,0,4194304,0,3000
R,1,4194304,0,3000
C,2,0,0,3100
f,2,2097152,0,3200
c,2,2097152,0,3300
r,1,2097152,0,3300
r,0,2097152,0,3400
a,3,1048576,0,3500
s,0,0,0,4000
f,1,1048576,0,5000
f,3,1048576,0,6000
END
ends 0 '' replay "$odd" --plot recorded
check recorded 'peak live' "$odd as it was recorded: 2 collections, 1 of them forced; 1 stall; at most 3.00 MiB"
printf 'begin_ns\tend_ns\twhat\tlevel\tfreed\treason
1500000\t1600000\tcollection\tminor\t0\tas recorded
2100000\t2300000\tforced\tfull\t2097152\ta climb
2000000\t2400000\tstall\t-\t2097152\ta climb\n' >wanted
diff wanted recorded/recording-events.tsv || fail "a recording's events"
cp "$doubles/libpolicy_double.so" "it's a <b>.so"
ends 0 '' study "$odd" --policy "never,./it's a <b>.so" --plot odd
check odd "$odd" "./it's a <b>.so" 'tide study '
[ "$(ls odd/*-recorded.svg odd/*-memory-*.svg | wc -l)" = 3 ] || fail "pictures: $(ls odd)"
ends 1 '' study full-static --policy "never,$doubles/libpolicy_crash_double.so" --plot crash
check crash 'crashed (signal 11)'
[ "$(ls crash/*-memory-*.svg | wc -l)" = 1 ] || fail "pictures of a crash: $(ls crash)"
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59.900000,allocate,0x10,64,0\n1,00:00:00.100000,free,0x10,64,0\n' >rmm.csv
ends 0 '' study rmm.csv --policy never --plot rmm
check rmm 'at most 64 bytes allocated; 0.200 s.'

# More than is drawn; what has no figures.
ends 0 '' study full-static --policy 'headroom(share=0.2:0.8:0.1)' --limit 1.1x,1.2x,1.3x,1.4x,2x --seeds 1 --plot sweep
check sweep 'the first 6 policies under the first 4 limits, of 7 and 5'
[ "$(ls sweep/*memory*.svg | wc -l)" = 24 ] || fail "pictures: $(ls sweep)"
ends 0 '' study threads --policy oracle --plot none
[ ! -e none/01-threads-overhead.gp ] && grep -q 'none: the program has several threads' none/index.html ||
    fail "a picture of nothing"

# Help and pages name it.
for command in study replay; do
    ends 0 '' $command --help
    grep -q -e '--plot=DIR' out || fail "tide $command --help lacks --plot"
done
grep -q '^| `--plot` ' "$TIDE_TEST_SOURCE/docs/policies.md" || fail "policies.md lacks --plot"
grep -q '^| `--plot DIR` ' "$TIDE_TEST_SOURCE/docs/replay.md" || fail "replay.md lacks --plot"

# A folder that is none.
: >file
ends 2 'file/in: cannot be made: Not a directory' study half --plot file/in
ends 2 'file: cannot be opened as a folder: Not a directory' study half --plot file
ends 2 'absent/in: cannot be made: No such file or directory' study half --plot absent/in
ends 2 'file: cannot be opened as a folder: Not a directory' replay rmm.csv --plot file
[ ! -s out ] || fail "figures, though there is no folder: $(cat out)"

# Without gnuplot: figures, data, scripts and the page are there all the same.
mkdir -p empty
real=$tide
for command in 'study half --policy never' 'replay rmm.csv'; do
    status=0
    PATH=$work/empty "$real" $command --plot "bare-${command%% *}" >out 2>err || status=$?
    [ $status = 1 ] && [ -s out ] || fail "without gnuplot: $status"
    grep -q 'there is no gnuplot, which draws the pictures: install the package gnuplot-nox' err ||
        fail "without gnuplot: $(cat err)"
    grep -q 'class="trouble">there is no gnuplot' "bare-${command%% *}/index.html" || fail "the page hides it"
done
(cd bare-study && gnuplot ./*.gp 2>/dev/null) && [ -s bare-study/01-half-pareto.svg ] || fail "drawn later"
PATH=$work/empty "$real" study half --policy never --plot bare-study >out 2>err && fail "without gnuplot"
[ ! -e bare-study/01-half-pareto.svg ] || fail "an old picture beside new data"

# A gnuplot that fails, or leaves a picture unfinished.
mkdir -p broken short
printf '#!/bin/sh\necho "line 3: it  broke" >&2\nexit 1\n' >broken/gnuplot
printf '#!/bin/sh\nexit 0\n' >short/gnuplot
chmod +x broken/gnuplot short/gnuplot
status=0
PATH=$work/broken:$PATH "$real" study half --policy never --jobs 1 --plot fails >out 2>err || status=$?
[ $status = 1 ] && grep -qF 'gnuplot could not draw fails/01-half-overhead.gp: line 3: it broke' err ||
    fail "a gnuplot that fails: $status $(cat err)"
status=0
PATH=$work/short:$PATH "$real" replay rmm.csv --plot fails >out 2>err || status=$?
[ $status = 1 ] && grep -qF 'fails/recording.gp: a picture is cut short' err || fail "cut short: $status $(cat err)"

# A full disk, at each file.
for name in 01-half.tsv 01-half-best.tsv 01-half-overhead.gp 01-half-memory-1-1-never.tsv \
    01-half-memory-1-1-never-events.tsv index.html; do
    rm -rf full
    mkdir full
    ln -s /dev/full "full/$name"
    ends 1 "full/$name: cannot be written: No space left on device" study half --policy never --plot full
    [ -s out ] || fail "no figures on a full disk"
done
rm -rf full
mkdir -p full/recording.tsv
ends 1 'full/recording.tsv: cannot be opened for writing: Is a directory' replay rmm.csv --plot full
mkdir -p full/01-half-pareto.png
ends 1 'full/01-half-pareto.png: cannot be removed: Is a directory' study half --policy never --plot full
