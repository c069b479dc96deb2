"""What goes wrong with what `lull run` measures and with the programs it measures, by the numbers of the fault list.

Run as: test_measuring_faults.py LULL LIBLULL JOB JUMPING_CLOCK [TEST...]. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

LULL, LIBLULL, JOB, JUMPING_CLOCK = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))

# A program whose workers are restarted all the time, as data loaders are. Each has a window of its own.
WORKERS = """
import ctypes, os, sys
lull = ctypes.CDLL(sys.argv[1])
for number in range(int(sys.argv[2])):
    worker = os.fork()
    if worker == 0:
        window = lull.lull_window_begin(b"worker")
        os._exit(lull.lull_window_end(window, None))
    if os.waitpid(worker, 0)[1] != 0:
        sys.exit(1)
"""


class Case(unittest.TestCase):
    def run_job(self, command, faults=(), node="1xA100", options=(), truth=None, environment=()):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            words = [word for fault in faults for word in ("--fault", fault)]
            words += ["--truth", truth] if truth else []
            done = subprocess.run(
                [LULL, "emulate", "--seed", "1", *words, node, "--", LULL, "run", "--verbose", "--no-daemon", "--report", directory,
                 *options, "--", *(str(word) for word in command)],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory, **dict(environment)), capture_output=True, text=True, check=False, timeout=240)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file), done

    def check(self, fault, environment=()):
        """A run, and what it was told to have drawn against what the emulated GPU really drew."""
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            truth = os.path.join(directory, "truth.json")
            report, done = self.run_job([JOB, 0, 100, 30, 60, 0], faults=fault, truth=truth, environment=environment)
            with open(truth, encoding="utf-8") as file:
                (node,) = json.load(file)["gpus"]
        (gpu,) = report["energy"]["run"]["gpus"]
        # The node lives a little longer than the run.
        self.assertAlmostEqual(gpu["energy_j"], node["energy_j"], delta=0.1 * node["energy_j"] + 2 * gpu["uncertainty_j"])
        return report, gpu, done.stderr


class Energy(Case):
    def test_f19_a_counter_that_wraps(self):
        report, gpu, said = self.check(["energy_wrap_j=300"])
        self.assertGreater(gpu["counter_resets"], 1)
        self.assertGreater(gpu["estimated_seconds"], 1)
        self.assertIn("its counter was reset", said)
        for name in ("unmanaged", "descent", "managed"):
            part = report[name]
            if part and part["energy_j"] is not None:
                self.assertGreater(part["energy_j"], 0)

    def test_f19_a_counter_that_stands_still(self):
        _, gpu, said = self.check(["energy_stuck_j=77"])
        self.assertGreater(gpu["estimated_seconds"], 5)
        self.assertIn("power was integrated", said)

    def test_f19_a_counter_that_vanishes(self):
        _, gpu, _ = self.check(["no_energy=1@4"])
        self.assertEqual(gpu["source"], "counter")
        self.assertGreater(gpu["estimated_seconds"], 3)

    def test_f19_no_counter_at_all(self):
        _, gpu, _ = self.check(["no_energy"])
        self.assertEqual(gpu["source"], "power")


class Clocks(Case):
    def test_f22_the_wall_clock_jumps_by_a_year(self):
        began = time.monotonic()
        report, gpu, _ = self.check([], environment={"LD_PRELOAD": JUMPING_CLOCK})
        took = time.monotonic() - began
        self.assertTrue(8 < report["energy"]["run"]["seconds"] < took, (report["energy"]["run"]["seconds"], took))
        self.assertEqual((gpu["source"], gpu["counter_resets"], gpu["estimated_seconds"]), ("counter", 0, 0))
        (governed,) = report["gpus"]
        (section,) = governed["sections"]
        self.assertAlmostEqual(section["mean_ms"], 60, delta=20)
        self.assertGreater(section["count"], 60)


class Programs(Case):
    def test_f51_workers_that_are_started_anew_find_slots(self):
        report, _ = self.run_job([sys.executable, "-c", WORKERS, LIBLULL, 600])
        (row,) = report["energy"]["windows"]
        self.assertEqual(row["name"], "worker")
        # There are 256 slots. On a busy host some workers may find none before those of the dead are given up.
        self.assertGreater(row["count"], 400)


if __name__ == "__main__":
    unittest.main(verbosity=2)
