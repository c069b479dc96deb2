#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lull simulate prints of one job: whole runs, seeds.

usage: test_simulate.py LULL [UNITTEST ARGUMENT...]
"""
import json
import subprocess
import sys
import unittest

LULL = sys.argv.pop(1)


def simulate(*words):
    done = subprocess.run([LULL, "simulate", "--json", *words], capture_output=True, text=True, check=True, timeout=100)
    document = json.loads(done.stdout)
    return document, {mode["name"]: mode for mode in document["modes"]}


class Seeds(unittest.TestCase):
    JOB = ("--preset", "resnet50-ddp", "--ranks", "2", "--periods", "120", "--call-settle-ms", "4,10")

    def test_a_seed_orders_the_trials(self):
        """With constant latencies the coins of the trials are all that a seed decides."""
        first, modes = simulate("--seed", "1", *self.JOB)
        self.assertEqual(simulate("--seed", "1", *self.JOB)[0], first)
        others = {simulate("--seed", str(seed), *self.JOB)[1]["auto"]["period_ms"] for seed in (2, 3, 4)}
        self.assertGreater(len(others | {modes["auto"]["period_ms"]}), 1)


class Modes(unittest.TestCase):
    def test_modes_that_are_not_wanted_are_not_played(self):
        job = ("--preset", "moe-alltoall", "--ranks", "2", "--periods", "60")
        everything, _ = simulate(*job)
        some, modes = simulate(*job, "--modes", "power_limit,steady")
        self.assertEqual(list(modes), ["highest", "power_limit", "steady", "auto"])
        self.assertEqual(some["modes"], [mode for mode in everything["modes"] if mode["name"] in modes])
        self.assertEqual((some["oracle"], some["joint_oracle"]), (None, None))
        oracles, modes = simulate(*job, "--modes", "oracles")
        self.assertEqual(list(modes), ["highest", "auto"])
        self.assertEqual(oracles["joint_oracle"], everything["joint_oracle"])

    def test_bad_modes(self):
        for words in ("fast", "", "auto,", "aut", "auto,,steady"):
            done = subprocess.run([LULL, "simulate", "--preset", "moe-alltoall", "--modes", words],
                                  capture_output=True, text=True, check=False, timeout=10)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("feed_forward", done.stderr)


class Figures(unittest.TestCase):
    def test_the_search_counts(self):
        """The settled part saves more than the whole run, which the search is part of."""
        document, modes = simulate("--preset", "resnet50-ddp", "--ranks", "4", "--straggler", "3,1.1", "--periods", "300")
        auto, highest = modes["auto"], modes["highest"]
        self.assertGreater(auto["settled_saving_ratio"], auto["saving_ratio"] + 0.01)
        self.assertAlmostEqual(auto["saving_ratio"], 1 - auto["energy_j"] / highest["energy_j"], places=7)
        self.assertGreaterEqual(auto["worst_slowdown_ratio"], auto["slowdown_ratio"])
        self.assertIsNone(auto["settled_reason"])
        self.assertIsNone(highest["settled_slowdown_ratio"])
        self.assertIsNotNone(highest["settled_reason"])
        self.assertTrue(document["within_tolerance"] and auto["within_tolerance"])
        self.assertIn("run: lull run", document["verdict"])

    def test_a_short_run_still_searches(self):
        document, modes = simulate("--preset", "resnet50-ddp", "--ranks", "4", "--straggler", "3,1.1", "--periods", "60")
        self.assertTrue(document["verdict"].startswith("still searching after 60 periods"), document["verdict"])
        self.assertIsNone(modes["auto"]["settled_in_period"])
        self.assertIn("search", modes["auto"]["settled_reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
