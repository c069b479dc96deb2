"""lull plan --schedule best: no order of EnvPipe's kind that fits is better at the same time, and what is in flight is
counted again.

Usage: test_plan_orders.py LULL
SPDX-License-Identifier: Apache-2.0"""
import itertools
import os
import re
import sys
import unittest

import plan_case

RUNNER = plan_case.Runner(os.path.abspath(sys.argv[1]))
del sys.argv[1:2]
ROWS = plan_case.rows_of(plan_case.SMALL)
BLOCKING_W = 84.0
MICROBATCHES = 7


def arguments(stages, *more):
    return ("--profile", "-", "--stages", str(stages), "--microbatches", str(MICROBATCHES), "--blocking-w",
            str(BLOCKING_W), *more)


def in_flight(device):
    held = most = 0
    for op in device:
        held += 1 if op["operation"] == "forward" else 0
        most = max(most, held)
        held -= 1 if op["operation"] == "backward" else 0
    return most


def best(stages, *more):
    return RUNNER.plan_json(*arguments(stages, "--schedule", "best", *more), data=plan_case.SMALL)


class Orders(unittest.TestCase):
    def check(self, stages, memory, *options):
        document = best(stages, "--memory", ",".join(str(number) for number in memory), *options)
        memory = memory * stages if len(memory) == 1 else memory
        first = document["orders"][0]
        self.assertEqual(first["schedule"], "1f1b")
        chosen = next(order for order in document["orders"] if order["schedule"] == document["schedule"])
        times = plan_case.timeline(document["plan"], stages, ROWS)
        time_s = max(device[-1][1] for device in times)
        point = document["frontier"][0]
        self.assertAlmostEqual(point["time_s"], time_s, places=8)
        self.assertAlmostEqual(point["energy_j"], plan_case.energy(document["plan"], times, stages, ROWS, BLOCKING_W,
                                                                   document["period_s"]), places=5)
        for device, limit in zip(document["plan"], memory):
            self.assertLessEqual(in_flight(device), limit)
        self.assertEqual(max(in_flight(device) for device in document["plan"]), chosen["in_flight"])
        least = self.least_of_all(stages, memory, *options)
        self.assertLessEqual(chosen["bound_j"], least * (1 + 1e-6))
        self.assertLessEqual(chosen["bound_j"], first["bound_j"] * (1 + 1e-9))
        return document

    def least_of_all(self, stages, memory, *options):
        """The least bound of all warm-ups that fit, at the same time; r_s does not rise from stage to stage."""
        least = float("inf")
        room = [min(memory[s], MICROBATCHES) - min(stages - s, MICROBATCHES) for s in range(stages - 1)]
        for hoist in itertools.product(*(range(most + 1) for most in room)):
            if any(behind > ahead for ahead, behind in zip(hoist, hoist[1:])):
                continue
            name = "envpipe:" + ",".join(str(r) for r in hoist + (0,))
            document = RUNNER.plan_json(*arguments(stages, "--schedule", name, *options), data=plan_case.SMALL)
            least = min(least, document["frontier"][0]["bound_j"])
        return least

    def test_against_all_warm_ups(self):
        saved = []
        for stages, memory, options in ((3, [5], ("--slowdown", "0%")), (3, [4, 4, 1], ("--slowdown", "2%")),
                                     (4, [5], ("--slowdown", "0%")), (2, [7], ("--slowdown", "1%"))):
            document = self.check(stages, memory, *options)
            first = document["orders"][0]["bound_j"]
            saved.append(1 - min(order["bound_j"] or first for order in document["orders"]) / first)
        print("saved against 1f1b: " + ", ".join(f"{100 * ratio:.2f} %" for ratio in saved))
        self.assertGreater(max(saved), 0.02)

    def test_no_room_is_1f1b(self):
        document = self.check(3, [3, 2, 1], "--slowdown", "0%")
        self.assertEqual(document["schedule"], "1f1b")
        self.assertFalse(next(order for order in document["orders"] if order["schedule"] == "gpipe")["fits"])

    def test_without_a_limit(self):
        document = best(3, "--slowdown", "0%")
        self.assertTrue(all(order["fits"] for order in document["orders"]))

    def test_what_is_refused(self):
        for more, status, message in (
                (("--schedule", "best"), 2, "one time"),
                (("--memory", "4", "--slowdown", "0%"), 2, "--schedule best"),
                (("--schedule", "best", "--memory", "x", "--slowdown", "0%"), 2, "--memory x"),
                (("--schedule", "best", "--memory", "0", "--slowdown", "0%"), 2, "--memory 0"),
                (("--schedule", "best", "--memory", "4,4", "--slowdown", "0%"), 2, "3 stages"),
                (("--schedule", "best", "--memory", "2.5", "--slowdown", "0%"), 2, "--memory 2.5"),
                (("--schedule", "best", "--memory", "2", "--slowdown", "0%"), 1, "no order fits"),
                (("--schedule", "best", "--deadline-ms", "100"), 1, "allow more time")):
            done = RUNNER.plan(*arguments(3, *more), data=plan_case.SMALL)
            self.assertEqual(done.returncode, status, (more, done.stderr))
            self.assertIn(message, re.sub(r"\s+", " ", done.stderr))
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
