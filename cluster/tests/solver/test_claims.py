"""Small sets of jobs that once refuted what was printed about them, each with a test of its own: bounds above runs and
above schedules that are known, a policy that crashed, ratios that nothing proved.

Usage: test_claims.py LULL
SPDX-License-Identifier: Apache-2.0"""
import csv
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


def reasons(policy, text, *options):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "jobs.csv")
        run(policy, text, *options, "--jobs-out", path)
        with open(path, encoding="utf-8") as file:
            return [row["reason"] for row in csv.DictReader(file)]


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

    def test_slots_that_are_full(self):
        text = VALUES + "0,300,63,300,63e6\n0,300,1,300,2e4\n" + 3 * "300,300,1,600,1e6\n" + "300,300,63,600,63e6\n"
        got = run("pd-rats-safe", text, "--nodes", 8, "--run-w", 30)
        self.assertEqual(got["rejected"], 1)
        self.assertGreater(-got["cost_j"] * got["proven_ratio"], 125e6)

    def test_small_prices_beside_large_ones(self):
        text = VALUES + "0,300,7,300,7e6\n0,300,1,300,1.0e4\n" + 2 * "300,300,1,600,1e6\n"
        got = run("pd-rats-safe", text, "--nodes", 1)
        self.assertEqual(got["rejected"], 1)
        self.assertLess(got["proven_ratio"], 12)

    def test_windows_without_a_slot(self):
        text = VALUES + "".join(f"{1 + 7 * i},240,1,{291 + 7 * i},1e7\n" for i in range(200))
        got = run("pd-rats-safe", text, "--nodes", 8)
        self.assertEqual((got["rejected"], got["proven_ratio"]), (200, None))
        self.assertIn("no job has a schedule that the theorem covers", got["not_proven"])
        self.assertIn("200 jobs without a whole slot between arrival and deadline: rejected", got["not_proven"])
        self.assertTrue(all("--posted-slot" in reason for reason in reasons("pd-rats-safe", text, "--nodes", 8)))
        got = run("pd-rats-safe", text, "--nodes", 8, "--posted-slot", 20)
        self.assertEqual(got["rejected"], 0)

    def test_promises_on_a_storage(self):
        """What is promised can be read: nobody ends late, and the ratio is of the gain on this storage."""
        text = "submit_s,duration_s,num_gpus,deadline_s\n" + "".join(
            f"{300 * i},1200,2,{1500 + 300 * i}\n" for i in range(20))
        options = ["--nodes", 8, *GPU[:2], "--class", "vision", "--value", 3]
        free = run("pd-rats-safe", text, *options)
        got = run("pd-rats-safe", text, *options, "--storage-mb-s", 1200)
        self.assertEqual((free["rejected"], got["deadline_misses"] - got["rejected"], got["sharing_jobs"]), (0, 0, 0))
        self.assertTrue(8 <= got["rejected"] <= 12, got["rejected"])  # two can run at once, of four that want to
        self.assertEqual((free["assumed"]["read_mb_s"], got["assumed"]["read_mb_s"]), (0, 545))
        self.assertGreater(got["proven_ratio"], free["proven_ratio"])
        self.assertLess(-got["cost_j"], -free["cost_j"])
        self.assertEqual(got["not_proven"], [])
        shown = run("pd-rats-safe", text, *options, "--storage-mb-s", 1200, as_json=False)
        self.assertIn("and reads of up to 545 of 1200 MB/s (from these jobs)", shown)

    def test_jobs_that_read_all_there_is(self):
        text = "submit_s,duration_s,num_gpus,deadline_s\n" + "0,1200,2,1500\n" + 2 * "0,1200,1,1500\n"
        options = ["--nodes", 1, *GPU[:2], "--class", "vision", "--value", 3]
        got = run("pd-rats-safe", text, *options, "--storage-mb-s", 545.9)
        self.assertIn("1 job with modes that take all GPUs of their type or all of the storage: compared only with "
                      "their other modes", got["not_proven"])
        self.assertEqual((got["rejected"], got["deadline_misses"] - got["rejected"]), (2, 0))  # 284 MB/s a GPU
        one = run("pd-rats-safe", "submit_s,duration_s,num_gpus,deadline_s\n0,1200,1,1500\n", *options[:-3], "compute",
                  *options[-2:], "--storage-mb-s", 100)
        self.assertEqual((one["rejected"], one["assumed"]["read_mb_s"]), (0, 1))
        links = run("pd-rats-safe", text, *options, "--contention")
        self.assertEqual((links["proven_ratio"], len(links["not_proven"])), (None, 1))
        self.assertIn("shared resources", links["not_proven"][0])

    def test_menus_that_are_cut(self):
        text = "submit_s,duration_s,num_gpus\n" + 10 * "0,40000000,1\n"
        got = run("pd-rats-safe", text, "--nodes", 1, "--value", 3)
        self.assertEqual(got["rejected"], 0)
        text = VALUES + "0,400000000,1,,1e15\n0,300,1,1e9,1e15\n"
        got = run("pd-rats-safe", text, "--nodes", 1)
        for said in ("1 job beyond the last slot", "1 job whose latest starts lie beyond the last slot"):
            self.assertTrue(any(said in note for note in got["not_proven"]), got["not_proven"])

    def test_values_and_capacity(self):
        """Eighty jobs that may stop, for eight GPUs that could run sixteen of them in time."""
        text = VALUES + 80 * "0,600,1,1200,1e7\n"
        got = run("pd-rats", text, "--knob", 0, "--nodes", 1, "--preemptible")
        self.assertEqual(got["rejected"], 64)
        self.assertLess(got["certificate_ratio"], 1.02)

    def test_jobs_that_fit_at_once(self):
        text = VALUES + 100 * "0,300,1,86400,1e6\n"
        got = run("pd-rats-safe", text, "--nodes", 8)
        self.assertEqual((got["rejected"], got["makespan_s"]), (0, 600))

    def test_what_is_given(self):
        text = VALUES + 4 * "0,300,2,86400,2e6\n"
        got = run("pd-rats-safe", text, "--nodes", 1, "--posted-gang", 4, "--posted-least", 1e5, "--posted-most", 1e7)
        self.assertEqual((got["assumed"]["gang"], got["assumed"]["least_j"], got["assumed"]["most_j"]), (4, 1e5, 1e7))
        self.assertTrue(got["assumed"]["gang_is_given"] and got["assumed"]["range_is_given"])
        got = run("pd-rats-safe", text, "--nodes", 1, "--posted-least", 1e9, "--posted-most", 1e10)
        self.assertIsNone(got["proven_ratio"])
        self.assertIn("4 jobs with modes out of the assumed ranges: compared only with their other modes",
                      got["not_proven"])
        got = run("pd-rats-safe", text, "--nodes", 1, "--posted-ratio", 50)
        self.assertEqual(got["proven_ratio"], 50)

    def test_gains_are_said_as_gains(self):
        shown = run("pd-rats-safe", VALUES + "0,300,1,600,1e6\n", "--nodes", 1, as_json=False)
        self.assertIn("the optimum gains at most 1.000 times as much", shown)
        self.assertNotIn("times the optimum", shown)


if __name__ == "__main__":
    unittest.main()
