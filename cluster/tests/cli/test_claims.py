"""Small sets of jobs that once refuted what was printed about them, each with a test of its own: bounds above runs and
above schedules that are known.

Usage: test_claims.py LULL
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1:2]
VALUES = "submit_s,duration_s,num_gpus,deadline_s,value_j\n"
GPU = ["--gpu-types", "V100-SXM2-16GB", "--clocks"]


def run(policy, text, *options, as_json=True):
    words = [LULL, "simulate", "cluster", "--policy", policy, "-", *options] + ["--json"] * as_json
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if as_json else done.stdout


def points(gpu_w, jobs):
    """A table of operating points: of each job pairs of a ratio of time and the power of a GPU."""
    return {"gpus": {"h": {"idle_w": gpu_w, "full_w": 700}}, "jobs": {
        name: {"time_s": 400, "gpus": {"h": [{"sm_mhz": 0 if i == 0 else 1700 - 100 * i, "time_ratio": ratio, "gpu_w": w}
                                             for i, (ratio, w) in enumerate(modes)]}} for name, modes in jobs.items()}}


def bounded(idle_w, jobs, text, *options):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "points.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(points(idle_w, jobs), file)
        return run("fifo", text, "--nodes", 1, "--points", path, *options)


class Claims(unittest.TestCase):
    def test_slow_mode_that_saves_idle_power(self):
        """The slow mode of job b costs 7.3 kJ more, and leaves four GPUs idle for 55.7 s less: 15.6 kJ."""
        text = "submit_s,duration_s,num_gpus,job_type,deadline_s\n0,83,4,b,300\n0,349,1,a,\n"
        got = bounded(70, {"a": [(1, 352)], "b": [(1, 540), (1.671, 336)]}, text, "--bound=5")
        schedule_j = 352 * 349 + 4 * 336 * 83 * 1.671 + 70 * (8 * 349 - 349 - 4 * 83 * 1.671)
        self.assertLessEqual(got["bound_j"], schedule_j)
        self.assertGreater(got["bound_j"], 0.999 * schedule_j)
        self.assertGreater(got["energy_j"], 1.01 * schedule_j)

    def test_slots_of_a_second(self):
        """Columns of a thousand entries, on which the solver took minutes, or called abort()."""
        text = ("submit_s,duration_s,num_gpus,job_type,deadline_s\n0,794,4,c,\n0,632,4,c,814\n0,598,4,c,2506\n"
                "0,292,8,c,\n")
        jobs = {"c": [(1, 411), (1.273, 294), (1.399, 259), (1.627, 235)]}
        got = [bounded(70, jobs, text, f"--bound={slot}")["bound_j"] for slot in (1, 4)]
        self.assertGreater(got[0], 4.01e6)
        self.assertAlmostEqual(got[1] / got[0], 1, places=3)

    def test_mixture_of_modes(self):
        """A slow mode that misses the deadline alone, after a fast one that does not."""
        text = VALUES + "0,10000,1,10682.90,2954774\n"
        got = run("pd-rats", text, "--knob", 0, "--nodes", 1, *GPU, "--class", "compute", "--preemptible")
        self.assertLessEqual(got["cost_bound_j"], -0.2667e6)
        self.assertGreater(got["cost_bound_j"], -0.2672e6)  # and no more than the mixture gains

    def test_clocks_that_change(self):
        text = "submit_s,duration_s,num_gpus,deadline_s\n0,867,8,938\n286,534,1,\n"
        options = ["--nodes", 1, *GPU, "--class", "vision"]
        got = run("pd-rats", text, "--knob", 0, *options)
        other = run("powerflow", text, "--knob", 2.0913, *options)
        self.assertEqual(other["deadline_misses"], 0)
        self.assertLess(other["run_j"], 1.4963e6)
        self.assertLess(got["cost_bound_j"], other["run_j"])
        shown = run("pd-rats", text, "--knob", 0, *options, as_json=False)
        self.assertIn("no schedule of these jobs that meets the deadlines met here costs less", shown)

    def test_run_below_its_bound(self):
        text = "submit_s,duration_s,num_gpus,deadline_s\n181,521,2,\n226,765,2,\n241,454,1,756\n"
        got = run("powerflow", text, "--knob", 0.9264111534456511, *GPU, "--class", "vision", "--nodes", 1, "--bound=10")
        self.assertLess(got["bound_j"], got["energy_j"])
        self.assertLess(got["run_bound_j"], got["run_j"])
        self.assertGreater(got["bound_j"], 0.9 * got["energy_j"])

    def test_values_and_capacity(self):
        """Eighty jobs that may stop, for eight GPUs that could run sixteen of them in time."""
        text = VALUES + 80 * "0,600,1,1200,1e7\n"
        got = run("pd-rats", text, "--knob", 0, "--nodes", 1, "--preemptible")
        self.assertEqual(got["rejected"], 64)
        self.assertLess(got["certificate_ratio"], 1.02)

    def test_gains_are_said_as_gains(self):
        shown = run("pd-rats", VALUES + "0,300,1,600,1e6\n", "--knob", 0, "--nodes", 1, as_json=False)
        self.assertIn("the optimum gains at most 1.000 times as much", shown)
        self.assertNotIn("times the optimum", shown)


if __name__ == "__main__":
    unittest.main()
