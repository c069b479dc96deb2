"""lull plan --replica-profile: one plan for copies of different GPUs, against a replay that shares no code with Lull.

Usage: test_plan_copies.py LULL
SPDX-License-Identifier: Apache-2.0"""
import os
import sys
import tempfile
import unittest

import plan_case

RUNNER = plan_case.Runner(os.path.abspath(sys.argv[1]))
del sys.argv[1:2]
BLOCKING_W = 84.0
SHAPE = ("--stages", "3", "--microbatches", "5", "--blocking-w", str(BLOCKING_W), "--sync-ms", "30")


def slower(factor):
    """The profile of GPUs that take longer and draw the same."""
    lines = plan_case.SMALL.splitlines()
    for i, line in enumerate(lines[1:], 1):
        stage, kind, mhz, time_s, energy_j = line.split(",")
        lines[i] = f"{stage},{kind},{mhz},{float(time_s) * factor:.9f},{float(energy_j) * factor:.9f}"
    return "\n".join(lines) + "\n"


def replay(devices, profiles, stages, period_s, sync_s):
    """Makespan of the copies, each by itself up to its syncs, and the energy of an iteration of period_s."""
    times, energy = [], BLOCKING_W * period_s * len(devices)
    for copy, text in enumerate(profiles):
        own = [[op for op in device if op["operation"] != "fixed"] for device in devices[copy * stages:(copy + 1) * stages]]
        rows = plan_case.rows_of(text)
        one = plan_case.timeline(own, stages, rows)
        times.append([device[-1][1] for device in one])
        energy += plan_case.energy(own, one, stages, rows, BLOCKING_W, 0.0)
    ends = [max(copy[stage] for copy in times) + sync_s for stage in range(stages)]
    return max(ends), energy


class Copies(unittest.TestCase):
    def check(self, factors, *wish):
        profiles = [plan_case.SMALL] + [slower(factor) for factor in factors]
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            given, plan = [], os.path.join(directory, "plan.json")
            for i, text in enumerate(profiles[1:]):
                path = os.path.join(directory, f"copy{i}.csv")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                given += ["--replica-profile", path]
            document = RUNNER.plan_json("--profile", "-", *SHAPE, "--replicas", str(len(profiles)), *given, *wish,
                                        "--output", plan, data=plan_case.SMALL)
            self.assertTrue(RUNNER.plan_json("--verify", plan)["holds"])
            refused = RUNNER.plan("--verify", plan, "--profile", given[1])
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("profiles of their own", refused.stderr)
        point = document["frontier"][0]
        time_s, energy_j = replay(document["plan"], profiles, 3, point["time_s"], 0.03)
        self.assertAlmostEqual(point["time_s"], time_s, places=8)
        self.assertAlmostEqual(point["energy_j"], energy_j, places=4)
        self.assertLessEqual(point["bound_j"], point["energy_j"] * (1 + 1e-9))
        return document

    def test_against_a_replay(self):
        for factors in ((1.15,), (1.0,), (0.8, 1.3)):
            for wish in (("--slowdown", "0%"), ("--slowdown", "7%")):
                with self.subTest(factors=factors, wish=wish):
                    self.check(factors, *wish)

    def test_the_faster_copy_takes_its_time(self):
        """With a slower second copy the first one runs at lower clocks than with one as fast."""
        def mean_mhz(document, copy):
            clocks = [op["sm_mhz"] for device in document["plan"][3 * copy:3 * copy + 3] for op in device
                      if op["operation"] != "fixed"]
            return sum(clocks) / len(clocks)
        alike, other = self.check((1.0,), "--slowdown", "0%"), self.check((1.15,), "--slowdown", "0%")
        self.assertLess(mean_mhz(other, 0), mean_mhz(alike, 0) - 50)
        self.assertLess(mean_mhz(other, 0), mean_mhz(other, 1) - 50)

    def test_equal_profiles_change_nothing(self):
        own = self.check((1.0,), "--slowdown", "3%")["frontier"][0]
        plain = RUNNER.plan_json("--profile", "-", *SHAPE, "--replicas", "2", "--slowdown", "3%",
                                 data=plan_case.SMALL)["frontier"][0]
        self.assertAlmostEqual(own["bound_j"], plain["bound_j"], places=6)

    def test_bad_use(self):
        for arguments in (("--replica-profile", "x.csv"), ("--replicas", "2", *["--replica-profile", "x.csv"] * 2),
                          ("--replicas", "2", "--replica-profile", "/nonexistent.csv")):
            done = RUNNER.plan("--profile", "-", *SHAPE, *arguments, "--slowdown", "0%", data=plan_case.SMALL)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn("nonexistent" if "/nonexistent.csv" in arguments else "--replica", done.stderr)


if __name__ == "__main__":
    unittest.main()
