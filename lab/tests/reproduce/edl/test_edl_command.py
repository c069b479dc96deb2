"""lull-reproduce edl: recorded runs from the command line, sums that an independent count of its own table
agrees with, and bad input refused in words.

Usage: test_edl_command.py LULL_REPRODUCE DIRECTORY_OF_SCHEDULING_DATA
SPDX-License-Identifier: Apache-2.0"""
import gzip
import os
import statistics
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import reproduce_case  # pylint: disable=wrong-import-position
from reproduce_case import table  # pylint: disable=wrong-import-position

EDL = os.path.join(os.path.abspath(sys.argv[2]), "edl")
RUNNER = reproduce_case.Runner(sys.argv[1], "edl")
edl, answer = RUNNER.run, RUNNER.answer
del sys.argv[1:3]
HAS_DATA = os.path.exists(os.path.join(EDL, "golden_online.csv"))
HEADER = "job_id,arrival,deadline,d,t0,delta,p0_w,gamma_w,cg_w\n"
ROW = "1,0,300,100,20,0.4,50,30,100\n"


@unittest.skipUnless(HAS_DATA, "no recorded runs")
class Recorded(unittest.TestCase):
    def test_every_task(self):
        for variant, theta in (("published", "0.5"), ("repaired", "1.0")):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "jobs.csv")
                answer(os.path.join(EDL, "offline-s1.csv.gz"), "--first", 2048, "--gpus-per-node", 16, "--theta", theta,
                       "--variant", variant, "--jobs-out", path)
                with open(path, encoding="utf-8") as file:
                    written = file.read()
            name = f"jobs-s1-u1.0-l16-th{theta}-{variant}.csv.gz"
            with gzip.open(os.path.join(EDL, name), "rt") as file:
                self.assertEqual(written, file.read().replace("\r\n", "\n"))

    def test_online(self):
        got = answer(os.path.join(EDL, "online-s1-u1.6.csv.gz"), "--online", "--gpus-per-node", 16)
        self.assertEqual((got["jobs"], got["turn_ons"], got["deadline_misses"], got["rejected"]), (4095, 51, 0, 0))
        self.assertAlmostEqual(got["run_j"] / 81419472.32, 1.0, delta=1e-9)
        self.assertAlmostEqual(got["idle_j"], 37 * got["idle_gpu_s"], delta=1e-3)
        self.assertEqual(got["turn_on_j"], 90 * 51)
        off = answer(os.path.join(EDL, "online-s1-u1.6.csv.gz"), "--online", "--gpus-per-node", 16, "--no-dvfs",
                     "--place", "bin")
        self.assertEqual((off["turn_ons"], off["idle_gpu_s"]), (30, 88727))


class Own(unittest.TestCase):
    def test_sums(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "jobs.csv")
            got = answer("--draw", 0.2, "--online", "--gpus-per-node", 4, "--frugal", "--place", "pack", "--theta", 0.8,
                         "--jobs-out", path)
            rows = table(path)
        self.assertEqual(len(rows), 409 + 819)
        self.assertEqual(got["jobs"], len(rows))
        run_j = sum(float(row["time"]) * float(row["power_w"]) for row in rows)
        self.assertAlmostEqual(got["run_j"] / run_j, 1.0, delta=1e-6)
        self.assertAlmostEqual(got["makespan_s"], max(float(row["finish"]) for row in rows), delta=1e-5)
        self.assertAlmostEqual(got["energy_j"], got["run_j"] + got["idle_j"] + got["turn_on_j"], delta=1e-3)
        self.assertEqual(got["deadline_misses"], 0)

    def test_times_of_a_file(self):
        text = HEADER + "".join(f"{i},0,{1000 + i},{100 + i},20,0.4,50,30,100\n" for i in range(200))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "jobs.csv")
            got = answer("-", "--jobs-out", path, text=text)
            finish = sorted(float(row["finish"]) for row in table(path))
        self.assertAlmostEqual(got["average_completion_s"], statistics.mean(finish), delta=1e-5)
        cut = statistics.quantiles(finish, n=100, method="inclusive")
        self.assertAlmostEqual(got["p99_completion_s"], cut[98], delta=1e-5)

    def test_seeds(self):
        first = answer("--draw", 0.1, "--seed", 4)
        self.assertEqual(first, answer("--draw", 0.1, "--seed", 4))
        self.assertNotEqual(first["run_j"], answer("--draw", 0.1, "--seed", 5)["run_j"])

    def test_ranges_and_errors(self):
        wide, narrow, off = (answer("--draw", 0.2, *more)["run_j"]
                             for more in ((), ("--range", "measured"), ("--no-dvfs",)))
        self.assertTrue(wide < narrow < off)
        got = answer("--draw", 0.2, "--error", "starts-in-past", "--error", "arrival-unchecked")
        self.assertEqual(got["errors"], ["arrival-unchecked", "starts-in-past"])
        self.assertGreater(got["deadline_misses"], 0)
        self.assertEqual(len(answer("--draw", 0.2, "--variant", "published")["errors"]), 4)

    def test_people(self):
        done = edl("-", text=HEADER + ROW)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1, 0 rejected, 0 after their deadline", done.stdout)
        # \r\n, columns in another order, one that nobody knows
        done = edl("-", text="note,deadline,arrival,job_id,d,t0,delta,p0_w,gamma_w,cg_w\r\n"
                                 "x,300,0,1,100,20,.4,50,30,100\r\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class BadInput(unittest.TestCase):
    def refused(self, done, status, *words):
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_options(self):
        self.assertIn("--theta", edl("--help").stdout)
        self.refused(edl(), 2, "file of tasks or --draw")
        self.refused(edl("a.csv", "b.csv"), 2, "b.csv")
        self.refused(edl("a.csv", "--draw", 1), 2, "--draw")
        for words in (("--theta", 2), ("--variant", "mended"), ("--place", "x"), ("--order", "x"), ("--gpus", -1),
                      ("--gpus-per-node", 0), ("--range", "x"), ("--error", "x"), ("--idle-w", "nan"), ("--seed", "x"),
                      ("--first", 0), ("--turn-on-j", -1), ("--draw", 0)):
            self.refused(edl("a.csv", *words), 2, str(words[1]))
        self.refused(edl("--draw", 1, "--gpus", 10, "--gpus-per-node", 4), 2, "multiple")

    def test_files(self):
        self.refused(edl("/nonexistent"), 1, "/nonexistent")
        for text, words in (
                ("", ["empty"]), (HEADER, ["no tasks"]), (HEADER.replace("delta,", ""), ["line 1", "delta"]),
                (HEADER.replace("t0", "d"), ["line 1", "d", "twice"]), (HEADER + ROW + "1,2\n", ["line 3", "fewer"]),
                (HEADER + ROW.replace("\n", ",1\n"), ["line 2", "more"]), (HEADER + ROW.replace("0.4", "4"), ["delta"]),
                (HEADER + ROW.replace("100,20", "0,0"), ["line 2", "no time"]), (HEADER + "x" + ROW, ["job_id"]),
                (HEADER + ROW.replace("300", "0"), ["deadline"]), (HEADER + ROW.replace("50,30,100", "0,0,0"), ["power"]),
                (HEADER + ROW.replace("300", "nan"), ["deadline", "not a number"])):
            self.refused(edl("-", text=text), 1 if words == ["no tasks"] else 2, *words)
        late = edl("-", text=HEADER + ROW.replace("1,0,", "1,5,"))
        self.refused(late, late.returncode, "online")
        self.assertNotEqual(late.returncode, 0)

    def test_jobs_out(self):
        self.refused(edl("-", "--jobs-out", "/nonexistent/jobs.csv", text=HEADER + ROW), 1, "/nonexistent")


if __name__ == "__main__":
    unittest.main()
