"""lull-reproduce ada-srsf: recorded completion times from the command line, the forms of job files agree, and
bad input is refused in words.

Usage: test_ada_srsf_command.py LULL_REPRODUCE DIRECTORY_OF_SCHEDULING_DATA
SPDX-License-Identifier: Apache-2.0"""
import csv
import json
import os
import statistics
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import reproduce_case  # pylint: disable=wrong-import-position
from reproduce_case import table  # pylint: disable=wrong-import-position

ADA = os.path.join(os.path.abspath(sys.argv[2]), "ada")
RUNNER = reproduce_case.Runner(sys.argv[1], "ada-srsf")
ada_srsf, answer = RUNNER.run, RUNNER.answer
del sys.argv[1:3]
HAS_DATA = os.path.exists(os.path.join(ADA, "jct-160-s1-x10.csv"))


class SharedGpus(unittest.TestCase):
    NAMES = "job_id start_time nworkers dnn iters fw_time bw_time model_size train_mem".split()
    JOBS = [(0, 5, 2, "a", 3, 10, 20, 10.5, 4000), (1, 0, 6, "b,c", 2, 5, 7, 99.5, 4000), (12, 0, 1, "d", 4, 1, 1, 0, 0)]

    def as_table(self, jobs=None):
        return "\n".join(",".join(str(cell).replace(",", "") for cell in row)
                         for row in [self.NAMES] + (jobs or self.JOBS)) + "\n"

    @unittest.skipUnless(HAS_DATA, "no recorded runs")
    def test_recorded(self):
        with open(os.path.join(ADA, "jct-160-s1-x10.csv"), encoding="utf-8") as file:
            recorded = list(csv.DictReader(file))
        for column, words in (("lwf1_ada", ["--variant", "published"]), ("lwf1_ada_corrected", []),
                              ("ff_srsf2", ["--place", "ff", "--transfers", "srsf2"]),
                              ("lwf4_srsf1", ["--place", "lwf-4", "--transfers", "srsf1"])):
            with tempfile.TemporaryDirectory() as directory:
                ran = os.path.join(directory, "ran.csv")
                got = answer(os.path.join(ADA, "jobs-160-s1-x10.csv"), *words, "--jobs-out", ran)
                rows = {row["job_id"]: row for row in table(ran)}
            took = {row["job_id"]: int(row[column]) for row in recorded}
            for job, row in rows.items():
                self.assertEqual(round(1000 * (float(row["end_s"]) - float(row["submit_s"]))), took[job])
            self.assertAlmostEqual(got["average_completion_s"], statistics.mean(took.values()) / 1000, places=9)

    def test_forms_agree(self):
        expected = answer("-", text=self.as_table())
        writers = [json.dumps, lambda job: "{" + ",\n ".join(f"{k}: '{v}'" for k, v in job.items()) + "}",
                   lambda job: "".join(f"{k}: {v}\n" for k, v in job.items())]
        with tempfile.TemporaryDirectory() as directory:
            for row, write in zip(self.JOBS, writers):
                with open(os.path.join(directory, f"job_{row[0]}.json"), "w", encoding="utf-8") as file:
                    file.write(write(dict(zip(self.NAMES, row))))
            ran = directory + "/ran.csv"
            got = answer(directory, "--jobs-out", ran)
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
            got = answer("-", *words, text=self.as_table())
            self.assertEqual((got["jobs"], got["rejected"]), (3, 0))
        jobs = self.JOBS + [(13, 0, 65, "e", 1, 1, 1, 0, 0), (14, 0, 1, "f", 1, 1, 1, 0, 40000)]
        with tempfile.TemporaryDirectory() as directory:
            got = answer("-", "--jobs-out", directory + "/ran.csv", text=self.as_table(jobs))
            self.assertEqual([row["reason"] for row in table(directory + "/ran.csv")][3:],
                             ["more GPUs than there are", "more memory than a GPU has"])
        self.assertEqual((got["jobs"], got["rejected"]), (5, 2))
        # nothing happens for 30 years
        got = answer("-", text=self.as_table([(0, 10 ** 12, 1, "a", 1, 1, 1, 0, 0)]))
        self.assertAlmostEqual(got["average_completion_s"], 0.002)

    def test_bad_input_is_said(self):
        one = self.as_table([self.JOBS[0]])
        with tempfile.TemporaryDirectory() as empty:
            for path, text, options, status, said in (
                    ("-", "", [], 2, "is empty"), ("-", one.replace("iters", "turns"), [], 2, "missing column iters"),
                    ("-", one.replace(",3,", ",0,"), [], 2, "line 2, iters"), (empty, None, [], 2, "no files job_0.json"),
                    ("/nonexistent", None, [], 1, "/nonexistent"), ("-", one, ["--transfers", "srsf0"], 2, ": give "),
                    ("-", one, ["--place", "lwf"], 2, ": give "), ("-", one, ["--variant", "mended"], 2, ": give "),
                    ("-", one, ["--error", "x"], 2, ": give "), ("-", one, ["--beta-ms", 0], 2, ": give "),
                    ("-", self.as_table([(0, 0, 8, "a", 10 ** 9, 10 ** 3, 1, 1, 0)]), [], 1, "fewer iterations")):
                done = ada_srsf(path, *options, text=text)
                self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
