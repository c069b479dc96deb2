"""A run without the right to set clocks estimates what that right would save, from its own recording, or says why it cannot.

The estimate is compared with what the same job saves under the same decisions in virtual time (`lull simulate`), whose
iterations no load of the host delays. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))
PRESET = "resnet50-ddp"
FIGURES = ("saving_low_j", "saving_likely_j", "saving_high_j", "saving_low_ratio", "saving_likely_ratio", "saving_high_ratio",
           "energy_per_iteration_j", "model_energy_per_iteration_j", "compute_ratio", "assumed")


class MissingRight(unittest.TestCase):
    def run_job(self, *options, iterations=60, **keywords):
        """The report of a run on an emulated node without lulld, and its table."""
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            os.chown(directory, keywords.get("user", os.geteuid()), -1)
            done = subprocess.run(
                [LULL, "emulate", "--seed", "38", "2xA100-SXM4-40GB", "--", LULL, "run", "--report", directory + "/report", *options, "--",
                 LULL, "play", "--preset", PRESET, "--ranks", "2", "--iterations", str(iterations)],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False, **keywords)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report", "report.json"), encoding="utf-8") as file:
                return json.load(file), done.stderr

    def simulate(self):
        """What the job saves once the search has settled."""
        done = subprocess.run([LULL, "simulate", "--preset", PRESET, "--ranks", "2", "--modes", "auto", "--periods", "3000", "--json"],
                              capture_output=True, text=True, check=True)
        modes = json.loads(done.stdout)["modes"]
        return next(mode["settled_saving_ratio"] for mode in modes if mode["name"] == "auto")

    def test_the_estimate_holds_what_management_saves(self):
        report, table = self.run_job()
        right = report["missing_right"]
        self.assertEqual((right["right"], right["reason"]), ("lulld", None))
        for unit, factor in (("ratio", 1.0), ("j", right["energy_per_iteration_j"])):
            low, likely, high = (right[f"saving_{name}_{unit}"] / factor for name in ("low", "likely", "high"))
            self.assertTrue(0.0 <= low <= likely <= high <= 0.06, right)
        self.assertAlmostEqual(right["energy_per_iteration_j"], report["managed"]["energy_per_iteration_j"])
        # The board and the model know nothing of each other; delays of the host take energy that the model does not have.
        self.assertAlmostEqual(right["model_energy_per_iteration_j"] / right["energy_per_iteration_j"], 1.0, delta=0.25)
        self.assertGreater(right["compute_ratio"], 0.9)
        self.assertIn("measured on A100-SXM4-40GB", right["assumed"])
        self.assertIn("with lulld: an estimated", table)
        saved = self.simulate()
        print(f"estimated {100 * right['saving_low_ratio']:.1f} to {100 * right['saving_high_ratio']:.1f} %, likely "
              f"{100 * right['saving_likely_ratio']:.1f} %; managed in virtual time {100 * saved:.1f} %", file=sys.stderr)
        self.assertLessEqual(right["saving_low_ratio"], saved)
        self.assertGreaterEqual(right["saving_high_ratio"], saved)
        self.assertAlmostEqual(right["saving_likely_ratio"], saved, delta=0.01)

    def test_without_recorded_computation_nothing_is_estimated(self):
        right = self.run_job("--exposure=no")[0]["missing_right"]
        self.assertIn("no compute kernels were recorded", right["reason"])
        self.assertEqual({right[name] for name in FIGURES}, {None})

    def test_a_short_run(self):
        right = self.run_job(iterations=8)[0]["missing_right"]
        self.assertIn("use a longer run", right["reason"])
        self.assertEqual({right[name] for name in FIGURES}, {None})

    def test_root_is_missing(self):
        options = {}
        if os.geteuid() == 0:
            host.require_open(LULL)
            options = {"user": 12345, "group": 12345, "extra_groups": []}
        self.assertEqual(self.run_job("--no-daemon", iterations=8, **options)[0]["missing_right"]["right"], "root")

    def test_a_managed_run_lacks_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("--no-daemon needs root")
        self.assertIsNone(self.run_job("--no-daemon", iterations=8)[0]["missing_right"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
