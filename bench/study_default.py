#!/usr/bin/env python3
"""study_default.py WORK LIMIT...: whether the default is the best policy known, from a study's rows.

Model. study_default.sh leaves in WORK, for each limit, rows as `tide study --json` prints them:
policies-LIMIT.json of all policies, and, where there is an optimum, oracle-LIMIT.json and
default-LIMIT.json of the same seeds. A row is a program under a limit. The default holds in a row

  against the oracle    where its cost is at most a tenth or 0.2 points above the optimum,
  against cudajl        where it costs no more, beyond noise,
  against another       likewise, for each policy.

Noise is the 95 % interval of the difference of two means, each over its seeds, and TINY: nobody
could measure less. The sums: at each limit, of the ten workloads that have an optimum at least
eight hold against it, and all traces; cudajl is nowhere cheaper, and dearer in at least six of the
workloads; and no other policy is cheaper anywhere. Prints a line a row and "figure N": how many
sums miss."""

import json
import os
import sys

TINY = 0.02  # points
NEAR_SHARE, NEAR_POINTS = 0.1, 0.2
WORKLOADS_NEAR, CHEAPER_THAN_CUDAJL = 8, 6
DEFAULT = "reserve"


def read(work, kind, limit):
    """Rows by program, then by policy; none where there is no such file. A program some of whose
    allocations failed is left out: its rows are no measure of the policies."""
    rows = {}
    path = os.path.join(work, f"{kind}-{limit}.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                name = os.path.basename(row["workload"])
                rows.setdefault(name, {})[row["policy"]] = row
    return {n: r for n, r in rows.items() if not any(x.get("incomplete") for x in r.values())}


def is_trace(name):
    return ".csv" in name


def noise(a, b):
    return (a["cost_off"] ** 2 + b["cost_off"] ** 2) ** 0.5 + TINY


def near(default, oracle):
    return default["cost"] <= oracle["cost"] + max(NEAR_SHARE * oracle["cost"], NEAR_POINTS)


def against_oracle(work, limit):
    """(program, default's cost, the optimum's, whether it is only nearly one)."""
    optimum, default = read(work, "oracle", limit), read(work, "default", limit)
    return [
        (name, default[name][DEFAULT], of["oracle"])
        for name, of in optimum.items()
        if name in default and "lacks" not in of["oracle"]
    ]


def show_row(name, rows, pair):
    """One line: the default's cost, the optimum's, cudajl's, the best other's; what misses."""
    own = rows[DEFAULT]
    cheaper = sorted(
        (row["cost"], policy)
        for policy, row in rows.items()
        if policy != DEFAULT and row["cost"] < own["cost"] - noise(own, row)
    )
    text = f"  {name:30} {own['cost']:9.3f} +- {own['cost_off']:.3f}"
    misses = []
    if pair:
        text += f"  optimum {pair[2]['cost']:8.3f}{'~' if pair[2].get('near') else ' '}"
        if not near(pair[1], pair[2]):
            misses.append(f"optimum +{pair[1]['cost'] - pair[2]['cost']:.2f}")
    else:
        text += " " * 19
    text += f"  cudajl {rows['cudajl']['cost']:9.3f}"
    misses += [f"{policy} {cost:.3f}" for cost, policy in cheaper]
    print(text, "  MISS " + ", ".join(misses) if misses else "  PASS")
    return [policy for _, policy in cheaper]


def verdict(what, holds, detail):
    print(f"  {'PASS' if holds else 'MISS'} {what}: {detail}")
    return not holds


def judge(work, limit):
    """The rows of a limit, and its sums; how many sums miss."""
    rows = read(work, "policies", limit)
    pairs = {pair[0]: pair for pair in against_oracle(work, limit)}
    print(f"limit {limit}: cost; ~: the optimum may be a little lower")
    cheaper = {name: show_row(name, rows[name], pairs.get(name)) for name in rows}
    missed = 0
    if pairs:
        for what, chosen, least in (
            ("near the optimum, workloads", [n for n in pairs if not is_trace(n)], WORKLOADS_NEAR),
            ("near the optimum, traces", [n for n in pairs if is_trace(n)], None),
        ):
            held = sum(near(pairs[n][1], pairs[n][2]) for n in chosen)
            wanted = len(chosen) if least is None else least
            missed += verdict(what, held >= wanted, f"{held} of {len(chosen)}, wanted {wanted}")
    beaten = [n for n in rows if "cudajl" in cheaper[n]]
    missed += verdict("at most what cudajl costs", not beaten, ", ".join(beaten) or "everywhere")
    less = [
        n
        for n in rows
        if not is_trace(n)
        and rows[n][DEFAULT]["cost"]
        < rows[n]["cudajl"]["cost"] - noise(rows[n][DEFAULT], rows[n]["cudajl"])
    ]
    missed += verdict(
        "less than cudajl", len(less) >= CHEAPER_THAN_CUDAJL, f"{len(less)} workloads, wanted 6"
    )
    others = {p for n in rows for p in cheaper[n] if p != "cudajl"}
    missed += verdict("no other is cheaper", not others, ", ".join(sorted(others)) or "nowhere")
    return missed


def main():
    work, limits = sys.argv[1], sys.argv[2:]
    missed = sum(judge(work, limit) for limit in limits)
    print(f"{'PASS' if not missed else 'MISS'} in all: {missed} sums miss")
    print(f"figure {missed}")


if __name__ == "__main__":
    main()
