#!/usr/bin/env python3
"""pairs.py: of measuring in pairs (bench/pairs.py): turns, steady clocks, intervals, and when there are enough."""
import math
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TIDE_TEST_SOURCE"], "bench"))
import pairs


class Pairs(unittest.TestCase):
    def test_the_outermost_tenths_are_left_out(self):
        self.assertEqual(pairs.trimmed([5.0]), 5)
        self.assertEqual(pairs.trimmed([1, 2, 3, 1000]), 251.5)  # too few to leave out any
        self.assertEqual(pairs.trimmed([-1e9, 1, 1, 1, 2, 2, 3, 3, 3, 1e9]), 2)

    def test_a_clock_that_was_slower_for_one_is_not_steady(self):
        self.assertTrue(pairs.steady({"loop": 100}, {"loop": 104}))
        self.assertFalse(pairs.steady({"loop": 100}, {"loop": 106}))
        self.assertFalse(pairs.steady({"loop": 106}, {"loop": 100}))
        self.assertFalse(pairs.steady({"loop": 100, "kernel": 100}, {"loop": 100, "kernel": 120}))

    def test_quantiles_are_those_of_the_tables(self):
        for freedom, value in ((1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)):
            self.assertAlmostEqual(pairs.quantile(freedom), value, places=3)

    def test_an_interval_by_hand(self):
        # of -0.01, 0, 0.01: mean 0, deviation 0.01, so 4.3027 * 0.01 / sqrt(3)
        mean, half = pairs.overhead([-0.01, 0.0, 0.01])
        self.assertAlmostEqual(mean, 0)
        self.assertAlmostEqual(half, 2.4842, places=3)
        self.assertAlmostEqual(pairs.overhead([math.log(1.5)] * 4)[0], 50)
        self.assertEqual(pairs.overhead([0.1])[1], math.inf)

    def test_nineteen_of_twenty_intervals_have_the_mean(self):
        draw = random.Random(1)
        inside = 0
        for _ in range(2000):
            logs = [draw.gauss(0.02, 0.01) for _ in range(8)]
            mean, half = pairs.overhead(logs)
            inside += abs(mean - 100 * math.expm1(0.02)) <= half
        self.assertTrue(0.93 < inside / 2000 < 0.97, inside)

    def test_it_stops_when_every_way_is_known_well_enough(self):
        even, uneven = [0.01, 0.0] * 3, [0.3, -0.3] * 3
        self.assertFalse(pairs.done([even[:5]], 50))
        self.assertTrue(pairs.done([even], 1))
        self.assertFalse(pairs.done([even], 0.1))
        self.assertFalse(pairs.done([even, uneven], 1))
        self.assertFalse(pairs.done([even, []], 1))


if __name__ == "__main__":
    unittest.main()
