"""GPUs that a job does not use for a while go to their lowest clock, without any repetition: while a trainer waits, and after a
rank has ended. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
MODEL = "A100-SXM4-80GB"
LOWEST_MHZ, HIGHEST_MHZ = 210, 1410
IDLE_W = 108.5 - 78.6  # measured, data/gpu_models.json: what the lowest clock saves of an idle GPU


class IdlePhases(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)

    def run_job(self, *command, gpus=1, options=()):
        """Runs a job; returns the lever of idle phases, the lines that the job printed, and those of lull run."""
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", f"{gpus}x{MODEL}", "--", LULL, "run", "--no-daemon", "--report", self.directory.name, *options, "--",
             *command],
            env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.directory.name, "run")), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.directory.name, "report.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        for gpu in self.report["gpus"]: # a clock that is below what was set because the GPU is idle is no fault
            self.assertEqual((gpu["driver"]["without_effect"], gpu["driver"]["foreign_changes"], gpu["driver"]["trouble"]), (0, 0, ""))
        lever, = [lever for lever in self.report["levers"] if lever["lever"] == "idle phases"]
        return lever, done.stdout.split(), done.stderr

    def test_a_trainer_that_waits(self):
        lever, works_ms, said = self.run_job(JOB, "0", "1500", "7000", "1500", "10")
        self.assertEqual((lever["phases"], lever["sm_mhz"], lever["verdict"]), (1, LOWEST_MHZ, "lowered"))
        # Nothing is known of phases yet, so it is lowered after as long as twenty raisings cost: 2.6 s. Utilisation is late.
        self.assertGreater(lever["low_s"], 3.0)
        self.assertLess(lever["low_s"], 6.5)
        # The first half second at the lowest clock is not read, and the GPU is still warm.
        self.assertGreater(lever["saved_j"], 0.7 * IDLE_W * lever["low_s"])
        self.assertLess(lever["saved_j"], 1.3 * IDLE_W * lever["low_s"])
        self.assertAlmostEqual(float(works_ms[0]), 1500, delta=50)
        # The work began at the lowest clock, for 0.1 to 0.2 s on a host that is on time.
        lost_s = float(works_ms[1]) * 1e-3 - 1.5
        self.assertLess(lost_s, 0.35 * host.slowness())
        self.assertGreater(lever["cost_s"], 0.0)
        self.assertIn("of idle GPUs at the lowest clock saved about", said)
        self.assertIn("of idle GPUs at the lowest clock saved about", self.report["verdict"]["energy_line"])

    def test_the_gpu_of_a_rank_that_has_ended(self):
        lever, works_ms, _ = self.run_job(
            "sh", "-c", f"{JOB} 0 300 10 & {JOB} 1 7000 10; wait", gpus=2)
        self.assertEqual((lever["phases"], lever["gpu"]), (1, 0))
        self.assertGreater(lever["low_s"], 3.0)
        self.assertAlmostEqual(float(works_ms[1]), 7000, delta=100) # the other GPU keeps its clock

    def test_nothing_is_lowered_for_a_job_that_works(self):
        lever, works_ms, _ = self.run_job(JOB, "0", *(["700", "300"] * 4))
        self.assertEqual((lever["phases"], lever["low_s"], lever["saved_j"], lever["cost_s"]), (0, 0, None, 0))
        self.assertEqual(lever["verdict"], "not lowered")
        self.assertEqual(self.report["gpus"][0]["switches"], 0)
        for work_ms in works_ms:
            self.assertAlmostEqual(float(work_ms), 700, delta=50)


if __name__ == "__main__":
    unittest.main()
