"""lull simulate cluster: types of GPU and modes of jobs on the command line.

Usage: test_cluster_modes.py LULL
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
JOBS = "job_id,submit_s,num_gpus,duration_s,model\n" + "".join(
    f"{i},{7 * i},{1 << (i % 4)},{50 + 13 * i},{model}\n"
    for i, model in enumerate(["resnet50", "bert", "unheard-of", "A3C", "LM (batch size 5)", "", "vgg16", "gpt2"]))
RATES = "gpu,consolidated,job_type,num_gpus,iters_per_s\n" \
        "v100,1,resnet50,1,10\nv100,1,resnet50,2,16\nv100,1,resnet50,4,30\nk80,1,resnet50,1,2\nk80,1,resnet50,2,4\n"


def simulate(*options, text=JOBS, policy="fifo"):
    return subprocess.run([LULL, "simulate", "cluster", "--policy", policy, "-"] + [str(o) for o in options],
                          input=text, capture_output=True, text=True, check=False)


def answer(*options, text=JOBS, policy="fifo"):
    done = simulate(*options, "--json", text=text, policy=policy)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ran(*options, text=JOBS, policy="fifo"):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "ran.csv")
        answer(*options, "--jobs-out", path, text=text, policy=policy)
        with open(path, encoding="utf-8") as file:
            return {row["job_id"]: row for row in csv.DictReader(file)}


class Modes(unittest.TestCase):
    def test_fastest_modes_keep_the_schedule(self):
        plain = answer("--nodes", 1)
        known = answer("--nodes", 1, "--gpu-types", "A100-SXM4-40GB")
        clocks = answer("--nodes", 1, "--gpu-types", "A100-SXM4-40GB", "--clocks")
        for name in ("average_completion_s", "makespan_s", "average_queue_s"):
            self.assertEqual(plain[name], known[name])
            self.assertEqual(plain[name], clocks[name])
        self.assertNotIn("job_modes", plain)
        self.assertEqual((plain["idle_w"], known["idle_w"]), (60.0, 59.7))
        self.assertEqual(known["job_modes"]["modes_per_job"], 1.0)
        self.assertGreater(clocks["job_modes"]["modes_per_job"], 5.0)
        self.assertLessEqual(clocks["run_j"], known["run_j"])

    def test_what_a_job_needs(self):
        """Its own range of GPUs, memory, weight and whether it may be stopped, by the table's columns."""
        options = ("--nodes", 1, "--gpu-types", "A100-SXM4-40GB", "--clocks")
        head = "job_id,submit_s,num_gpus,duration_s,model,least_gpus,most_gpus,gpu_memory_mib,weight,preemptible\n"
        text = head + "a,0,2,100,bert,1,8,,,\nb,0,2,100,bert,,,,,\nc,0,1,100,bert,,,50000,,\n"
        for job, gpus in (("a", {1, 2, 4, 8}), ("b", {2})):
            modes = answer(*options, "--explain", job, text=text)["explained"]["modes"]
            self.assertEqual({mode["gpus"] for mode in modes}, gpus)
        got = answer(*options, "--explain", "c", text=text)
        self.assertEqual((got["rejected"], got["explained"]["fate"]), (1, "rejected"))
        # The whole node, then a short job: stopped for it only where it may be, whatever the option for others says.
        for may, end in (("1", 11.0), ("0", 110.0)):
            for others in ((), ("--preemptible",)):
                text = head + f"long,0,8,100,,,,,,{may}\nshort,1,8,10,,,,,,\n"
                rows = ran(*options[:4], *others, text=text, policy="srtf")
                self.assertAlmostEqual(float(rows["short"]["end_s"]), end)
        # Of two that wait the heavier goes first.
        text = head + "first,0,8,10,,,,,,\nlight,1,8,10,,,,,1,\nheavy,1,8,11,,,,,5,\n"
        starts = {name: float(row["start_s"]) for name, row in ran(*options[:4], text=text, policy="hdf").items()}
        self.assertLess(starts["heavy"], starts["light"])

    def test_classes(self):
        told = answer("--nodes", 1, "--gpu-types", "A100-SXM4-40GB")["job_modes"]
        self.assertEqual(told["classes_drawn"], 2)
        self.assertEqual(sum(told["classes"].values()), 8)
        for name, least in (("compute", 2), ("vision", 2), ("memory", 1), ("host", 1)):
            self.assertGreaterEqual(told["classes"][name], least)
        self.assertEqual(told, answer("--nodes", 1, "--gpu-types", "a100", "--seed", 1)["job_modes"])
        forced = answer("--nodes", 1, "--gpu-types", "A100-SXM4-40GB", "--class", "host")
        self.assertEqual((forced["job_modes"]["classes"]["host"], forced["job_modes"]["classes_drawn"]), (8, 0))
        self.assertLess(forced["run_j"], answer("--nodes", 1, "--gpu-types", "A100", "--class", "compute")["run_j"])

    def test_elastic(self):
        """The fastest mode of a job is that of most GPUs, if its time is worth it."""
        text = "job_id,submit_s,num_gpus,duration_s\na,0,2,100\n"
        rows = ran("--nodes", 1, "--gpu-types", "A100-SXM4-40GB", "--class", "vision", "--elastic", 2, text=text)
        share = 0.07 / 0.93 * 8 / 7  # of computation, times what of a gradient a ring moves
        wanted = 100 * (2 / 4 + share * 3 / 4) / (1 + share / 2)
        self.assertAlmostEqual(float(rows["a"]["end_s"]), wanted, places=5)
        self.assertEqual(rows["a"]["placement"], "0:4")
        # Half of three GPUs is no number of GPUs.
        modes = answer("--nodes", 1, "--gpu-types", "A100", "--clocks", "--elastic", 2, "--explain", "a",
                       text=text.replace("0,2,", "0,3,"))["explained"]["modes"]
        self.assertEqual({mode["gpus"] for mode in modes}, {3, 6})

    def test_measured_rates_of_types(self):
        text = "job_id,submit_s,num_gpus,duration_s,model\n" \
               "a,0,4,100,resnet50\nb,1,2,100,resnet50\nc,2,4,100,resnet50\nd,3,1,10,other\n"
        with tempfile.TemporaryDirectory() as directory:
            rates = os.path.join(directory, "rates.csv")
            with open(rates, "w", encoding="utf-8") as file:
                file.write(RATES)
            options = ["--gpu-types", "V100-SXM2-16GB:1,K80-12GB:1", "--gpus-per-node", 4, "--rates", rates]
            rows = ran(*options, text=text)
            # a takes the V100s; b the K80s, a quarter as fast; c has no rate there and waits for a; d for c.
            self.assertEqual([float(rows[name]["end_s"]) for name in "abcd"], [100, 401, 200, 210])
            self.assertEqual([rows[name]["placement"] for name in "abcd"], ["0:4", "1:2", "0:4", "0:1"])
            more = ran(*options, "--elastic", 2, text="job_id,submit_s,num_gpus,duration_s,model\na,0,2,100,resnet50\n")
            self.assertAlmostEqual(float(more["a"]["end_s"]), 100 * 16 / 30, places=5)
            done = simulate("--gpu-types", "A100-SXM4-40GB", "--nodes", 1, "--rates", rates)
            self.assertEqual(done.returncode, 2)
            self.assertIn("has no rates on a A100-SXM4-40GB", done.stderr)

    def test_pipelines(self):
        text = "job_id,submit_s,num_gpus,duration_s,model\n" + "".join(
            f"{i},0,{gpus},1000,gpt2\n" for i, gpus in enumerate((8, 16, 20, 64, 64)))
        options = ["--nodes", 32, "--gpu-types", "A100-SXM4-80GB", "--clocks"]
        plain, planned = answer(*options, text=text), answer(*options, "--pipelines", text=text)
        self.assertEqual((plain["job_modes"]["pipelines"], planned["job_modes"]["pipelines"]), (0, 3))
        for got in (plain, planned):
            self.assertAlmostEqual(got["makespan_s"], 1000.0)
            self.assertAlmostEqual(got["average_completion_s"], 1000.0)
        self.assertEqual(answer(*options, "--pipelines", "--class", "host", text=text)["job_modes"]["pipelines"], 0)

    def test_told_points(self):
        """Time and energy are those of the table; a job that it does not know runs at full clocks."""
        full, low, useless = {"sm_mhz": 0, "time_ratio": 1, "gpu_w": 300}, {"sm_mhz": 900, "time_ratio": 1.25, "gpu_w": 200}, \
            {"sm_mhz": 600, "time_ratio": 2, "gpu_w": 190}
        told = {"gpus": {"h100": {"idle_w": 50, "full_w": 400}}, "jobs": {"known": {"time_s": 7, "gpus": {"h100": [full, low, useless]}}}}
        text = "job_id,submit_s,num_gpus,duration_s,job_type\na,0,2,100,known\nb,200,1,100,other\n"
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "points.json")

            def write(document):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
            write(told)
            options = ("--nodes", 1, "--points", path)
            got = answer(*options, text=text)
            self.assertEqual((got["run_j"], got["idle_w"], got["makespan_s"]), (100 * (2 * 300 + 400), 50, 300))
            self.assertAlmostEqual(got["idle_j"], 50 * (8 * 300 - 2 * 100 - 100))
            got = answer(*options, "--knob", 0, "--explain", "a", text=text, policy="greedy-energy")
            self.assertAlmostEqual(got["run_j"], 2 * 125 * 200 + 100 * 400)
            # The slow one costs more time and more energy, so that it is no choice.
            self.assertEqual([mode["sm_mhz"] for mode in got["explained"]["modes"]], [0, 900])
            self.assertEqual(answer(*options, "--idle-w", 70, text=text)["idle_w"], 70)
            done = simulate(*options, "--gpu-types", "A100", text=text)
            self.assertEqual(done.returncode, 2, done.stderr)
            for gpus in ({}, {**told["gpus"], "a100": told["gpus"]["h100"]}):
                write({**told, "gpus": gpus})
                done = simulate(*options, text=text)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("the single simulated GPU type", done.stderr)

    def test_bad_options_are_said(self):
        for options, said in ((["--gpu-types", "A100", "--pipelines"], "give --clocks as well"), (["--clocks"], "give --gpu-types as well"), (["--gpu-types", "A101"], "known models"),
                              (["--gpu-types", "A100,V100"], "with :NODES"), (["--gpu-types", "A100:0"], "with :NODES"),
                              (["--gpu-types", "A100:1"], "either --pools or --nodes"), (["--class", "big"], "give compute, vision"),
                              (["--elastic", 3], "give 2, 4, 8 or 16"), (["--network", "string"], "give nvlink or ethernet"),
                              (["--seed", -1], "give a whole number from 0")):
            done = simulate("--nodes", 1, *options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
        done = simulate("--gpu-types", "A100:1,V100:1")
        self.assertIn("needs --rates", done.stderr)


if __name__ == "__main__":
    unittest.main()
