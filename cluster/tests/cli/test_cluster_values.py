"""lull simulate cluster with jobs that have a value: who gets it, who is rejected, what is said of it, and bad input
refused in words.

Usage: test_cluster_values.py LULL
SPDX-License-Identifier: Apache-2.0"""
import os
import sys
import tempfile
import unittest

import cluster_case
from cluster_case import table

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1:2]
RUNNER = cluster_case.Runner(LULL, "pd-rats")
cluster, answer = RUNNER.run, RUNNER.answer
HEADER = "job_id,submit_s,num_gpus,duration_s,deadline_s,value_j\n"
HOUR_J = 350 * 3600  # of a GPU with a job
# On 8 GPUs: b pays most; c has no time for anything else; d is worth less than it takes.
JOBS = HEADER + f"a,0,6,3600,7200,{10 * 6 * HOUR_J}\nb,0,6,3600,7200,{40 * 6 * HOUR_J}\n" \
                f"c,0,6,3600,3600,{5 * 6 * HOUR_J}\nd,0,1,3600,7200,{0.5 * HOUR_J}\n"


class Values(unittest.TestCase):
    def fates(self, *options, text=JOBS, policy=None):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "ran.csv")
            got = answer("-", "--nodes", 1, *options, "--jobs-out", path, text=text, policy=policy)
            return got, {row["job_id"]: row for row in table(path)}

    def test_who_gets_it(self):
        got, rows = self.fates("--knob", 0)
        values = {"a": 60 * HOUR_J, "b": 240 * HOUR_J, "c": 30 * HOUR_J, "d": 0.5 * HOUR_J}
        done = [name for name in values if rows[name]["fate"] == "done"]
        self.assertEqual(rows["d"]["fate"], "rejected")
        self.assertTrue(all(float(rows[name]["end_s"]) <= (3600 if name == "c" else 7200) for name in done))
        self.assertAlmostEqual(got["value_j"], sum(values[name] for name in done), delta=1)
        self.assertAlmostEqual(got["offered_j"], sum(values.values()), delta=1)
        self.assertEqual(got["rejected"], 4 - len(done))
        self.assertAlmostEqual(got["cost_j"], got["run_j"] - got["value_j"], delta=1)
        self.assertAlmostEqual(got["certificate_ratio"], got["bound_j"] / got["cost_j"], delta=1e-9)

    def test_late_is_worth_nothing(self):
        got, rows = self.fates(policy="fifo")
        self.assertEqual([rows[name]["fate"] for name in "abcd"], ["done"] * 4)
        self.assertAlmostEqual(got["value_j"], 300 * HOUR_J, delta=1)  # c and d end late
        self.assertEqual((got["rejected"], got["bound_j"]), (0, None))
        self.assertNotIn("cost_j", got)

    def test_option(self):
        text = "job_id,submit_s,num_gpus,duration_s,value_j\na,0,2,3600,\nb,0,4,3600,7e7\n"
        got = answer("-", "--nodes", 1, "--value", 3, "--knob", 0, text=text, policy="pd-rats")
        self.assertAlmostEqual(got["offered_j"], 3 * 2 * HOUR_J + 7e7, delta=1)
        # Of full clocks, whatever others there are.
        gpu = ["--gpu-types", "A100-SXM4-40GB", "--class", "compute"]
        full = answer("-", "--nodes", 1, *gpu, text=text, policy="fifo")
        got = answer("-", "--nodes", 1, *gpu, "--clocks", "--value", 3, "--knob", 0,
                     text=text.replace("7e7", ""), policy="pd-rats")
        self.assertAlmostEqual(got["offered_j"] / (3 * full["run_j"]), 1.0, delta=0.01)
        self.assertLess(got["run_j"], full["run_j"])

    def test_jobs_that_have_to_run(self):
        got = answer("-", "--nodes", 1, text=HEADER + "a,0,8,300,,\nb,0,8,300,,\n", policy="pd-rats")
        self.assertAlmostEqual(got["cost_j"], 2 * 8 * 300 * 350 + 500 * 900, delta=1)
        self.assertEqual(got["bound_j"], got["cost_bound_j"])
        self.assertLessEqual(got["bound_j"], got["cost_j"])
        self.assertAlmostEqual(got["certificate_ratio"], got["cost_j"] / got["bound_j"], delta=1e-9)
        self.assertLess(got["certificate_ratio"], 1.01)
        self.assertEqual((got["value_j"], got["offered_j"]), (0, 0))

    def test_jobs_that_pause(self):
        text = HEADER + "a,0,8,300,,\nb,0,8,900,,\nc,100,4,60,,\n"
        got = answer("-", "--nodes", 1, "--preemptible", text=text, policy="pd-rats")
        self.assertLessEqual(got["bound_j"], got["cost_j"])
        self.assertGreater(got["bound_j"], got["run_j"])
        self.assertAlmostEqual(got["certificate_ratio"], got["cost_j"] / got["bound_j"], delta=1e-9)
        self.assertLess(got["certificate_ratio"], 1.05)
        got = answer("-", "--nodes", 1, "--preemptible", "--knob", 0, text=text, policy="pd-rats")
        self.assertAlmostEqual(got["bound_j"] / (350 * (8 * 300 + 8 * 900 + 4 * 60)), 1.0, delta=1e-8)
        ratios = [answer("-", "--nodes", 1, "--preemptible", "--certificate-slots", slots, "--certificate-steps", steps,
                         text=text, policy="pd-rats")["certificate_ratio"] for slots, steps in ((7, 1), (300, 500))]
        self.assertGreater(ratios[0], ratios[1])
        # No other policy is below the bound.
        gpu = ["--nodes", 1, "--preemptible", "--gpu-types", "A100-SXM4-40GB", "--clocks", "--class", "compute"]
        bound = answer("-", *gpu, "--knob", 700, text=text, policy="pd-rats")["bound_j"]
        for policy in ("srtf", "srsf", "powerflow"):
            got = answer("-", *gpu, text=text, policy=policy)
            self.assertGreater(got["run_j"] + 700 * 3 * got["average_completion_s"], bound)

    def test_what_is_printed(self):
        shown = cluster("-", "--nodes", 1, "--knob", 0, text=JOBS).stdout
        for said in ("value   ", "gain   ", "certificate   "):
            self.assertIn(said, shown)

    def test_a_job_whose_gain_runs_out(self):
        text = HEADER + f"a,0,8,7200,,{100 * HOUR_J}\nb,10,8,600,,{2 * HOUR_J}\n"
        got = answer("-", "--nodes", 1, "--knob", 1000, text=text, policy="pd-rats")
        self.assertEqual((got["jobs"], got["rejected"]), (2, 1))

    def test_side_by_side(self):
        for names, text in (("all", JOBS), ("pd-rats,fifo", JOBS), ("all", HEADER + "a,0,1,300,,\n")):
            rows = answer("--policies", names, "-", "--nodes", 1, text=text, policy="")["compared"]
            rows = {row["policy"]: row for row in rows}
            self.assertIsNone(rows["fifo"]["bound_j"])
            self.assertIsNotNone(rows["pd-rats"]["certificate_ratio"])
            self.assertGreaterEqual(rows["pd-rats"]["certificate_ratio"], 1.0)

    def test_help(self):
        self.assertIn("pd-rats", cluster("--help", policy="").stdout)
        self.assertIn("--value", cluster("--help").stdout)

    def test_bad_input_is_said(self):
        row = "a,0,1,1,9,"
        for text, options, said in ((HEADER + row + "x\n", [], "line 2, value_j: not a number"),
                                    (HEADER + row + "0\n", [], "line 2, value_j"), (HEADER + row + "-1\n", [], "line 2"),
                                    (HEADER + row + "1e16\n", [], "line 2, value_j"),
                                    (HEADER + row + "nan\n", [], "line 2, value_j"),
                                    (HEADER.replace("deadline_s", "value_j"), [], "value_j"),
                                    (JOBS, ["--value", 0], "give a number above 0"), (JOBS, ["--value", "x"], "give a number above 0"),
                                    (JOBS, ["--policy", "fifo", "--knob", 1], "has no knob")):
            done = cluster("-", "--nodes", 1, *options, text=text, policy="" if "--policy" in options else None)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
