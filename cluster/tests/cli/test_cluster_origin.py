"""Nothing that is printed of a cluster depends on where the clock of its tables begins: random tables, and the same
later by a day, a year and twenty years, with failures, prices and deadlines that move along.

Usage: test_cluster_origin.py LULL
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster_case import Runner, table  # noqa: E402

RUNNER = Runner(os.path.abspath(sys.argv[1]), "fifo")
del sys.argv[1:2]
SHIFTS = [86400, 30_000_000, 631_152_000]
RUNS = [("fifo", "--power-down", "--turn-on-s", 180), ("pd-rats",), ("pd-rats", "--preemptible"), ("powerflow",),
        ("pd-rats", "--value", 3), ("srtf", "--power-cap", 12000), ("edf",)]


def draw(rng):
    rows, at = [], rng.randint(0, 500)
    for number in range(30):
        length = rng.randint(60, 4000)
        rows.append((number, at, length, rng.choice([1, 2, 4, 8]), at + length * 3 if rng.random() < 0.4 else None))
        at += rng.randint(0, 200)
    failures = [(node, at, at + 900) for node, at in ((0, rows[5][1] + 10), (1, rows[15][1] + 7))]
    prices = [(rows[0][1], 0.1)] + [(rows[0][1] + 600 * hour, 0.1 + 0.05 * (hour % 3)) for hour in range(1, 30)]
    return rows, failures, prices


def write(directory, name, head, rows):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as file:
        print(head, *(",".join("" if value is None else str(value) for value in row) for row in rows), sep="\n", file=file)
    return path


def run(directory, drawn, shift, policy, *options):
    rows, failures, prices = drawn
    jobs = write(directory, "jobs.csv", "job_id,submit_s,duration_s,num_gpus,deadline_s",
                 [(number, at + shift, length, gpus, deadline and deadline + shift)
                  for number, at, length, gpus, deadline in rows])
    down = write(directory, "down.csv", "node,from_s,to_s", [(node, at + shift, to + shift) for node, at, to in failures])
    price = write(directory, "price.csv", "time_s,price_per_kwh", [(at + shift, value) for at, value in prices])
    out, power = os.path.join(directory, "out.csv"), os.path.join(directory, "power.csv")
    # A power table is of one run without a bound: what it says of times is compared here.
    answer = RUNNER.answer(jobs, "--nodes", 3, "--gpu-types", "A100-SXM4-40GB", "--clocks", "--failures", down, "--price",
                           price, "--jobs-out", out, "--power-out", power, "--explain", 17, *options, policy=policy)
    return answer, table(out), table(power)


class Origin(unittest.TestCase):
    def test_shifts(self):
        for seed, words in enumerate(RUNS):
            drawn = draw(random.Random(seed))
            with tempfile.TemporaryDirectory() as directory:
                first, ended, drew = run(directory, drawn, 0, *words)
                for shift in SHIFTS:
                    later, ends, draws = run(directory, drawn, shift, *words)
                    self.assertEqual(json.dumps(first), json.dumps(later), (words, shift))
                    for before, after in zip(ended, ends):
                        for name in ("submit_s", "start_s", "end_s"):
                            if before[name] != "":
                                self.assertAlmostEqual(float(before[name]) + shift, float(after[name]), places=5)
                    self.assertEqual([row["energy"] for row in drew], [row["energy"] for row in draws])
                    self.assertAlmostEqual(float(drew[0]["time"]) + shift, float(draws[0]["time"]), places=5)

    def test_nothing_before_the_first_job(self):
        with tempfile.TemporaryDirectory() as directory:
            jobs = write(directory, "jobs.csv", "job_id,submit_s,duration_s,num_gpus", [(0, 30_000_000, 100, 4)])
            got = RUNNER.answer(jobs, "--nodes", 1, "--run-w", 300, "--idle-w", 50)
        self.assertEqual((got["makespan_s"], got["energy_j"], got["utilisation_ratio"]),
                         (100.0, 4 * 300 * 100.0 + 4 * 50 * 100.0, 0.5))

    def test_failures_before_the_first_job(self):
        """A node that is down when the first job comes, one that works again by then, and one that fails later."""
        with tempfile.TemporaryDirectory() as directory:
            jobs = write(directory, "jobs.csv", "job_id,submit_s,duration_s,num_gpus",
                         [(0, 1000, 100, 8), (1, 1000, 100, 8), (2, 1000, 100, 8)])
            down = write(directory, "down.csv", "node,from_s,to_s", [(0, 10, 1500), (1, 10, 900), (2, 3000, 4000)])
            out = os.path.join(directory, "out.csv")
            RUNNER.answer(jobs, "--nodes", 3, "--failures", down, "--jobs-out", out)
            self.assertEqual(sorted((float(row["start_s"]), row["placement"]) for row in table(out)),
                             [(1000.0, "1:8"), (1000.0, "2:8"), (1100.0, "1:8")])


unittest.main()
