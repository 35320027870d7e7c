#!/usr/bin/env python3
"""from_numpy.py PAGE BUILD WORK [--write]: the examples of docs/from-numpy.md run, and give what
stands beside them; every name of the library in it is exported; and it has every function of the
Python array API standard.

Model. A row of the page's tables is names | example | result. An example is C: statements, and last
an expression, an array or a number, whose text is compared with the result, blanks and line ends
alike. All of them make one program, in the frame that the page's first listing is. --write puts
what comes out beside the examples of a page that is being written: to be read before it is kept.
"""
import os
import re
import subprocess
import sys

# The array API standard 2024.12, by its chapters.
STANDARD = """
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
tril triu zeros zeros_like
astype can_cast finfo iinfo isdtype result_type
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert
bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1
floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p
log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply
negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh
square sqrt subtract tan tanh trunc
take take_along_axis
matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll
squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values
argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var
all any diff
cholesky cross det diagonal eigh eigvalsh inv matrix_norm matrix_power matrix_rank outer pinv qr
slogdet solve svd svdvals trace vector_norm
fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
""".split()
# What the page may say "not yet" of: FFTs.
NOT_YET = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft".split()
PLACE = "the examples go here"

SHOW = r"""
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
static void put(int row, const char *text) {
    printf("%d\t", row);
    for (const char *p = text; *p; p++)
        if (*p != '\n' && *p != ' ')
            putchar(*p);
        else if (p[1] != '\n' && p[1] != ' ')
            putchar(' ');
    putchar('\n');
}
static void put_array(int row, tide_array *a) {
    static char text[1 << 16];
    if (!tide_array_text(a, text, sizeof text))
        snprintf(text, sizeof text, "%s: %s", tide_error_last()->operation,
                 tide_error_last()->message);
    tide_error_clear();
    put(row, text);
}
static void put_number(int row, double v) {
    char text[64];
    snprintf(text, sizeof text, "%.15g", v);
    put(row, text);
}
#define SHOW(row, x)                                                                              \
    _Generic((x), tide_array *: put_array, char *: put, const char *: put, default: put_number)    \
    (row, x)
"""


def cells(line):
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [p.strip().replace("\\|", "|") for p in parts]


def code(cell):
    m = re.fullmatch(r"`` (.*) ``|`(.*)`", cell)
    return m and (m[1] or m[2])


def rows(lines):
    """(line, names, example or None, result) of every row of a table."""
    for at, line in enumerate(lines):
        c = cells(line) if line.startswith("|") else []
        if len(c) == 3 and not set(c[1]) <= set("- :") and c[1] != "Tidepool":
            names = re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`]*)`", c[0])))
            yield at, names, code(c[1]), c[2], c[1]


def last_statement(text):
    """Where the last expression begins: behind the last ';' outside of quotes."""
    at, quoted = 0, False
    for i, ch in enumerate(text):
        if ch == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif ch == ";" and not quoted:
            at = i + 1
    return at


def program(lines, examples):
    start = lines.index("```c") + 1
    frame = "\n".join(lines[start:lines.index("```", start)])
    text = []
    for n, (at, example) in enumerate(examples):
        cut = last_statement(example)
        text.append('#line %d "%s"\n    { %s SHOW(%d, (%s)); }' %
                    (at + 1, PAGE, example[:cut], n, example[cut:]))
    include, main = frame.split("int main", 1)
    place = next(l for l in main.split("\n") if PLACE in l)
    return include + SHOW + "int main" + main.replace(place, "\n".join(text))


def complaints(lines, table, source):
    """What is wrong with the page, whatever its examples give."""
    exported = set(open(source + "/tests/exports.txt").read().split())
    exported |= {"tide_map", "tide_map_many", "tide_map_into"}
    known = set(re.findall(r"\btide_\w+", open(source + "/include/tide-api.json").read()))
    for name in sorted(set(re.findall(r"\btide_\w+", "\n".join(lines))) - exported - known):
        yield "%s is not in the library" % name
    for at, names, example, result, said in table:
        if not example and said != "not yet":
            yield "line %d: the example is no code" % (at + 1)
        if said == "not yet" and not set(names) & set(NOT_YET):
            yield "line %d: not yet, and it is no FFT" % (at + 1)
    have = {n for r in table for n in r[1]}
    for name in STANDARD if os.path.basename(PAGE) == "from-numpy.md" else []:
        if name not in have:
            yield "%s of the standard is not in the page" % name


def run(text, build, work, source):
    """What each example gives, by its number."""
    os.makedirs(work, exist_ok=True)
    open(work + "/from_numpy.c", "w").write(text)
    flags = "-std=c11 -Wall -Werror -Wno-unused-result -Wno-unused-variable -I".split()
    flags[-1] += source + "/include"
    made = subprocess.run([os.environ.get("CC", "cc")] + flags +
                          ["from_numpy.c", "-o", "from_numpy", "-L" + build, "-Wl,-rpath," + build,
                           "-ltidepool", "-lm"], cwd=work)
    if made.returncode:
        sys.exit("the examples do not compile")
    ran = subprocess.run(["./from_numpy"], cwd=work, stdout=subprocess.PIPE, text=True,
                         env=dict(os.environ, TIDE_DEVICE="host"))
    if ran.returncode:
        sys.exit("the examples end with %d" % ran.returncode)
    return dict(line.split("\t", 1) for line in ran.stdout.split("\n") if "\t" in line)


def main():
    build, work = map(os.path.abspath, sys.argv[2:4])
    source = os.path.abspath(os.environ.get("TIDE_TEST_SOURCE", "."))
    lines = open(PAGE).read().split("\n")
    table = list(rows(lines))
    wrong = list(complaints(lines, table, source))
    examples = [(r[0], r[2]) for r in table if r[2]]
    got = run(program(lines, examples), build, work, source)
    for n, (at, example) in enumerate(examples):
        given = got.get(str(n), "nothing")
        if given == code(cells(lines[at])[2]):
            continue
        wrong.append("line %d: %s gives %s, not that" % (at + 1, example, given))
        c = re.split(r"(?<!\\)\|", lines[at].strip())
        c[3] = " `%s` " % given.replace("|", "\\|")
        lines[at] = "|".join(c)
    if "--write" in sys.argv:
        open(PAGE, "w").write("\n".join(lines))
    print("\n".join(wrong + ["%d examples, %d complaints" % (len(examples), len(wrong))]))
    sys.exit(bool(wrong))


PAGE = sys.argv[1]
main()
