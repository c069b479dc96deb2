"""Sections that a program names through lull.h are found, named and managed, without MPI.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


# Iterations on a busy host scatter by more than 1 %: a job this short is judged at a wider tolerance.
SOON = ("--tolerance", "5%")


class Sections(unittest.TestCase):
    def run_job(self, *arguments, options=()):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            done = subprocess.run(
                [LULL, "emulate", "1xA100", "--", LULL, "run", "--no-daemon", "--quiet", "--report", directory,
                 *options, "--", JOB, *(str(argument) for argument in arguments)],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file)

    def test_a_named_section_is_managed(self):
        report = self.run_job(0, 150, 30, 120, 0, options=SOON)
        (gpu,) = report["gpus"]
        (section,) = gpu["sections"]
        self.assertEqual((section["kind"], section["name"]), ("communication", "communication"))
        self.assertGreater(section["count"], 100)
        self.assertAlmostEqual(section["mean_ms"], 120, delta=30)
        self.assertTrue(section["descent"])
        self.check_levers(report)
        self.check_verdict(report)
        print(report["verdict"]["sentence"], file=sys.stderr)  # a busy host decides whether anything is kept
        self.assertGreater(gpu["switches"], 10)
        # A lowering that a busy host serves too late counts as refused.
        self.assertLess(gpu["switches_refused"], gpu["switches"] / 10)

    def check_levers(self, report):
        """Each lever has one descent, and at most one step of it is kept. What is known has its interval."""
        levers = {lever["lever"]: lever for lever in report["levers"]}
        self.assertLessEqual({"sections", "steady point", "waiting ranks"}, set(levers))
        self.assertIsNone(levers["waiting ranks"]["descent"])
        for lever in ("sections", "steady point"):
            kept = [step["sm_mhz"] for step in levers[lever]["descent"] if step["kept"]]
            self.assertLessEqual(len(kept), 1)
            self.assertLessEqual(set(kept), {levers[lever]["sm_mhz"]})
            for step in levers[lever]["descent"]:
                self.assertIn((step["verdict"], step["step"]), [("degraded", "S225"), ("not degraded", "S222"),
                                                                ("not degraded", "S226"), ("undecided", "S224")])
        self.assertEqual([point["slowdown_ratio"] for point in report["frontier"]],
                         [0, 0.002, 0.005, 0.01, 0.02, 0.05])
        for point in report["frontier"]:
            self.assertEqual(point["saving_ratio"] is None, point["reason"] is not None)
            if point["saving_ratio"] is not None:
                self.assertIn(point["source"], ("measured", "predicted"))
                self.assertLessEqual(point["low_ratio"], point["saving_ratio"])
                self.assertLessEqual(point["saving_ratio"], point["high_ratio"])

    def check_verdict(self, report):
        """The verdict, what was tried and the levers say the same, and the timeline is the run's."""
        verdict = report["verdict"]
        lowered = [lever for lever in report["levers"] if lever["verdict"] == "lowered"]
        kept = [point for point in report["tried"] if point["kept"]]
        self.assertEqual(verdict["lowered"], bool(lowered), verdict)
        self.assertEqual(verdict["sentence"].startswith("no clocks lowered: "), not lowered)
        self.assertLessEqual(len(kept), 1)
        for lever in report["levers"]:
            self.assertEqual(lever["saving_ratio"] is None, lever["saving_reason"] is not None, lever)
        if verdict["saving_ratio"] is not None:
            self.assertEqual(verdict["basis"], "pairs of blocks of iterations within this run")
            self.assertEqual(verdict["saving_ratio"], kept[0]["saving_ratio"])
            self.assertIn(f"{100 * verdict['saving_ratio']:.1f} %", verdict["sentence"])
            parts = [lever["saving_ratio"] for lever in lowered]
            if None not in parts:
                self.assertAlmostEqual(sum(parts), verdict["saving_ratio"], places=7)
        timeline = report["timeline"]
        self.assertEqual(timeline["iterations_ms"], sorted(timeline["iterations_ms"]))
        (gpu,) = timeline["gpus"]
        self.assertTrue(gpu["sections"])
        self.assertTrue(all(0 <= begin < end <= timeline["length_ms"] for begin, end, _ in gpu["sections"] + gpu["lowered"]))
        self.assertTrue(all(0 <= ms <= timeline["length_ms"] for ms, _, _ in gpu["samples"]))

    def test_what_the_program_calls_computation_is_never_lowered(self):
        (gpu,) = self.run_job(0, 40, 20, 60, 0, "forward")["gpus"]
        self.assertEqual((gpu["sections"], gpu["switches"]), ([], 0))

    def test_a_section_of_another_name_is_searched_from_the_top(self):
        (gpu,) = self.run_job(0, 90, 30, 120, 0, "exchange", options=SOON)["gpus"]
        (section,) = gpu["sections"]
        self.assertEqual((section["kind"], section["name"]), ("user", "exchange"))
        self.assertEqual(section["descent"][0]["sm_mhz"], 1395)

    def test_short_sections_are_left_alone_and_it_says_why(self):
        report = self.run_job(0, 150, 10, 3, 0)
        (gpu,) = report["gpus"]
        (section,) = gpu["sections"]
        self.assertEqual(section["verdict"], "not switched")
        self.assertIn("shorter than changing", section["reason"])
        self.assertIsNotNone(gpu["steady"])

    def test_a_device_that_refuses_is_left_alone(self):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            done = subprocess.run(
                [LULL, "emulate", "--fault", "no_permission", "1xA100", "--", LULL, "run", "--no-daemon", "--quiet",
                 "--report", directory, "--", JOB, "0", "60", "10", "60", "0"],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
