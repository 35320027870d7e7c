"""table.py FIGURES RESULTS DEVICE DRIVER COMMAND: writes what bench/run.sh measured as the table under its heading in RESULTS, in
place of the last one there. FIGURES: a line for each run: contestant, tab, JSON."""
import datetime
import json
import re
import statistics
import sys

HEADING = "## Pools: B1 to B7"
TITLES = {"tide": "Tidepool", "driver": "driver, threshold max", "driver-0": "driver, threshold 0", "raw": "cuMemAlloc",
          "torch": "PyTorch", "torch-expandable": "PyTorch, expandable", "cupy": "CuPy", "rmm-pool": "RMM pool",
          "rmm-arena": "RMM arena", "rmm-async": "RMM async"}
BENCHES = {"pair": "B1 pair", "random": "B2 random", "holes": "B3 holes", "threads": "B4 threads", "trace": "B5 trace",
           "frontier": "B6 frontier", "breaker": "B6 breaker", "pipeline": "B7 pipeline", "move": "moving"}
# By what the figure's name matches, in this order.
UNITS = [(r"^(pair:.*|pair) |_ns$| ns$|_p999_|_free_|^random n\d+$|^holes .*KiB_", "ns"), (r"^threads (own|mixed|passed|buried)_t\d+$", "pairs/s"),
         (r"^pipeline k\d+_(fixed|passed_on)", "us"), (r"overlap|_slow_", "%"), (r"^(breaker|move) time", "ms"), (r"^move rate", "GB/s"),
         (r"(moved|limit)$", "bytes")]

DETAIL = r"_driver_calls$|_failed_at_|_speed_at_" # of what another row has the worst of


def unit(bench, name):
    for pattern, text in UNITS:
        if re.search(pattern, "%s %s" % (bench, name)):
            return text
    return ""


def number(value):
    if value is None:
        return "-"
    if abs(value) >= 1e6:
        return "%.3g" % value
    return "%.0f" % value if abs(value) >= 100 else "%.4g" % value


def read(path):
    """{(bench, figure): {contestant: [values]}} in the order of appearance."""
    rows = {}
    with open(path) as lines:
        for line in lines:
            who, text = line.rstrip("\n").split("\t", 1)
            run = json.loads(text)
            bench = run["bench"]
            for name, value in run.items():
                if isinstance(value, (int, float)):
                    rows.setdefault((bench, name), {}).setdefault(who, []).append(value)
    return rows


def table(rows):
    present = [who for who in TITLES if any(who in row for row in rows.values())]
    order = list(BENCHES)
    lines = ["| figure | unit | " + " | ".join(TITLES[who] for who in present) + " |", "|---" * (len(present) + 2) + "|"]
    for bench, name in sorted(rows, key=lambda key: order.index(key[0].split(":")[0])):
        if re.search(DETAIL, name):
            continue
        row = rows[bench, name]
        base, _, level = bench.partition(":")
        label = BENCHES[base] + (", level " + level if level else "")
        cells = [number(statistics.median(row[who]) if who in row else None) for who in present]
        lines.append("| %s, %s | %s | %s |" % (label, name, unit(bench, name), " | ".join(cells)))
    return "\n".join(lines)


def replaced(text, section):
    """The section in place of the last one, or first of all sections."""
    old = re.search(r"^%s$.*?(?=^## |\Z)" % re.escape(HEADING), text, re.M | re.S)
    if old:
        return text[:old.start()] + section + text[old.end():]
    first = re.search(r"^## ", text, re.M)
    at = first.start() if first else len(text)
    return text[:at] + section + text[at:]


def main():
    figures, results, device, driver, command = sys.argv[1:]
    with open(results) as f:
        text = f.read()
    about = "%s, %s, driver %s: `%s`; medians of the rounds. Lower is better but for pairs/s, overlap, speed and rate." % (
        datetime.date.today(), device.split(";")[0], driver, command)
    section = "%s\n\n%s\n\n%s\n\n" % (HEADING, about, table(read(figures)))
    with open(results, "w") as f:
        f.write(replaced(text, section).rstrip("\n") + "\n")


main()
