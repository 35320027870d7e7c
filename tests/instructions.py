#!/usr/bin/env python3
"""instructions.py: of counting instructions by what they were for (bench/instructions.py): what is
read of callgrind's file, and that the parts sum to the whole."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TIDE_TEST_SOURCE"], "bench"))
import instructions

# main calls tide_mul, which asks the policy, which collects; each of them calls memset.
FILE = """version: 1
events: Ir D1mr

ob=/usr/bin/program
fl=a.c
fn=main
1 100 1
cob=/usr/lib/libtidepool.so
cfn=tide_mul.constprop.0
calls=2 5
1 1000 30

ob=/usr/lib/libtidepool.so
fn=tide_mul.constprop.0
5 200 2
cfn=tidei_gc_ask
calls=1 9
5 700 20
cob=/usr/lib/libc.so.6
cfn=memset
calls=1 1
5 100 8

fn=tidei_gc_ask
9 50 3
cob=/usr/lib/libgc.so.1
cfn=GC_gcollect
calls=1 1
9 350 2
cob=/usr/lib/libc.so.6
cfn=memset
calls=1 1
9 300 15

ob=/usr/lib/libgc.so.1
fn=GC_gcollect
1 50 1
cfn=0x000000000000f020
calls=3 1
1 300 1

fn=0x000000000000f020
1 299 1
fn=0x000000000000f020'2
1 1 0

ob=/usr/lib/libc.so.6
fn=memset
1 400 23
"""


class Instructions(unittest.TestCase):
    def setUp(self):
        self.profile = instructions.read(FILE.splitlines(keepends=True))

    def test_what_is_read(self):
        p = self.profile
        self.assertEqual(p.events, ["Ir", "D1mr"])
        self.assertEqual(p.own["main"], {"Ir": 100, "D1mr": 1})
        self.assertEqual(p.own["tide_mul"]["Ir"], 200)  # without the compiler's suffix
        self.assertEqual(p.own["unnamed, in libgc.so.1"]["Ir"], 300)  # with its recursion
        self.assertEqual(p.calls["memset"], {"tide_mul": 100, "tidei_gc_ask": 300})
        self.assertEqual(p.calls["unnamed, in libgc.so.1"], {"GC_gcollect": 300})

    def test_parts(self):
        parts = instructions.divide(self.profile)
        self.assertAlmostEqual(parts["tracing, in bdwgc"]["Ir"], 50 + 300)
        # three quarters of memset's instructions were for the policy; so count its misses
        self.assertAlmostEqual(parts["policy, and rounds"]["Ir"], 50 + 300)
        self.assertAlmostEqual(parts["policy, and rounds"]["D1mr"], 3 + 0.75 * 23)
        self.assertAlmostEqual(parts[instructions.PROGRAM]["Ir"], 100 + 200 + 100)

    def test_nothing_is_lost(self):
        parts = instructions.divide(self.profile)
        for event, whole in (("Ir", 1100), ("D1mr", 31)):
            self.assertAlmostEqual(sum(part[event] for part in parts.values()), whole)

    def test_what_more_units_cost(self):
        more = instructions.read(FILE.replace("fn=memset\n1 400 23", "fn=memset\n1 900 30")
                                 .splitlines())
        rest = more.minus(self.profile)
        self.assertEqual({name: costs["Ir"] for name, costs in rest.own.items() if costs["Ir"]},
                         {"memset": 500})

    def test_columns_are_those_that_were_counted(self):
        self.assertEqual(list(instructions.columns(["Ir"])), ["instructions"])
        self.assertEqual(list(instructions.columns(
            "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw".split())),
            ["instructions", "L1 misses", "last level's"])


if __name__ == "__main__":
    unittest.main()
