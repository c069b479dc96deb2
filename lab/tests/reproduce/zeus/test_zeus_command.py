"""lull-reproduce zeus: recorded series are taken again, the policies' figures agree with an independent
count and with the published bands, drift is survived, and bad input is refused in words.

Usage: test_zeus_command.py LULL_REPRODUCE DIRECTORY_OF_ZEUS_DATA
SPDX-License-Identifier: Apache-2.0"""
import collections
import csv
import glob
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

REPRODUCE = os.path.abspath(sys.argv[1])
DATA = os.path.abspath(sys.argv[2])
del sys.argv[1:3]
SKIPPED = 77
TRAIN = os.path.join(DATA, "trace", "summary_train.csv")
HAS_DATA = os.path.exists(TRAIN)
GPUS = ("v100", "a40")
# dataset: optimizer, target, most epochs, default size
JOBS = {
    "cifar100": ("adadelta", 0.6, 100, 1024),
    "imagenet": ("adadelta", 0.65, 100, 256),
    "squad": ("adamw", 84.0, 6, 32),
    "librispeech": ("adamw", 40.0, 16, 192),
    "movielens-1m": ("adam", 0.41, 100, 1024),
    "sentiment140": ("adamw", 0.84, 10, 128),
}
SEEDS = 30


def power_path(gpu):
    return os.path.join(DATA, "trace", f"summary_power_{gpu}.csv")


def replay(*arguments, train=TRAIN, power=None, gpu="v100", dataset="squad"):
    return subprocess.run(
        [REPRODUCE, "zeus", "--train", train, "--power", power or power_path(gpu), "--dataset", dataset,
         *arguments], capture_output=True, text=True, check=False, timeout=120)


def replay_json(*arguments, **options):
    done = replay("--json", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def policy_of(document, name):
    return next(policy for policy in document["policies"] if policy["policy"] == name)


# ---- an independent count ----

class Recorded:
    """A job's tables, read and evaluated without Lull."""

    def __init__(self, gpu, dataset, target=None):
        optimizer, default_target, self.most, self.default = JOBS[dataset]
        target = default_target if target is None else target
        self.limits = collections.defaultdict(dict)
        self.paths = collections.defaultdict(list)
        trained = set()
        self.max_w = 0.0
        with open(power_path(gpu), encoding="utf-8") as file:
            for row in csv.DictReader(file):
                limit = float(row["power_limit"])
                self.max_w = max(self.max_w, limit)
                if row["dataset"] == dataset and row["optimizer"] == optimizer:
                    self.limits[int(row["batch_size"])][limit] = (float(row["time_per_epoch"]),
                                                                  float(row["average_power"]))
        with open(TRAIN, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                size = int(row["batch_size"])
                if row["dataset"] == dataset and row["optimizer"] == optimizer and size in self.limits:
                    trained.add(size)
                    if float(row["target_metric"]) == target:
                        self.paths[size].append(float(row["target_epoch"]))
        self.sizes = sorted(trained)

    def limit(self, size):
        """Of least cost per epoch at eta 0.5."""
        top = max(self.limits[size])
        return min(sorted(self.limits[size], reverse=True),
                   key=lambda w: 0.5 * (self.limits[size][w][1] + top) * self.limits[size][w][0])

    def epoch(self, size, limit):
        time_s, power_w = self.limits[size][limit]
        return time_s * power_w, time_s

    def cost(self, energy_j, time_s, max_w=None):
        return 0.5 * energy_j + 0.5 * (max_w or self.max_w) * time_s

    def default_energy_j(self):
        reached = [path for path in self.paths[self.default] if path <= self.most]
        return statistics.mean(reached) * self.epoch(self.default, self.max_w)[0]

    def oracle_cost_j(self):
        costs = []
        for size in self.sizes:
            reached = [path for path in self.paths[size] if path <= self.most]
            if reached:
                epochs = sum(path if path <= self.most else self.most for path in self.paths[size])
                costs.append(epochs / len(reached) * self.cost(*self.epoch(size, self.limit(size))))
        return min(costs)


class Zeus:
    """The published policy once more, from its description, on Python's random numbers."""

    def __init__(self, job, seed):
        self.job, self.random = job, random.Random(seed)
        self.rewards = collections.defaultdict(list)
        self.least, self.spent, self.seen = math.inf, 0.0, set()
        self.energy_j = 0.0

    def run(self, size):
        job, limit = self.job, self.job.limit(size)
        energy_j, time_s = job.epoch(size, limit)
        most = job.most
        if self.least < math.inf:
            most = min(most, int(2.0 * self.least / job.cost(energy_j, time_s, max(job.limits[size])) + 1e-9))
        path = self.random.choice(job.paths[size]) if job.paths[size] else math.nan
        reached = path <= most
        epochs = path if reached else most
        total = [epochs * energy_j, epochs * time_s]
        if size not in self.seen and epochs > 0:
            all_limits = [job.epoch(size, w) for w in job.limits[size]]
            for i, value in enumerate((energy_j, time_s)):
                total[i] += statistics.fmean(each[i] for each in all_limits) - value
        self.seen.add(size)
        cost = job.cost(*total) if epochs > 0 else 200.0 * self.least
        self.rewards[size].append(cost)
        self.energy_j += total[0]
        self.spent += cost
        if reached:
            self.least, self.spent = min(self.least, self.spent), 0.0
        return reached, cost

    def prune(self):
        """Yields sizes; is sent (reached, cost) of each."""
        alive, base = list(self.job.sizes), self.job.default
        for _ in range(2):
            costs = {}
            for walk in ([b for b in reversed(alive) if b <= base], [b for b in alive if b > base]):
                for size in walk:
                    reached, cost = yield size
                    if not reached:
                        break
                    costs[size] = cost
            alive, base = sorted(costs), min(costs, key=costs.get)
        self.alive = alive

    def sample(self):
        def draw(size):
            costs = self.rewards[size]
            mean = statistics.fmean(costs)
            variance = statistics.fmean((cost - mean) ** 2 for cost in costs)
            return self.random.gauss(mean, math.sqrt(variance / len(costs)))
        return min(self.alive, key=draw)

    def choices(self):
        yield from self.prune()
        while True:
            yield self.sample()

    def play(self, recurrences):
        choices = self.choices()
        size, done = next(choices), 0
        while done < recurrences:
            result = self.run(size)
            done += result[0]
            size = choices.send(result)
        return self.energy_j


def published(name):
    with open(os.path.join(DATA, "golden", name), encoding="utf-8") as file:
        return list(csv.DictReader(file))


@unittest.skipUnless(HAS_DATA, "no recorded training at hand")
class Golden(unittest.TestCase):
    def test_every_recorded_series_is_taken_again(self):
        files = glob.glob(os.path.join(DATA, "golden", "replay_*.csv"))
        self.assertEqual(len(files), 17)
        for path in files:
            gpu, dataset, _seed, eta, beta, window = re.fullmatch(
                r"replay_(\w+?)_([\w-]+?)_seed(\d+)_eta([\d.]+)_beta(inf|[\d.]+?)(?:_win(\d+))?\.csv",
                os.path.basename(path)).groups()
            found = replay_json("--golden", path, "--eta", eta, "--beta", beta, "--window", window or "0", gpu=gpu,
                                dataset=dataset)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(found["steps"], len(file.readlines()) - 1, path)
            self.assertEqual(found["mismatches"], 0, path)
            self.assertLessEqual(found["max_relative_error"], 1e-9)

    def test_a_tampered_series_is_found(self):
        path = os.path.join(DATA, "golden", "replay_v100_squad_seed1_eta0.5_beta2.0.csv")
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for column, name in ((4, "bs"), (5, "pl"), (7, "cost_ub"), (13, "energy_j"), (16, "cost_seen")):
            cells = lines[40].split(",")
            cells[column] = {"bs": "56", "pl": "100"}.get(name) or repr(float(cells[column]) * 1.00001)
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write("\n".join(lines[:40] + [",".join(cells)] + lines[41:]) + "\n")
                file.flush()
                done = replay("--json", "--golden", file.name)
            self.assertEqual(done.returncode, 1, name)
            self.assertGreaterEqual(json.loads(done.stdout)["mismatches"], 1, name)


@unittest.skipUnless(HAS_DATA, "no recorded training at hand")
class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = {(gpu, dataset): replay_json("--seeds", str(SEEDS), gpu=gpu, dataset=dataset)
                     for gpu in GPUS for dataset in JOBS}

    def test_default_and_oracle_agree_with_a_count_of_their_own(self):
        for (gpu, dataset), found in self.found.items():
            job = Recorded(gpu, dataset)
            self.assertAlmostEqual(found["phases"][0]["default"]["energy_j"] / job.default_energy_j(), 1.0, 9)
            self.assertAlmostEqual(found["phases"][0]["oracle_cost_j"] / job.oracle_cost_j(), 1.0, 9)
            for policy in found["policies"]:
                for seed in policy["seeds"]:
                    self.assertAlmostEqual(seed["saving_ratio"],
                                           1.0 - seed["energy_j"] / found["default_energy_j"], 9)
                    self.assertAlmostEqual(seed["regret_ratio"], seed["cost_j"] / found["oracle_cost_j"] - 1.0, 9)
                savings = [seed["saving_ratio"] for seed in policy["seeds"]]
                self.assertAlmostEqual(policy["saving_ratio"]["mean"], statistics.mean(savings), 9)
                self.assertAlmostEqual(policy["saving_ratio"]["deviation"], statistics.stdev(savings), 9)

    def test_the_published_policy_lies_in_the_published_bands(self):
        for row in published("seeds_summary.csv"):
            zeus = policy_of(self.found[row["gpu"], row["dataset"]], "zeus")
            for ours, theirs in (("last_saving_ratio", "saving_last5"), ("saving_ratio", "saving_all_runs")):
                mean, deviation = (float(row[f"{theirs}_{part}"]) for part in ("mean", "sd"))
                band = 3.0 * deviation * math.sqrt(1.0 / 100.0 + 1.0 / SEEDS) + 0.5
                self.assertLessEqual(abs(100.0 * zeus[ours]["mean"] - mean), band, (row["dataset"], ours))

    def test_the_published_policy_is_the_described_one(self):
        for gpu, dataset in (("v100", "cifar100"), ("a40", "squad"), ("v100", "librispeech")):
            found = self.found[gpu, dataset]
            job = Recorded(gpu, dataset)
            energy_j = [Zeus(job, seed).play(found["recurrences"]) for seed in range(SEEDS)]
            savings = [1.0 - each / found["default_energy_j"] for each in energy_j]
            zeus = policy_of(found, "zeus")["saving_ratio"]
            error = math.hypot(zeus["deviation"], statistics.stdev(savings)) / math.sqrt(SEEDS)
            self.assertLessEqual(abs(zeus["mean"] - statistics.mean(savings)), 4.0 * error + 1e-4, dataset)

    def test_lull_spends_less(self):
        for gpu in GPUS:
            lower = 0
            for dataset in JOBS:
                zeus, lull = (policy_of(self.found[gpu, dataset], name)["regret_ratio"]["mean"]
                              for name in ("zeus", "lull"))
                lower += lull < zeus
                self.assertLessEqual((1.0 + lull) / (1.0 + zeus), 1.02, dataset)
            self.assertGreaterEqual(lower, 4, gpu)

    def test_a_job_that_stays_the_same_raises_no_alarm(self):
        alarms = sum(seed["changes"] for found in self.found.values() for seed in policy_of(found, "lull")["seeds"])
        self.assertLessEqual(alarms, 0.05 * SEEDS * len(self.found))

    def test_the_same_seed_gives_the_same_series(self):
        again = replay_json("--seeds", "1", "--first-seed", "7", gpu="a40", dataset="imagenet")
        first = self.found["a40", "imagenet"]
        for name in ("zeus", "lull"):
            self.assertEqual(policy_of(again, name)["seeds"][0], policy_of(first, name)["seeds"][6])


@unittest.skipUnless(HAS_DATA, "no recorded training at hand")
class Drift(unittest.TestCase):
    def test_changed_data_are_noticed_and_paid_for_once(self):
        for gpu in GPUS:
            for dataset, target, then in (("cifar100", "0.5", "0.6"), ("imagenet", "0.4", "0.5"),
                                          ("movielens-1m", "0.4", "0.41")):
                found = replay_json("--target", target, "--then", then, "--then", target, "--recurrences", "60",
                                    "--seeds", "10", gpu=gpu, dataset=dataset)
                regret = {policy["policy"]: policy["regret_ratio"]["mean"] for policy in found["policies"]}
                self.assertLess(regret["lull"], regret["zeus"], dataset)
                self.assertLess(regret["lull"], regret["zeus_window"], dataset)
                self.assertLess(regret["lull"], 0.2, dataset)
                self.assertTrue(all(seed["changes"] >= 1 for seed in policy_of(found, "lull")["seeds"]))

    def test_the_picture_is_well_formed(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "drift.svg")
            done = replay("--target", "83", "--then", "84", "--recurrences", "30", "--seeds", "2", "--svg", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            root = xml.etree.ElementTree.parse(path).getroot()
            self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 4)


class BadInput(unittest.TestCase):
    def refused(self, done, status, *words):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_command_line(self):
        self.refused(replay(dataset="mnist"), 2, "mnist")
        self.refused(replay("--beta", "0.5"), 2, "0.5")
        self.refused(replay("--eta", "2"), 2, "2")
        self.refused(replay("--golden", "x", "--then", "3"), 2, "--golden")

    def test_files(self):
        self.refused(replay(train="/nonexistent"), 1, "/nonexistent")
        with tempfile.TemporaryDirectory() as directory:
            train, power = (os.path.join(directory, name) for name in ("train.csv", "power.csv"))
            rows = {train: "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch\n"
                           "squad,bert_base_uncased,32,adamw,5e-5,1,84.0,2\n",
                    power: "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
                           "squad,bert_base_uncased,32,adamw,250,100,200\n"}
            changes = ((train, "84.0,2", "84.0,0", "line 2"), (train, "32", "-32", "line 2"),
                       (train, "run,", "", "header"), (power, "250", "x", "line 2"), (power, "100", "0", "line 2"),
                       (power, "squad", "other", "squad"), (train, "84.0,2", "84.0,nan", "never"))
            for path, what, other, word in changes:
                for name, text in rows.items():
                    with open(name, "w", encoding="utf-8") as file:
                        file.write(text.replace(what, other) if name == path else text)
                status = 1 if word in ("squad", "never") else 2
                self.refused(replay(train=train, power=power), status, word)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(SKIPPED)
