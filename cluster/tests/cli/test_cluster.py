"""lull simulate cluster: recorded runs from the command line, sums that an independent
count of its own table agrees with, and bad input refused in words.

Usage: test_cluster.py LULL DIRECTORY_OF_SCHEDULING_DATA
SPDX-License-Identifier: Apache-2.0"""
import csv
import gzip
import os
import sys
import tempfile
import unittest

import cluster_case
from cluster_case import table

LULL = os.path.abspath(sys.argv[1])
TRACES = os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), "cluster")
RUNNER = cluster_case.Runner(LULL, "fifo")
cluster, answer = RUNNER.run, RUNNER.answer
del sys.argv[1:3]


class BadInput(unittest.TestCase):
    def refused(self, done, status, *words):
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_policies(self):
        self.refused(cluster(policy=""), 2, "job table")
        self.refused(cluster("x.csv", policy=""), 2, "--policy NAME")
        self.refused(cluster("x.csv", policy="fifi"), 2, "did you mean fifo?")
        self.refused(cluster("x.csv", policy="none"), 2, "none")
        self.assertIn("fifo", cluster("--help", policy="").stdout)


@unittest.skipUnless(os.path.exists(os.path.join(TRACES, "philly_helios_fifo.csv.gz")), f"no {TRACES}")
class RecordedQueue(unittest.TestCase):
    def test_every_start_and_placement(self):
        """68,503 jobs of Philly under FIFO, as the Helios simulator placed them."""
        with gzip.open(os.path.join(TRACES, "philly_jobs.csv.gz"), "rt") as file:
            known = {row["job_id"]: row for row in csv.DictReader(file)}
        with gzip.open(os.path.join(TRACES, "philly_helios_fifo.csv.gz"), "rt") as file:
            recorded = list(csv.DictReader(file))
        with tempfile.TemporaryDirectory() as directory:
            jobs, ran = os.path.join(directory, "jobs.csv"), os.path.join(directory, "ran.csv")
            with open(jobs, "w", encoding="utf-8") as file:
                file.write("job_id,submit_s,vc,num_gpus,duration_s\n")
                for row in recorded:
                    job = known[row["job_id"]]
                    file.write(f"{row['job_id']},{row['submit_s']},{row['vc']},{job['num_gpus']},"
                               f"{int(float(job['duration_s']))}\n")
            got = answer(jobs, "--pools", os.path.join(TRACES, "philly_vc_nodes.csv"), "--jobs-out", ran, policy="fifo")
            rows = {row["job_id"]: row for row in table(ran)}
        self.assertEqual((got["jobs"], got["rejected"], got["never_started"], got["nodes"]), (68503, 0, 0, 352))
        self.assertAlmostEqual(got["average_completion_s"], 11585.587142, places=6)
        self.assertAlmostEqual(got["average_queue_s"], 104.906296, places=6)
        for row in recorded:
            self.assertEqual((float(rows[row["job_id"]]["start_s"]), rows[row["job_id"]]["placement"]),
                             (float(row["start_s"]), row["placement"]))

    def test_deadlines(self):
        """Chronus's jobs in one pool, against an independent program (ties are in another order)."""
        for policy, met in (("fifo", 7664), ("edf", 21736)):
            got = answer(os.path.join(TRACES, "chronus_philly_mix2.csv.gz"), "--nodes", 120, policy=policy)
            self.assertEqual((got["jobs"], got["without_gpus"]), (30746, 194))
            self.assertAlmostEqual((27621 - got["deadline_misses"]) / met, 1.0, delta=0.002)


class Queue(unittest.TestCase):
    JOBS = "job_id,submit_s,vc,num_gpus,duration_s,deadline_s\n" \
           "a,0,x,8,10,100\nb,1,x,8,20,100\nc,2,x,2,5,20\nd,3,x,17,5,100\ne,4,y,1,5,100\n"

    def test_orders_and_energy(self):
        ends = {"fifo": [10, 30, 35], "edf": [10, 35, 15], "sjf": [10, 35, 15], "lpt": [10, 30, 35],
                "backfill": [10, 30, 35], "backfill-conservative": [10, 30, 35], "srtf": [10, 35, 15],
                "srsf": [10, 35, 15], "hdf": [10, 35, 15], "powerflow": [10, 35, 15]}
        for policy, expected in ends.items():
            with tempfile.TemporaryDirectory() as directory:
                pools, ran = os.path.join(directory, "pools.csv"), os.path.join(directory, "ran.csv")
                with open(pools, "w", encoding="utf-8") as file:
                    file.write("vc,nodes\nx,1\n")
                got = answer("-", "--pools", pools, "--run-w", 300, "--idle-w", 50, "--jobs-out", ran, text=self.JOBS,
                             policy=policy)
                rows = {row["job_id"]: row for row in table(ran)}
            self.assertEqual([float(rows[name]["end_s"]) for name in "abc"], expected)
            self.assertEqual([rows[name]["fate"] for name in "abcde"], ["done"] * 3 + ["rejected"] * 2)
            self.assertEqual(rows["a"]["placement"], "0:8")
            busy = 8 * 10 + 8 * 20 + 2 * 5
            self.assertAlmostEqual(got["run_j"], 300 * busy)
            self.assertAlmostEqual(got["idle_j"], 50 * (8 * got["makespan_s"] - busy))
            late = sum(float(rows[name]["end_s"]) > due for name, due in (("a", 100), ("b", 100), ("c", 20)))
            self.assertEqual((got["jobs"], got["rejected"], got["deadline_misses"]), (5, 2, late + 2))
            self.assertEqual([(pool["pool"], pool["gpus"], pool["jobs"]) for pool in got["pools"]],
                             [("x", 8, 4), ("others", 0, 1)])

    def test_preemption(self):
        with tempfile.TemporaryDirectory() as directory:
            ran = os.path.join(directory, "ran.csv")
            got = answer("-", "--nodes", 1, "--preemptible", "--run-w", 300, "--idle-w", 0, "--jobs-out", ran,
                         text=self.JOBS, policy="srtf")
            rows = {row["job_id"]: row for row in table(ran)}
        # c stops a at 2, e runs from 4 to 9; then b is shorter than a, which needs 30 s to begin again.
        self.assertEqual([float(rows[name]["end_s"]) for name in "abc"], [67, 29, 7])
        self.assertAlmostEqual(got["run_j"], 300 * (8 * 10 + 8 * 20 + 2 * 5 + 5 + 8 * 30))

    def test_bound(self):
        got = answer("-", "--nodes", 1, text=self.JOBS, policy="edf")
        self.assertEqual((got["bound_j"], got["certificate_ratio"]), (None, None))
        for option in ("--bound", "--bound=3"):
            got = answer("-", "--nodes", 1, option, text=self.JOBS, policy="edf")
            self.assertAlmostEqual(got["run_bound_j"], got["run_j"], delta=1e-9 * got["run_j"])  # of one mode each
            self.assertTrue(got["run_bound_j"] <= got["bound_j"] <= got["energy_j"])
            self.assertEqual(got["not_bounded"], [])
            self.assertAlmostEqual(got["certificate_ratio"], got["energy_j"] / got["bound_j"], delta=1e-12)
        # Idle GPUs, for 900 s of 1100, can only be saved where nodes may be turned off.
        text = "submit_s,num_gpus,duration_s\n0,8,100\n1000,8,100\n"
        got = answer("-", "--nodes", 1, "--bound", text=text, policy="fifo")
        self.assertAlmostEqual(got["bound_j"] / got["energy_j"], 1.0, delta=1e-9)
        got = answer("-", "--nodes", 1, "--bound", "--power-down", "--off-w", 10, text=text, policy="fifo")
        self.assertAlmostEqual(got["bound_j"], got["run_j"] + 900 * 10, delta=1e-3)
        self.assertTrue(any("turning on" in note for note in got["not_bounded"]))
        self.assertIn("bound ", cluster("-", "--nodes", 1, "--bound", text=self.JOBS, policy="fifo").stdout)
        self.assertEqual(cluster("-", "--nodes", 1, "--bound=0", text=self.JOBS, policy="fifo").returncode, 2)

    def test_bad_input_is_said(self):
        for text, options, said in (
                ("", ["--nodes", 1], "is empty"), (self.JOBS, ["--nodes", 1, "--knob", 3], "has no knob"),
                ("job_id,submit_s,num_gpus,duration_s\na,-1,1,1\n", ["--nodes", 1], "line 2, submit_s"),
                ("job_id,submit_s,num_gpus,duration_s,deadline_s\na,5,1,1,4\n", ["--nodes", 1], "before the job"),
                (self.JOBS, [], "--pools or --nodes"), (self.JOBS, ["--nodes", 0], "give a whole number from 1"),
                (self.JOBS, ["--nodes", 1, "--pools", "x"], "--pools and --nodes exclude each other"),
                (self.JOBS, ["--pools", "/nonexistent"], "/nonexistent"),
                (self.JOBS, ["--nodes", 1, "--gpus-per-node", 65], "give a whole number from 1 to 64")):
            done = cluster("-", *options, text=text, policy="fifo")
            self.assertEqual(done.returncode, 1 if "nonexistent" in said else 2, done.stderr)
            self.assertIn(said, done.stderr)
        with tempfile.TemporaryDirectory() as directory:
            pools = os.path.join(directory, "pools.csv")
            for text, said in (("vc,node\n", "line 1"), ("vc,nodes\nx,0\n", "line 2"), ("vc,nodes\nx,1\nx,2\n", "line 3"),
                               ("vc,nodes\n", "no cluster"), ("vc,nodes\n,1\n", "line 2"), ("vc,nodes\nx,1,2\n", "line 2")):
                with open(pools, "w", encoding="utf-8") as file:
                    file.write(text)
                done = cluster("-", "--pools", pools, text=self.JOBS, policy="fifo")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
