"""`lull run --plan` while one rank of a data parallel pipeline is slow for some iterations: the plan is stretched for as
long, and the clocks go back. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv.pop(1))
MODEL = "A100-SXM4-40GB"
SHAPE = ["--stages", "2", "--microbatches", "4", "--latency-ms", "0.5"]
PIPELINE = ["--schedule", "1f1b", *SHAPE, "--forward-ms", "20", "--backward-ms", "40", "--stage-weights", "1,1.07"]


class Stragglers(unittest.TestCase):
    def run_job(self, *options):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            profile, plan = os.path.join(directory, "profile.csv"), os.path.join(directory, "plan.json")
            measured = subprocess.run([LULL, "play", *PIPELINE, "--measure", profile, "--model", MODEL, "--heat-w", "300",
                                       "--json"], check=True, capture_output=True, text=True)
            subprocess.run([LULL, "plan", "--profile", profile, *SHAPE, "--slowdown", "0%", "--output", plan,
                            "--blocking-w", str(json.loads(measured.stdout)["blocking_w"])],
                           check=True, capture_output=True)
            done = subprocess.run(
                [LULL, "emulate", "--seed", "0", "--warm", "250", f"4x{MODEL}", "--", LULL, "run", "--verbose", "--no-daemon", "--report",
                 directory, "--tolerance", "5%", "--plan", plan, "--", LULL, "play", *PIPELINE, "--replicas", "2", *options],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file)["pipeline"]["stragglers"], done.stderr

    def test_a_rank_is_slow_for_a_while(self):
        # The baseline needs five undisturbed iterations at the plan. The plan is proven by then, at a tolerance for a busy
        # host. A host that stalls disturbs many iterations.
        stragglers, said = self.run_job("--sections", "--iterations", "160", "--straggler", "1,1.6,115,145")
        self.assertGreaterEqual(stragglers["replans"], 1)
        # How many of the twenty are stretched is asserted in simulated time (tests/core/pipeline/follow/test_straggler_job.c): a host that
        # is late ends a detour early.
        self.assertGreaterEqual(stragglers["iterations"], 1)
        self.assertGreater(stragglers["slowest_replan_ms"], 0)
        self.assertGreaterEqual(stragglers["lost_ms"], 0)
        # What it saves is asserted there too: here two iterations at the plan stand for what others would have used, and
        # a busy host outweighs that.
        self.assertIn("saved_j", stragglers)
        self.assertIn("stragglers: replanned", said)

    def test_without_sections_nothing_is_seen(self):
        stragglers, said = self.run_job("--iterations", "8", "--straggler", "1,1.6,4")
        self.assertEqual((stragglers["replans"], stragglers["iterations"]), (0, 0))
        self.assertNotIn("stragglers:", said)

    def test_bad_stragglers_are_refused(self):
        for bad in ("1", "1,0", "1,1.5,x", "1,1.5,1,2,3", "99,1.5", "-1,2"):
            done = subprocess.run([LULL, "play", *PIPELINE, f"--straggler={bad}"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 2, bad)


if __name__ == "__main__":
    unittest.main(verbosity=2)
