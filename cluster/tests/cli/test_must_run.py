# SPDX-License-Identifier: Apache-2.0
"""No ratio is possible where all jobs have to run and none may be stopped: the instances of the proof in
docs/research/measurements/pd-rats.md, played against every policy, and against every time for which a policy could wait.

Usage: test_must_run.py LULL"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1:2]
SECOND_J = 400.0  # what a second of a job's completion time is worth here
GPUS = 8
OPTIONS = ["--nodes", "1", "--gpu-types", "V100-SXM2-16GB", "--clocks", "--class", "compute"]
POLICIES = {"fifo": None, "edf": None, "sjf": None, "lpt": None, "backfill": None, "backfill-conservative": None,
            "greedy-energy": SECOND_J, "srtf": None, "srsf": None, "hdf": 100.0, "powerflow": 0.85, "pd-rats": SECOND_J}


def run(policy, jobs, *options):
    """jobs: [(arrival, seconds)], each on all GPUs. Returns the run's energy, and begins and ends in that order."""
    text = "submit_s,duration_s,num_gpus\n" + "".join(f"{arrival},{time},{GPUS}\n" for arrival, time in jobs)
    knob = [] if POLICIES[policy] is None else ["--knob", POLICIES[policy]]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "ran.csv")
        words = [LULL, "simulate", "cluster", "--policy", policy, *knob, "-", *OPTIONS, *options, "--jobs-out", path,
                 "--certificate-steps", 1, "--json"]
        done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with open(path, encoding="utf-8") as file:
            ran = list(csv.DictReader(file))
    assert all(row["fate"] == "done" for row in ran), "all jobs have to run"
    return json.loads(done.stdout)["run_j"], [(float(row["start_s"]), float(row["end_s"])) for row in ran]


def late_by(jobs, ends):
    return sum(end - arrival for (arrival, _), end in zip(jobs, ends))


def ends_in_order(jobs, order):
    """When each ends if they run one after the other, at full clocks and as early as may be."""
    now, ends = 0.0, [0.0] * len(jobs)
    for job in order:
        now = max(now, jobs[job][0]) + jobs[job][1]
        ends[job] = now
    return ends


def least_cost(jobs, start):
    """Of any policy that begins the long job then, unless the others come before."""
    short, at = list(range(1, len(jobs))), jobs[1][0]
    held = [(min(at, start), jobs[0][1])] + jobs[1:]
    orders = [[0] + short, short + [0]] if at < start else [[0] + short]
    return min(late_by(jobs, ends_in_order(held, order)) for order in orders)


def best_order(jobs):
    """The better of two schedules of one who knows what comes: the long job first, or after all others."""
    return min(least_cost(jobs, 0.0), least_cost(jobs, float("inf")))


def burst(count, long_s, at_s):
    return [(0, long_s)] + [(at_s, long_s / count ** 2)] * count


class AllHaveToRun(unittest.TestCase):
    def play(self, policy, count, *options):
        """The policy's cost over that of a schedule which knows the burst, and what the proof says it is at least."""
        long_s, delay_s = 1e6, 1.0
        _, alone = run(policy, [(0, long_s)], *options)
        jobs = burst(count, long_s, alone[0][0] + delay_s)
        energy_j, ran = run(policy, jobs, *options)
        self.assertEqual(ran[0][0], alone[0][0], f"{policy} began as if it had known what comes")
        cost_j = energy_j + SECOND_J * late_by(jobs, [end for _, end in ran])
        full_j, _ = run("fifo", jobs)
        proven = SECOND_J * (count * (long_s - delay_s) + long_s) / (
            full_j + SECOND_J * long_s * (2.5 + 1.5 / count))
        return cost_j / (full_j + SECOND_J * best_order(jobs)), proven

    def test_every_policy_is_caught(self):
        for policy in POLICIES:
            ratios = []
            for count in (10, 100):
                ratio, proven = self.play(policy, count)
                self.assertGreaterEqual(ratio, proven, f"{policy}, {count} jobs")
                ratios.append(ratio)
            self.assertGreater(ratios[1], 5 * ratios[0], policy)
            self.assertGreater(ratios[1], 10, policy)

    def test_pauses_are_a_way_out(self):
        ratio, proven = self.play("srtf", 100, "--preemptible")
        self.assertGreater(proven, 10)
        self.assertLess(ratio, 1.1)

    def test_waiting_is_no_way_out(self):
        """Whenever the long job begins if there was no burst yet: times are in units of its length, energies 0. The
        mean over bursts at random times is what no policy that draws its start at random can be below either."""
        parts = 8
        for root in (3, 6):
            arrivals = [(i + 0.5) / parts for i in range(root * parts)]
            instances = [burst(root ** 2, 1.0, at) for at in arrivals]
            self.assertLessEqual(max(best_order(jobs) for jobs in instances), 2.5 + 1.5 / root ** 2)
            means = []
            for start in (i / parts for i in range((root + 1) * parts)):
                costs = [least_cost(jobs, start) for jobs in instances]
                means.append(sum(costs) / len(costs))
            self.assertGreaterEqual(min(means), (root - 1 / root) / 2)
            self.assertLess(min(means), root / 2 + 3)


if __name__ == "__main__":
    unittest.main()
