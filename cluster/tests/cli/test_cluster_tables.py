#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull simulate cluster and the tables that people bring: clocks that begin anywhere, pools, queues after preemption.

usage: test_cluster_tables.py LULL
"""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_case  # noqa: E402

RUNNER = cluster_case.Runner(sys.argv[1], "fifo")
HEADER = "job_id,submit_s,num_gpus,duration_s,vc\n"
JOBS = ((0, 8, 100, "A"), (10, 4, 200, "B"), (400, 8, 50, "A"), (420, 2, 30, "A"))


def jobs(offset=0):
    return HEADER + "".join(f"j{i},{offset + submit},{gpus},{length},{vc}\n"
                            for i, (submit, gpus, length, vc) in enumerate(JOBS))


class Place(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def file(self, name, text):
        path = os.path.join(self.place.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Clock(Place):
    """Results do not depend on where the table's clock has its zero."""

    def test_results(self):
        for policy in ("fifo", "srtf", "backfill"):
            runs = [RUNNER.answer("-", "--nodes", 2, "--power-down", text=jobs(offset), policy=policy)
                    for offset in (0, 61, 494319, 1714600000)]
            for run in runs[1:]:
                self.assertEqual(run, runs[0])

    def test_dates_are_a_clock(self):
        text = HEADER + "a,2024-05-02 09:00:00,8,100,A\nb,2024-05-02 10:00:50+01:00,8,100,A\n"
        self.assertAlmostEqual(RUNNER.answer("-", "--nodes", 1, text=text)["average_queue_s"], 25.0)

    def test_failures_and_prices_are_on_the_clock_of_the_table(self):
        answers = []
        for offset in (0, 1000000):
            failures = self.file("failures.csv", f"node,from_s,to_s\n0,{offset + 50},{offset + 80}\n1,{offset},"
                                 f"{offset + 5}\n" + (f"1,{offset - 50},{offset - 20}\n" if offset else ""))
            price = self.file("price.csv", f"time_s,price_per_kwh\n{offset},1\n{offset + 300},5\n")
            answers.append(RUNNER.answer("-", "--nodes", 2, "--failures", failures, "--price", price, text=jobs(offset)))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0]["job_failures"], 1)

    def test_written_times_are_of_the_table(self):
        path = os.path.join(self.place.name, "jobs.csv")
        done = RUNNER.run("-", "--nodes", 2, "--jobs-out", path, text=jobs(1000))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(float(row["submit_s"]), float(row["start_s"])) for row in cluster_case.table(path)],
                         [(1000, 1000), (1010, 1010), (1400, 1400), (1420, 1420)])
        explained = RUNNER.run("-", "--nodes", 2, "--explain", "j1", text=jobs(1000))
        self.assertIn("arrived at 1,010.0 s", explained.stdout)


class Pools(Place):
    def test_a_table_without_pools_is_a_usage_error(self):
        pools = self.file("pools.csv", "vc,nodes\nA,1\nB,1\n")
        done = RUNNER.run("-", "--pools", pools, text="job_id,submit_s,num_gpus,duration_s\na,0,8,100\n")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("--pools needs a column vc", done.stderr)

    def test_pools_that_are_not_there_are_named(self):
        done = RUNNER.run("-", "--pools", self.file("a.csv", "vc,nodes\nA,1\n"), "--json", text=jobs())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 4 jobs are in no pool", done.stderr)
        self.assertIn("'B'", done.stderr)
        done = RUNNER.run("-", "--pools", self.file("b.csv", "vc,nodes\na,1\nb,1\n"), text=jobs())
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("'A'", done.stderr)


class Queue(unittest.TestCase):
    def test_time_after_a_preemption_counts(self):
        """b preempts a, which waits again: 10 s before it goes on."""
        text = HEADER + "a,0,8,100,A\nb,20,8,10,A\n"
        run = RUNNER.answer("-", "--nodes", 1, "--preemptible", text=text, policy="srtf")
        self.assertEqual(run["preemptions"], 1)
        self.assertGreaterEqual(run["average_queue_s"] * 2, 10.0)
        self.assertAlmostEqual(run["average_queue_s"] * 2 + run["utilisation_ratio"] * run["makespan_s"],
                               run["average_completion_s"] * 2, places=6)


class LeftOut(unittest.TestCase):
    def test_counts(self):
        text = "job_id,submit_s,num_gpus,duration_s\na,0,8.0,10\nb,1,,10\nc,2,1,\nd,3,1,0\ne,,1,5\n"
        run = RUNNER.answer("-", "--nodes", 1, text=text)
        self.assertEqual([run[key] for key in ("jobs", "without_gpus", "without_duration", "of_no_duration",
                                               "without_submission")], [1, 1, 1, 1, 1])
        done = RUNNER.run("-", "--nodes", 1, text=text)
        self.assertIn("1 of unknown duration, 1 of unknown submission, 1 that took 0 s", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
