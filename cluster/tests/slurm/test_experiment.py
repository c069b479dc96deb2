"""The jobs of `make experiment`, what is told of them, and the comparison with a simulation; no Slurm.

Usage: test_experiment.py LULL BENCH
SPDX-License-Identifier: Apache-2.0"""
import json
import math
import os
import sys
import tempfile
import unittest

LULL, BENCH = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.path.insert(0, BENCH)
import experiment_jobs  # noqa: E402
import experiment_mix as mix  # noqa: E402

MEASURED = {"idle_w": 60.0, "kinds": {
    "train": {"start_s": 0.0, "points": [{"sm_mhz": 0, "ratio": 1.0, "gpu_w": 300.0}, {"sm_mhz": 1200, "ratio": 1.1, "gpu_w": 200.0}]},
    # Measured faster at the lower clock, by an error.
    "stream": {"start_s": 1.5, "points": [{"sm_mhz": 0, "ratio": 1.01, "gpu_w": 200.0}, {"sm_mhz": 1200, "ratio": 1.0, "gpu_w": 150.0}]}}}


def job(number, kind, length_s, gpus, arrival_s, deadline_s=math.inf):
    return mix.Job(number, kind, length_s, gpus, arrival_s, deadline_s)


class Mix(unittest.TestCase):
    def test_jobs_are_what_slurm_can_place(self):
        jobs = mix.make_mix(60, 25)
        self.assertEqual(jobs, mix.make_mix(60, 25))
        self.assertNotEqual(jobs, mix.make_mix(60, 26))
        self.assertEqual([it.number for it in jobs], list(range(60)))
        self.assertEqual(jobs[0].arrival_s, 0)
        self.assertEqual(sorted(jobs, key=lambda it: it.arrival_s), jobs)
        for it in jobs:
            self.assertIn(it.gpus, mix.KINDS[it.kind].gpus)
            self.assertEqual(it.gpus, it.nodes * min(it.gpus, mix.NODE_GPUS))
            self.assertGreater(it.deadline_s, it.arrival_s + it.length_s)
        self.assertEqual({it.kind for it in jobs}, set(mix.KINDS))
        self.assertTrue(any(it.nodes > 1 for it in jobs))
        without = mix.make_mix(60, 25, ("train", "stream"))
        self.assertEqual({it.kind for it in without}, {"train", "stream"})

    def test_commands(self):
        programs = {"player": "P", "trainer": "T", "python": "Y"}
        self.assertEqual(experiment_jobs.command(programs, "train", 9, [2, 3]), ["P", "2,3", "training", "9"])
        words = experiment_jobs.command(programs, "trainer", 9, "GPUS")
        self.assertEqual(words[words.index("--steps") + 1], "18")
        self.assertEqual(experiment_jobs.command(programs, "ddp", 9, [0, 1])[-1], "0,1")

    def test_points_count_what_a_start_takes(self):
        told = mix.job_points(MEASURED, "train", 10, 2.0)
        first, second = told["gpus"][mix.GRES]
        self.assertEqual((told["time_s"], first["sm_mhz"], first["time_ratio"]), (12.0, 0, 1.0))
        self.assertAlmostEqual(first["gpu_w"] * 12, 2 * 60 + 10 * 300, delta=0.1)
        self.assertAlmostEqual(second["time_ratio"], 13 / 12, places=4)
        self.assertAlmostEqual(second["gpu_w"] * 13, 2 * 60 + 11 * 200, delta=0.1)
        told = mix.job_points(MEASURED, "stream", 10, 0.0)
        self.assertAlmostEqual(told["time_s"], 11.6)
        self.assertEqual([point["time_ratio"] for point in told["gpus"][mix.GRES]], [1.0, 1.0])


class Simulation(unittest.TestCase):
    def test_it_is_the_same_set_of_jobs(self):
        """Two jobs that run side by side, then one that needs all GPUs."""
        jobs = [job(0, "train", 10, 16, 0.0), job(1, "train", 10, 16, 1.0, 14.0), job(2, "train", 5, 32, 2.0, 20.0)]
        with tempfile.TemporaryDirectory() as directory:
            table = mix.point_table(MEASURED, jobs, 0.5)
            told = mix.simulate(LULL, directory, MEASURED, jobs, table, "fifo", mix.Starts([0.5], [0.5]), 2)
            again = mix.simulate(LULL, directory, MEASURED, jobs, table, "fifo", mix.Starts([0.5], [2.5]), 2)
        # Ends: 10.5, 11.5, 17.0.
        self.assertAlmostEqual(told["completion_s"], (10.5 + 10.5 + 15.0) / 3)
        self.assertAlmostEqual(told["last_s"], 17.0)
        self.assertEqual(told["deadline_misses"], 0)
        self.assertAlmostEqual(told["slowdown"], (10.5 / 10 + 10.5 / 10 + 15.0 / 5) / 3)
        busy = 32 * 10 + 32 * 5
        self.assertAlmostEqual(told["energy_j"], 300 * busy + 60 * (32 * 17 - busy), delta=1)
        self.assertEqual(told["energy_j_range"], [told["energy_j"]] * 2)
        # All are seen 2 s later.
        self.assertAlmostEqual(again["last_s"], 19.0)
        self.assertAlmostEqual(again["completion_s"], told["completion_s"] + 2)

    def test_draws(self):
        """Starts differ between jobs and runs, around the measured mean; the same seed gives the same."""
        jobs = [job(number, "train", 5, 8, 0.2 * number) for number in range(12)]
        table = mix.point_table(MEASURED, jobs, 0.5)
        starts = mix.Starts([0.1, 0.9], [0.5, 1.0])
        with tempfile.TemporaryDirectory() as directory:
            told, again = (mix.simulate(LULL, directory, MEASURED, jobs, table, "fifo", starts, 6) for _ in range(2))
        self.assertEqual(told, again)
        least, most = told["completion_s_range"]
        self.assertLess(least, told["completion_s"])
        self.assertLess(told["completion_s"], most)

    def test_comparison(self):
        real = {"energy_j": 103.0, "completion_s": 9.0}
        off = mix.compare(real, {"energy_j": 100.0, "completion_s": 10.0})
        self.assertAlmostEqual(off["energy_j"], 0.03)
        self.assertAlmostEqual(off["completion_s"], -0.1)
        ends = {0: 12.0, 1: 14.5}
        told = mix.summary(MEASURED, [job(0, "train", 10, 1, 0.0, 12.0), job(1, "stream", 10, 1, 2.0, 14.0)], ends, 5.0)
        self.assertEqual((told["deadline_misses"], told["last_s"], told["completion_s"]), (1, 14.5, 12.25))
        self.assertAlmostEqual(told["slowdown_worst"], 1.2)
        self.assertEqual(json.loads(json.dumps(told)), told)
        self.assertIn("+3.0 %", mix.row("fifo", {**told, **real}, {**told, "energy_j": 100.0, "completion_s": 10.0}))


if __name__ == "__main__":
    unittest.main()
