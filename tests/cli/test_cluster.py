"""lull simulate cluster: recorded runs from the command line, sums that an independent
count of its own table agrees with, and bad input refused in words.

Usage: test_cluster.py LULL DIRECTORY_OF_SCHEDULING_DATA
SPDX-License-Identifier: Apache-2.0"""
import csv
import gzip
import json
import os
import statistics
import sys
import tempfile
import unittest

import cluster_case
from cluster_case import table

LULL = os.path.abspath(sys.argv[1])
EDL = os.path.join(os.path.abspath(sys.argv[2]), "edl")
ADA = os.path.join(os.path.dirname(EDL), "ada")
TRACES = os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), "cluster")
RUNNER = cluster_case.Runner(LULL, "edl")
cluster, answer = RUNNER.run, RUNNER.answer
del sys.argv[1:3]
HAS_DATA = os.path.exists(os.path.join(EDL, "golden_online.csv"))
HEADER = "job_id,arrival,deadline,d,t0,delta,p0_w,gamma_w,cg_w\n"
ROW = "1,0,300,100,20,0.4,50,30,100\n"


@unittest.skipUnless(HAS_DATA, f"no {EDL}")
class RecordedEdl(unittest.TestCase):
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
        done = cluster("-", text=HEADER + ROW)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1, 0 rejected, 0 after their deadline", done.stdout)
        # \r\n, columns in another order, one that nobody knows
        done = cluster("-", text="note,deadline,arrival,job_id,d,t0,delta,p0_w,gamma_w,cg_w\r\n"
                                 "x,300,0,1,100,20,.4,50,30,100\r\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class BadInput(unittest.TestCase):
    def refused(self, done, status, *words):
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_options(self):
        self.refused(cluster(policy=""), 2, "edl")
        self.refused(cluster("x.csv", policy="none"), 2, "none")
        self.assertIn("edl", cluster("--help", policy="").stdout)
        self.assertIn("--theta", cluster("--help").stdout)
        self.refused(cluster(), 2, "file of tasks or --draw")
        self.refused(cluster("a.csv", "b.csv"), 2, "b.csv")
        self.refused(cluster("a.csv", "--draw", 1), 2, "--draw")
        for words in (("--theta", 2), ("--variant", "mended"), ("--place", "x"), ("--order", "x"), ("--gpus", -1),
                      ("--gpus-per-node", 0), ("--range", "x"), ("--error", "x"), ("--idle-w", "nan"), ("--seed", "x"),
                      ("--first", 0), ("--turn-on-j", -1), ("--draw", 0)):
            self.refused(cluster("a.csv", *words), 2, str(words[1]))
        self.refused(cluster("--draw", 1, "--gpus", 10, "--gpus-per-node", 4), 2, "multiple")

    def test_files(self):
        self.refused(cluster("/nonexistent"), 1, "/nonexistent")
        for text, words in (
                ("", ["empty"]), (HEADER, ["no tasks"]), (HEADER.replace("delta,", ""), ["line 1", "delta"]),
                (HEADER.replace("t0", "d"), ["line 1", "d", "twice"]), (HEADER + ROW + "1,2\n", ["line 3", "fewer"]),
                (HEADER + ROW.replace("\n", ",1\n"), ["line 2", "more"]), (HEADER + ROW.replace("0.4", "4"), ["delta"]),
                (HEADER + ROW.replace("100,20", "0,0"), ["line 2", "no time"]), (HEADER + "x" + ROW, ["job_id"]),
                (HEADER + ROW.replace("300", "0"), ["deadline"]), (HEADER + ROW.replace("50,30,100", "0,0,0"), ["power"]),
                (HEADER + ROW.replace("300", "nan"), ["deadline", "not a number"])):
            self.refused(cluster("-", text=text), 1 if words == ["no tasks"] else 2, *words)
        late = cluster("-", text=HEADER + ROW.replace("1,0,", "1,5,"))
        self.refused(late, late.returncode, "online")
        self.assertNotEqual(late.returncode, 0)

    def test_jobs_out(self):
        self.refused(cluster("-", "--jobs-out", "/nonexistent/jobs.csv", text=HEADER + ROW), 1, "/nonexistent")


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


class SharedGpus(unittest.TestCase):
    NAMES = "job_id start_time nworkers dnn iters fw_time bw_time model_size train_mem".split()
    JOBS = [(0, 5, 2, "a", 3, 10, 20, 10.5, 4000), (1, 0, 6, "b,c", 2, 5, 7, 99.5, 4000), (12, 0, 1, "d", 4, 1, 1, 0, 0)]

    def as_table(self, jobs=None):
        return "\n".join(",".join(str(cell).replace(",", "") for cell in row)
                         for row in [self.NAMES] + (jobs or self.JOBS)) + "\n"

    @unittest.skipUnless(HAS_DATA, f"no {EDL}")
    def test_recorded(self):
        with open(os.path.join(ADA, "jct-160-s1-x10.csv"), encoding="utf-8") as file:
            recorded = list(csv.DictReader(file))
        for column, words in (("lwf1_ada", ["--variant", "published"]), ("lwf1_ada_corrected", []),
                              ("ff_srsf2", ["--place", "ff", "--transfers", "srsf2"]),
                              ("lwf4_srsf1", ["--place", "lwf-4", "--transfers", "srsf1"])):
            with tempfile.TemporaryDirectory() as directory:
                ran = os.path.join(directory, "ran.csv")
                got = answer(os.path.join(ADA, "jobs-160-s1-x10.csv"), *words, "--jobs-out", ran, policy="ada-srsf")
                rows = {row["job_id"]: row for row in table(ran)}
            took = {row["job_id"]: int(row[column]) for row in recorded}
            for job, row in rows.items():
                self.assertEqual(round(1000 * (float(row["end_s"]) - float(row["submit_s"]))), took[job])
            self.assertAlmostEqual(got["average_completion_s"], statistics.mean(took.values()) / 1000, places=9)

    def test_forms_agree(self):
        expected = answer("-", text=self.as_table(), policy="ada-srsf")
        writers = [json.dumps, lambda job: "{" + ",\n ".join(f"{k}: '{v}'" for k, v in job.items()) + "}",
                   lambda job: "".join(f"{k}: {v}\n" for k, v in job.items())]
        with tempfile.TemporaryDirectory() as directory:
            for row, write in zip(self.JOBS, writers):
                with open(os.path.join(directory, f"job_{row[0]}.json"), "w", encoding="utf-8") as file:
                    file.write(write(dict(zip(self.NAMES, row))))
            ran = directory + "/ran.csv"
            got = answer(directory, "--jobs-out", ran, policy="ada-srsf")
            rows = table(ran)
        self.assertEqual(got, expected)
        self.assertEqual([row["job_id"] for row in rows], ["0", "1", "12"])
        self.assertEqual([row["net"] for row in rows], ["a", "b;c", "d"])
        self.assertEqual(sum(int(share.split(":")[1]) for share in rows[1]["placement"].split()), 6)
        busy_s = sum(row[2] * row[4] * (row[5] + row[6]) for row in self.JOBS) / 1000
        self.assertAlmostEqual(got["run_j"], 350 * busy_s)
        self.assertAlmostEqual(got["idle_j"], 60 * (64 * got["makespan_s"] - busy_s))
        self.assertEqual((got["variant"], got["errors"]), ("repaired", ["skips-after-removal"]))

    def test_choices(self):
        for words in (["--transfers", "ours"], ["--transfers", "srsf3"], ["--place", "random", "--seed", 4],
                      ["--variant", "repaired-lists"], ["--nodes", 2, "--gpus-per-node", 3]):
            got = answer("-", *words, text=self.as_table(), policy="ada-srsf")
            self.assertEqual((got["jobs"], got["rejected"]), (3, 0))
        jobs = self.JOBS + [(13, 0, 65, "e", 1, 1, 1, 0, 0), (14, 0, 1, "f", 1, 1, 1, 0, 40000)]
        with tempfile.TemporaryDirectory() as directory:
            got = answer("-", "--jobs-out", directory + "/ran.csv", text=self.as_table(jobs), policy="ada-srsf")
            self.assertEqual([row["reason"] for row in table(directory + "/ran.csv")][3:],
                             ["more GPUs than there are", "more memory than a GPU has"])
        self.assertEqual((got["jobs"], got["rejected"]), (5, 2))
        # nothing happens for 30 years
        got = answer("-", text=self.as_table([(0, 10 ** 12, 1, "a", 1, 1, 1, 0, 0)]), policy="ada-srsf")
        self.assertAlmostEqual(got["average_completion_s"], 0.002)

    def test_bad_input_is_said(self):
        one = self.as_table([self.JOBS[0]])
        with tempfile.TemporaryDirectory() as empty:
            for path, text, options, status, said in (
                    ("-", "", [], 2, "is empty"), ("-", one.replace("iters", "turns"), [], 2, "no column iters"),
                    ("-", one.replace(",3,", ",0,"), [], 2, "line 2, iters"), (empty, None, [], 2, "no files job_0.json"),
                    ("/nonexistent", None, [], 1, "/nonexistent"), ("-", one, ["--transfers", "srsf0"], 2, "usable"),
                    ("-", one, ["--place", "lwf"], 2, "usable"), ("-", one, ["--variant", "mended"], 2, "usable"),
                    ("-", one, ["--error", "x"], 2, "usable"), ("-", one, ["--beta-ms", 0], 2, "usable"),
                    ("-", self.as_table([(0, 0, 8, "a", 10 ** 9, 10 ** 3, 1, 1, 0)]), [], 1, "fewer iterations")):
                done = cluster(path, *options, text=text, policy="ada-srsf")
                self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                self.assertIn(said, done.stderr)


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
                (self.JOBS, [], "--pools or --nodes"), (self.JOBS, ["--nodes", 0], "usable"),
                (self.JOBS, ["--nodes", 1, "--pools", "x"], "--pools or --nodes"),
                (self.JOBS, ["--pools", "/nonexistent"], "/nonexistent"),
                (self.JOBS, ["--nodes", 1, "--gpus-per-node", 65], "usable")):
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
