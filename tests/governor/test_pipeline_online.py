"""`lull run --pipeline` profiles a pipeline while it runs on the emulated node, plans its clocks and carries the plan out:
the frontier's. Sections come through liblull. SPDX-License-Identifier: Apache-2.0"""
import concurrent.futures
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv.pop(1))
STAGES = 2
MICROBATCHES = 4
PIPELINE = ["--stages", str(STAGES), "--microbatches", str(MICROBATCHES), "--forward-ms", "8", "--backward-ms", "16",
            "--stage-weights", "1,1.07", "--latency-ms", "0.5"]


# Name: iterations, options of lull run, of lull play. They mostly sleep, so they run at the same time.
JOBS = {"frontier": (150, [], ["--sections"]),
        "silent": (60, [], [])}


def run_job(iterations, options, play):
    """The report, the rows of the profile, and what was printed."""
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", "--warm", "250", f"{STAGES}xA100-SXM4-40GB", "--", LULL, "run", "--verbose", "--no-daemon",
             "--report", directory, "--schedule", "1f1b", "--microbatches", str(MICROBATCHES), "--profiling", "search:9",
             *options, "--", LULL, "play", "--schedule", "1f1b", *PIPELINE, "--iterations", str(iterations), *play],
            env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        profile = []
        if os.path.exists(os.path.join(directory, "profile.csv")):
            with open(os.path.join(directory, "profile.csv"), encoding="utf-8") as file:
                profile = list(csv.DictReader(file))
        return report, profile, done.stdout + done.stderr


class PipelineOnline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with concurrent.futures.ThreadPoolExecutor(len(JOBS)) as pool:
            cls.jobs = {name: pool.submit(run_job, *job) for name, job in JOBS.items()}

    def check_planned(self, planner):
        report, profile, text = self.jobs[planner].result()
        pipeline = report["pipeline"]
        self.assertEqual(report["notes"], [])
        self.assertEqual(pipeline["planner"], planner)
        self.assertIn(f"pipeline plan of {planner}: ", text)
        self.assertIn(pipeline["state"], ("kept", "the run ended while it was tried", "the run ended before it was tried",
                                          "rejected: a slowdown could not be ruled out", "withdrawn: the driver is not reliable"))
        self.assertEqual(pipeline["profiled_iterations"], 16)
        # A late iteration makes a lower clock look faster than the highest one: then it is below 0, or what was rounded to be
        # as fast is slower by next to nothing (1e-4 beside other work at real-time priority).
        self.assertLess(pipeline["predicted"]["slowdown_ratio"], 1e-3)
        self.assertEqual([stage["device"] for stage in pipeline["stages"]], list(range(STAGES)))
        # Rows for both kinds of operation of each stage, from the highest clock on.
        kinds = {(row["stage"], row["instruction"]) for row in profile if row["frequency"] == "1410"}
        self.assertEqual(len(kinds), 2 * STAGES)
        return pipeline

    def test_frontier(self):
        pipeline = self.check_planned("frontier")
        self.assertGreater(pipeline["predicted"]["saving_ratio"], -1e-9)
        # On a busy machine iterations are late: they are profiled again, or the plan is given up early.
        if pipeline["state"] == "kept":
            self.assertGreater(pipeline["planned"]["iterations"], 0, pipeline)
            self.assertGreater(pipeline["reference"]["iterations"], 0, pipeline)

    def test_a_job_without_sections_is_left_alone(self):
        report, profile, _ = self.jobs["silent"].result()
        self.assertEqual(profile, [])
        self.assertTrue(any("liblull" in note for note in report["notes"]), report["notes"])

    def test_bad_profiling_is_said(self):
        for how in ("search:1", "sweep:", "look", "search:99"):
            done = subprocess.run([LULL, "run", "--profiling", how, "--", "true"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, how)
            self.assertIn("--profiling", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
