"""lull simulate cluster: jobs whose iteration was recorded.

Usage: test_cluster_workloads.py LULL CHAKRA_MESSAGES SIMAI_TEXT
SPDX-License-Identifier: Apache-2.0"""
import gzip
import json
import os
import shutil
import sys
import tempfile
import unittest

from cluster_case import Runner, table

LULL, MESSAGES, SIMAI = (os.path.abspath(one) for one in sys.argv[1:4])
del sys.argv[1:4]
RUNNER = Runner(LULL, "fifo")
OPTIONS = ["--nodes", 4, "--gpu-types", "A100-SXM4-40GB", "--clocks"]
# Two kernels and the gradients of the first beside the second.
KERNEL = {"Id": 1, "Name": "gemm", "NodeType": 4, "runtime": 300, "is_cpu_op": False, "data_deps": []}
TRACE = [KERNEL, {**KERNEL, "Id": 2, "runtime": 100, "data_deps": [1]},
         {**KERNEL, "Id": 3, "NodeType": 7, "runtime": 200, "data_deps": [1], "pg_name": "0"}]
LAYERS = "DATA model_parallel_NPU_group: 2 ep: 1 pp: {} vpp: 1 ga: 4 all_gpus: 16 pp_comm 0\n" \
         "1\nall -1 8000000 ALLREDUCE 2000000 9000000 NONE 0 9000000 ALLREDUCE 50000000 1\n"


def document(nodes):
    return json.dumps({"workload_graph": nodes})


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (gzip.open if name.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
            file.write(text)
        return path

    def jobs(self, *rows):
        """Each (GPUs, model, workload), 1000 s long."""
        lines = [f"{number},0,{gpus},1000,{model},{workload}" for number, (gpus, model, workload) in enumerate(rows)]
        return self.write("jobs.csv", "job_id,submit_s,num_gpus,duration_s,model,workload\n" + "\n".join(lines) + "\n")

    def explain(self, path, job, *options):
        return RUNNER.answer(path, *OPTIONS, "--explain", job, *options)["explained"]


class Recorded(Case):
    def test_modes(self):
        """Recorded jobs stand beside others, keep their time at the highest clock and need less at lower ones."""
        self.write("traces/one.json", document(TRACE))
        path = self.jobs((4, "bert", "traces/one.json"), (4, "bert", ""), (8, "resnet50", "traces/one.json"),
                         (2, "", os.path.join(self.folder, "traces", "one.json")))
        answer = RUNNER.answer(path, *OPTIONS)
        self.assertEqual((answer["job_modes"]["workloads"], answer["job_modes"]["workload_files"]), (3, 2))
        self.assertEqual(answer["job_modes"]["classes"], {"compute": 3, "vision": 1, "memory": 0, "host": 0})
        self.assertEqual(answer["job_modes"]["classes_drawn"], 0)
        self.assertAlmostEqual(answer["makespan_s"], 1000.0)
        by_class = self.explain(path, 1)
        self.assertIsNone(by_class["workload"])
        for job, gpus in ((0, 4), (2, 8), (3, 2)):
            got = self.explain(path, job)
            modes, workload = got["modes"], got["workload"]
            self.assertEqual((workload["form"], workload["step_s"]), ("Chakra", 0.0005))
            self.assertAlmostEqual(workload["iterations"], 2e6)
            self.assertAlmostEqual(workload["exposed_ratio"][0], 0.2)
            self.assertEqual(modes[0]["time_s"], 1000.0)
            self.assertTrue(2 <= len(modes) <= 16)
            self.assertTrue(all(mode["gpus"] == gpus for mode in modes))
            for one, other in zip(modes, modes[1:]):
                self.assertLess(one["time_s"], other["time_s"])
                self.assertGreater(one["energy_j"], other["energy_j"])
        # What is exposed does not slow down: for the same clock less time than the class says.
        clock = by_class["modes"][-1]
        same = [mode for mode in self.explain(path, 0)["modes"] if mode["sm_mhz"] <= clock["sm_mhz"]]
        self.assertTrue(same and same[0]["time_s"] < clock["time_s"] * 1.05)
        said = RUNNER.run(path, *OPTIONS, "--explain", 0).stdout
        self.assertIn("of the iteration recorded in traces/one.json: 0.500 ms, about 2,000,000 of them", said)
        self.assertIn("20.0 % of it exposed", said)
        self.assertIn("recorded workloads  3 jobs, of 2 files", RUNNER.run(path, *OPTIONS).stdout)

    def test_forms(self):
        """JSON, plain or not, and messages are the same graph; names say nothing."""
        node = {"Id": 5, "Name": "a", "NodeType": 4, "runtime": 1, "is_cpu_op": False, "data_deps": []}
        self.write("two.txt", document([{**node, "Id": 3, "data_deps": [5]}, node]))
        self.write("two.gz", document([{**node, "Id": 3, "data_deps": [5]}, node]))
        self.write("layers.json", LAYERS.format(1))
        path = self.jobs((8, "", "two.txt"), (8, "", "two.gz"), (8, "", MESSAGES), (8, "", "layers.json"), (8, "", SIMAI))
        got = [self.explain(path, job) for job in range(5)]
        self.assertEqual([one["workload"]["form"] for one in got], ["Chakra"] * 3 + ["SimAI"] * 2)
        self.assertEqual(got[0]["workload"]["step_s"], 2e-6)
        for one in got[1:3]:
            self.assertEqual(one["modes"], got[0]["modes"])
        self.assertGreater(got[3]["workload"]["step_s"], 0.026)
        self.assertGreater(got[3]["workload"]["exposed_ratio"][0], 0.05)

    def test_stages(self):
        self.write("one.txt", LAYERS.format(1))
        self.write("four.txt", LAYERS.format(4))
        path = self.jobs((16, "", "one.txt"), (16, "", "four.txt"))
        one, four = (self.explain(path, job)["workload"]["step_s"] for job in range(2))
        # Three more steps of a pipeline for four micro-batches; gradients are of fewer copies.
        self.assertGreater(four / one, 1.4)
        self.assertLess(four / one, 7 / 4)

    def test_one_clock_and_settings(self):
        self.write("one.json", document(TRACE))
        path = self.jobs((4, "bert", "one.json"))
        answer = RUNNER.answer(path, "--nodes", 4, "--gpu-types", "A100-SXM4-40GB")
        self.assertEqual(answer["job_modes"]["modes_per_job"], 1.0)
        self.assertAlmostEqual(answer["makespan_s"], 1000.0)
        less = RUNNER.answer(path, "--nodes", 4, "--gpu-types", "A100-SXM4-40GB", "--class", "host")
        self.assertLess(less["run_j"], answer["run_j"])
        # Others keep what was drawn for them.
        lone = self.jobs((4, "", ""))
        drawn = RUNNER.answer(lone, *OPTIONS)["job_modes"]["classes"]
        both = RUNNER.answer(self.jobs((4, "gpt2", "one.json"), (4, "", "")), *OPTIONS)["job_modes"]["classes"]
        self.assertEqual(both, {**drawn, "compute": drawn["compute"] + 1})
        # Only as many GPUs as were recorded, whatever else is elastic.
        out = os.path.join(self.folder, "out.csv")
        RUNNER.answer(self.jobs((4, "gpt2", "one.json")), *OPTIONS, "--elastic", 2, "--jobs-out", out)
        self.assertEqual(table(out)[0]["placement"], "0:4")

    def test_standard_input(self):
        """A table from there has the working directory for a folder."""
        text = "submit_s,num_gpus,duration_s,workload\n0,1,10," + self.write("one.json", document(TRACE)) + "\n"
        answer = RUNNER.answer("-", *OPTIONS, text=text)
        self.assertEqual(answer["job_modes"]["workloads"], 1)
        text = "submit_s,num_gpus,duration_s,workload\n0,1,10," + \
            os.path.relpath(os.path.join(self.folder, "one.json")) + "\n"
        self.assertEqual(RUNNER.answer("-", *OPTIONS, text=text)["job_modes"]["workloads"], 1)


class Refused(Case):
    def refused(self, status, *words, options=tuple(OPTIONS), name="w"):
        done = RUNNER.run(self.jobs((1, "bert", ""), (1, "bert", name)), *options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in ("jobs.csv: line 3, workload: ", *words):
            self.assertIn(word, done.stderr)

    def test_said_with_the_line(self):
        self.refused(1, "/w:", "No such file")
        self.refused(2, "not standard input", name="-")
        self.write("w", "")
        self.refused(2, "/w: the file is empty; read as Chakra")
        self.write("w", document(TRACE)[:-9])
        self.refused(2, "/w:", "byte")
        self.write("w", document([{**KERNEL, "is_cpu_op": True}]))
        self.refused(2, "no computation on a GPU")
        self.write("w", document([{**KERNEL, "data_deps": [1]}]))
        self.refused(2, "circle")
        self.write("w", LAYERS.format(1).replace("NONE", "SOME"))
        self.refused(2, "line 3", "ALLTOALL", "read as SimAI")
        self.write("w", LAYERS.format(3))
        self.refused(2, "16 GPUs are no copies")

    def test_without_a_type(self):
        self.write("w", document(TRACE))
        self.refused(2, "--gpu-types MODEL", options=("--nodes", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
