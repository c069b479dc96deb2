"""lull plan --replicas --sync-ms: time and energy of all copies against a replay that shares no code with Lull.

Usage: test_plan_replicas.py LULL
SPDX-License-Identifier: Apache-2.0"""
import itertools
import os
import sys
import tempfile
import unittest

import plan_case

RUNNER = plan_case.Runner(os.path.abspath(sys.argv[1]))
del sys.argv[1:2]
ROWS = plan_case.rows_of(plan_case.SMALL)
BLOCKING_W = 84.0


def arguments(stages, microbatches, *more):
    return ("--profile", "-", "--stages", str(stages), "--microbatches", str(microbatches), "--blocking-w",
            str(BLOCKING_W), *more)


class Replicas(unittest.TestCase):
    def check(self, stages, copies, sync_ms, *options):
        document = RUNNER.plan_json(
            *arguments(stages, 5, "--replicas", str(copies), "--sync-ms", ",".join(str(ms) for ms in sync_ms), *options),
            data=plan_case.SMALL)
        devices = document["plan"]
        sync_s = [ms * 1e-3 for ms in sync_ms] if len(sync_ms) > 1 else [sync_ms[0] * 1e-3] * stages
        self.assertEqual(len(devices), stages * copies)
        for d, device in enumerate(devices):
            self.assertEqual([op["operation"] for op in device].count("fixed"), 1 if sync_s[d % stages] > 0 else 0)
        times = plan_case.timeline(devices, stages, ROWS, sync_s)
        time_s = max(device[-1][1] for device in times)
        point = document["frontier"][0]
        self.assertAlmostEqual(point["time_s"], time_s, places=8)
        self.assertAlmostEqual(point["energy_j"],
                               plan_case.energy(devices, times, stages, ROWS, BLOCKING_W, time_s), places=5)
        self.assertLessEqual(point["bound_j"], point["energy_j"] * (1 + 1e-9))
        return document

    def test_against_a_replay(self):
        for stages, copies, sync in itertools.product((2, 3), (1, 2, 3), (30.0, 400.0)):
            self.check(stages, copies, [sync], "--slowdown", "3%")
        self.check(3, 2, [0.0, 25.0, 350.0], "--slowdown", "0%")

    def test_an_early_sync_costs_no_time(self):
        """The last stage has ended long before the first: its sync fits behind it."""
        alone = self.check(3, 2, [10.0, 10.0, 10.0], "--slowdown", "0%")
        longer = self.check(3, 2, [10.0, 10.0, 60.0], "--slowdown", "0%")
        self.assertEqual(alone["all_max"]["time_s"], longer["all_max"]["time_s"])
        late = self.check(3, 2, [70.0, 10.0, 60.0], "--slowdown", "0%")
        self.assertAlmostEqual(late["all_max"]["time_s"] - longer["all_max"]["time_s"], 0.06, places=9)

    def test_a_kept_plan_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            done = RUNNER.plan(*arguments(3, 4, "--replicas", "2", "--sync-ms", "20,30,40", "--slowdown", "1%",
                                          "--output", path), data=plan_case.SMALL)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(RUNNER.plan_json("--verify", path)["holds"])

    def test_bad_times(self):
        for text in ("x", "-1", "1,2", "1,2,3,4", "200000", "1,,2", ""):
            done = RUNNER.plan(*arguments(3, 4, "--slowdown", "0%", "--sync-ms", text), data=plan_case.SMALL)
            self.assertIn(done.returncode, (1, 2), text)
            self.assertIn("--sync-ms", done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
