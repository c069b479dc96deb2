#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables, profiles and searches as people bring them, against the right answers of ../shared/data/field/tables.

usage: test_field_tables.py LULL FOLDER [CASE...]; cases of lull batch run within lull emulate
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv[1])
FOLDER = sys.argv[2]
FIFO = ("simulate", "cluster", "--policy", "fifo")


def lull(*words):
    return subprocess.run([LULL, *words], capture_output=True, text=True, check=False, timeout=600)


class Case(unittest.TestCase):
    def path(self, name):
        return os.path.join(FOLDER, name)

    def answer(self, *words):
        done = lull(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def cluster(self, name, *words):
        return self.answer(*FIFO, self.path(name), *words)

    def refusal(self, *words, status=None):
        done = lull(*words)
        if status is None:
            self.assertNotEqual(done.returncode, 0, done.stdout)
        else:
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr


class Batch(Case):
    """Recurring jobs; each command runs in an emulated node of its own, since the tests themselves need none."""

    def setUp(self):
        self.store = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.store, ignore_errors=True)

    def night(self, folder, *words, emulate=()):
        return subprocess.run([LULL, "emulate", *emulate, "1xA100-SXM4-40GB", "--", LULL, "batch", "run", "--store",
                               self.store, *words], cwd=self.path(folder), capture_output=True, text=True, check=False,
                              timeout=120)

    @staticmethod
    def sizes(done):
        return [int(size) for size in re.findall(r"batch size (\d+)", done.stderr)]

    def test_oom_size(self):
        for seed in ("1", "2"):
            explored, failed = 0, []
            for night in range(30):
                done = self.night("batch-oom-size", "--job", "r" + seed, "--seed", seed, "--sizes", "32,64,128",
                                  "--metric", "val_acc=([0-9.]+)", "--target", "0.93", "--", "python3", "train.py",
                                  "{batch}")
                explored += 128 in self.sizes(done)
                if done.returncode != 0:
                    failed.append(night)
            self.assertEqual(failed, [])
            self.assertLessEqual(explored, 2)

    def test_oom_default_size(self):
        sizes = []
        for _ in range(4):
            done = self.night("batch-oom-size", "--job", "d", "--sizes", "32,64,256", "--default-size", "256", "--metric",
                              "val_acc=([0-9.]+)", "--target", "0.93", "--", "python3", "train.py", "{batch}")
            self.assertEqual(done.returncode, 0, done.stderr)
            sizes.append(self.sizes(done))
        self.assertLessEqual(sum(256 in night for night in sizes), 2, sizes)

    def test_nan_is_a_miss(self):
        nights = []
        for _ in range(8):
            done = self.night("batch-nan", "--job", "nan", "--sizes", "32,64,128,256", "--default-size", "32",
                              "--lower-is-better", "--metric", "val_loss=([0-9.]+|nan)", "--target", "0.9", "--epochs-max",
                              "50", "--", "python3", "train.py", "{batch}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("no line matched", done.stderr)
            nights.append(self.sizes(done))
        self.assertLessEqual(sum(128 in night for night in nights), 2, nights)

    def test_nan_epochs_count(self):
        done = self.night("batch-nan", "--job", "inf", "--sizes", "32,64", "--epochs-max", "3", "--lower-is-better",
                          "--metric", "loss=([0-9.]+|nan)", "--target", "0.5", "--", "python3", "forever.py", "{batch}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(set(self.sizes(done)), {32, 64})
        for line in re.findall(r"--epochs-max epochs.*", done.stderr):
            self.assertIn("after 3", line)

    def test_stuck_counter(self):
        done = self.night("batch-stuck-counter", "--job", "s", "--sizes", "32,64", "--metric", "val_acc=([0-9.]+)",
                          "--target", "0.95", "--", "bash", "-c",
                          "for i in 1 2 3 4 5 6; do sleep 0.5; echo val_acc=0.$((16*i)); done; : {batch}",
                          emulate=("--fault", "energy_stuck_j=50"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(" 0.0 J", done.stderr)
        joules = re.search(r"([0-9.]+) J in", done.stderr)
        if joules is not None:
            self.assertAlmostEqual(float(joules.group(1)), 186.0, delta=30.0)
        else:
            self.assertIn("stands still", done.stderr)


class Cluster(Case):
    def test_clock_offset(self):
        setting = ("--nodes", "6", "--gpu-types", "A100-SXM4-40GB", "--clocks", "--bound")
        here = self.cluster("cluster-clock-offset/from0.csv", *setting)
        later = self.cluster("cluster-clock-offset/later.csv", *setting)
        self.assertEqual(here["average_completion_s"], later["average_completion_s"])
        self.assertAlmostEqual(later["average_completion_s"], 20790.1, delta=0.1)
        for key in ("energy_j", "utilisation_ratio"):
            self.assertAlmostEqual(later[key] / here[key], 1.0, places=9)
        self.assertAlmostEqual(later["energy_j"], 917.7e6, delta=0.3e6)
        self.assertAlmostEqual(later["utilisation_ratio"], 0.809, delta=0.003)
        ratios = [run["energy_j"] / run["bound_j"] for run in (here, later)]
        self.assertAlmostEqual(ratios[0], ratios[1], places=6)

    def test_clock_offset_of_policies(self):
        for policy in (("--preemptible",), ()):
            runs = [self.answer("simulate", "cluster", "--policy", "pd-rats", self.path("cluster-clock-offset/" + name),
                                "--nodes", "6", "--gpu-types", "A100-SXM4-40GB", "--clocks", *policy)
                    for name in ("from0.csv", "later.csv")]
            self.assertAlmostEqual(runs[0]["cost_j"] / runs[1]["cost_j"], 1.0, places=9)
            self.assertAlmostEqual(runs[0]["cost_bound_j"] / runs[1]["cost_bound_j"], 1.0, places=9)

    def test_pandas_columns(self):
        run = self.cluster("cluster-pandas-columns/jobs.csv", "--nodes", "1")
        self.assertEqual((run["jobs"], run["average_completion_s"]), (1, 10.0))
        self.assertEqual((run["without_gpus"], run["without_duration"]), (1, 1))

    def test_pools_without_vc(self):
        said = self.refusal(*FIFO, self.path("cluster-pools-without-vc/jobs.csv"), "--pools",
                            self.path("cluster-pools-without-vc/pools.csv"), status=2)
        self.assertIn("vc", said)
        self.assertIn("--pools", said)

    def published(self, name, completion_s):
        run = self.cluster("cluster-published-headers/" + name, "--nodes", "4")
        self.assertEqual(run["jobs"], 1, name)
        self.assertAlmostEqual(run["average_completion_s"], completion_s, places=6)
        return run

    def test_published(self):
        self.published("openb-like.csv", 480.0)
        self.published("tiresias-like.csv", 150.0)
        self.published("acme-like.csv", 600.0)
        self.published("sacct.txt", 176472.0)
        self.published("philly-like.json", 3600.0)
        self.published("gavel-like.trace", 420.0)
        self.published("small.swf", 300.0)

    def test_quoted_or_other_separator(self):
        for name in ("quoted.csv", "semicolon.csv", "tab.csv"):
            run = self.cluster("cluster-quoted-or-other-separator/" + name, "--nodes", "1")
            self.assertEqual((run["jobs"], run["average_completion_s"]), (1, 10.0), name)


class Model(Case):
    def test_quoted_as_a_profiler_writes(self):
        done = lull("model", "evaluate", self.path("cluster-quoted-or-other-separator/ncu-like.csv"))
        self.assertNotIn("header", done.stderr)
        self.assertNotIn("not a number", done.stderr)

    def test_top_clock_short(self):
        done = lull("model", "evaluate", self.path("model-interval-top-clock-short/kernels.csv"))
        said = done.stdout + done.stderr
        self.assertIn("2400 MHz and above are left out", said)

    def test_one_noisy_kernel(self):
        runs = [lull("model", "evaluate", self.path("model-one-noisy-kernel/" + name)) for name in
                ("clean.csv", "kernels.csv")]
        for run in runs:
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("1450 MHz left out", run.stdout + run.stderr)
        self.assertIn("other kernels prove", runs[1].stdout + runs[1].stderr)

    def test_wider_than_64(self):
        run = self.answer("model", "evaluate", self.path("table-wider-than-64/kernels.csv"))
        self.assertIn('"kernels": 4', json.dumps(run))


class Plan(Case):
    def test_envpipe_split_backward(self):
        for schedule in ("envpipe", "1f1b"):
            plan = self.answer("plan", "--profile", self.path("plan-envpipe-split-backward/profile.csv"), "--schedule",
                               schedule, "--stages", "4", "--microbatches", "4", "--slowdown", "0%")
            self.assertAlmostEqual(plan["all_max"]["time_s"], 0.84, places=6)

    def test_ranks_of_a_stage(self):
        with tempfile.TemporaryDirectory() as place:
            output = os.path.join(place, "plan.json")
            self.answer("plan", "--profile", self.path("plan-ranks-of-a-stage/profile.csv"), "--stages", "2",
                        "--microbatches", "4", "--slowdown", "0%", "--output", output)
            with open(output, encoding="utf-8") as file:
                classes = json.load(file)["classes"]
        highest = max(next(one for one in classes if one["operation"] == "forward" and one["stage"] == 0)["options"])
        self.assertEqual(highest[0], 1410)
        self.assertAlmostEqual(highest[1] / (1.005 * 0.051007731830843006), 1.0, places=6)
        self.assertAlmostEqual(highest[2], 15.812396867561333, places=6)

    def test_stages_in_seconds(self):
        said = self.refusal("plan", "--profile", "/dev/null", "--stages", "0", "--microbatches", "2", status=2)
        self.assertIn("from 1 to 4096", said)
        self.assertNotIn("in seconds", said)

    def test_many_distinct_stages(self):
        with tempfile.TemporaryDirectory() as place:
            profile = os.path.join(place, "p.csv")
            with open(profile, "w", encoding="ascii") as file:
                subprocess.run([sys.executable, self.path("plan-many-distinct-stages/profile.py"), "8"], stdout=file,
                               check=True)
            plan = self.answer("plan", "--profile", profile, "--stages", "8", "--microbatches", "64", "--slowdown", "0%")
            self.assertTrue(plan)


if __name__ == "__main__":
    if not os.path.isdir(FOLDER):
        print("skipped: ../shared/data/field/tables is absent")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
