"""Jobs with a value from the command line, beside the linear program of lull-bound: what pd-rats-safe gains is
never further from it than the ratio that it prints, which is counted anew here, and certificates are bounds.

Usage: test_values.py LULL LULL_BOUND
SPDX-License-Identifier: Apache-2.0"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

LULL, LULL_BOUND = (os.path.abspath(word) for word in sys.argv[1:3])
del sys.argv[1:3]
CASES = 24
SLOT_S = 300
RUN_W = 300.0


def draw(rng):
    """Nodes of 8 GPUs, and jobs as (arrival, slots, GPUs, deadline, value), times in slots."""
    jobs = []
    for _ in range(rng.randint(10, 40)):
        slots, gpus = rng.randint(1, 8), rng.randint(1, 7)
        arrival = rng.randint(0, 30)
        deadline = arrival + math.ceil(slots * rng.uniform(1.0, 3.0))
        jobs.append((arrival, slots, gpus, deadline, rng.uniform(1.2, 6.0) * RUN_W * gpus * slots * SLOT_S))
    return rng.randint(1, 3), sorted(jobs)


def run(policy, nodes, jobs, *options):
    text = "submit_s,duration_s,num_gpus,deadline_s,value_j\n" + "".join(
        f"{arrival * SLOT_S},{slots * SLOT_S},{gpus},{deadline * SLOT_S},{value!r}\n"
        for arrival, slots, gpus, deadline, value in jobs)
    words = [LULL, "simulate", "cluster", "--policy", policy, "-", "--nodes", nodes, "--run-w", RUN_W, "--json"]
    done = subprocess.run([str(word) for word in words + list(options)], input=text, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def most_gain(nodes, jobs):
    """Of the linear program."""
    cluster = {"slots": max(job[3] for job in jobs), "types": [{"name": "GPU", "gpus": 8 * nodes}]}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        print(json.dumps(cluster), file=file)
        for number, (arrival, slots, gpus, deadline, value) in enumerate(jobs):
            mode = {"type": "GPU", "gpus": gpus, "slots": slots, "energy_j": RUN_W * gpus * slots * SLOT_S}
            print(json.dumps({"job": str(number), "arrival": arrival, "deadline": deadline, "value_j": value,
                              "modes": [mode]}), file=file)
        file.flush()
        done = subprocess.run([LULL_BOUND, file.name, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["lp_optimal"]
    return sum(job[4] for job in jobs) - got["lp_j"]


def ratio_at(bend, nodes, jobs):
    """cluster/docs/competitive.md, of one type of GPU."""
    gains = [(value - RUN_W * gpus * slots * SLOT_S, gpus, slots) for _, slots, gpus, _, value in jobs]
    least = min(gain / gpus / slots for gain, gpus, slots in gains)
    most = max(gain / gpus for gain, gpus, _ in gains)
    gang, all_gpus = max(gpus for _, gpus, _ in gains), 8 * nodes
    rise = math.log(1 + most / least / bend)
    x = gang * rise / (all_gpus - gang)
    kappa = all_gpus / (all_gpus - gang) * (math.exp(x) - 1) / x * rise
    return max(1, kappa) + bend * kappa


def proven_ratio(nodes, jobs):
    """Of the best bend, and what is usually kept."""
    least = min(ratio_at(math.exp(step / 20), nodes, jobs) for step in range(-280, 400))
    return least + min(max(least / 4, 1), 4)


class Values(unittest.TestCase):
    def check_sums(self, got, most_j):
        gain_j = got["value_j"] - got["run_j"]
        self.assertAlmostEqual(got["cost_j"], -gain_j, delta=1e-9 * abs(gain_j))
        self.assertAlmostEqual(got["certificate_ratio"], got["bound_j"] / got["cost_j"], delta=1e-9)
        self.assertEqual(got["bound_j"], got["cost_bound_j"])
        self.assertLessEqual(gain_j, most_j * (1 + 1e-9))
        self.assertGreaterEqual(-got["bound_j"], most_j * (1 - 1e-7))
        self.assertEqual(got["deadline_misses"], got["rejected"])
        return gain_j

    def test_against_the_linear_program(self):
        worst = 0.0
        for seed in range(CASES):
            with self.subTest(seed=seed):
                nodes, jobs = draw(random.Random(seed))
                most_j = most_gain(nodes, jobs)
                got = run("pd-rats-safe", nodes, jobs)
                gain_j = self.check_sums(got, most_j)
                self.assertAlmostEqual(got["proven_ratio"] / proven_ratio(nodes, jobs), 1.0, delta=1e-3)
                self.assertEqual(got["not_proven"], [])
                self.assertLessEqual(most_j, got["proven_ratio"] * gain_j * (1 + 1e-7))
                worst = max(worst, most_j / gain_j / got["proven_ratio"])
                tuned = run("pd-rats", nodes, jobs, "--knob", 0)
                self.check_sums(tuned, most_j)
                self.assertIsNone(tuned["proven_ratio"])
        self.assertGreater(worst, 0.0)


if __name__ == "__main__":
    unittest.main()
