#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull-bound against GLPK (a process), against all schedules of tiny problems, and on bad input.

usage: test_bound.py LULL_BOUND SOLVE_MANY
"""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import instances

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import bench_bound

BOUND, SOLVE_MANY = sys.argv[1:3]
RANDOM_PROBLEMS = 200 # with a solution
TINY_PROBLEMS = 60


def run(*arguments, text=None):
    return subprocess.run([BOUND, *arguments], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=120)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def bound(self, instance, *options):
        instances.write_instance(self.path("instance"), instance)
        done = run(self.path("instance"), "--json", *options)
        if done.returncode == 2 and "no mode fits" in done.stderr:
            return {"feasible": False}
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def solve_all(self, drawn, *options):
        """Of each instance what solve_many tells; one process for all."""
        for number, instance in enumerate(drawn):
            instances.write_instance(self.path(str(number)), instance)
        done = subprocess.run([SOLVE_MANY, *options] + [self.path(str(i)) for i in range(len(drawn))],
                              check=True, stdout=subprocess.PIPE, universal_newlines=True, timeout=250)
        names = ("feasible", "bound_j", "lp_j", "columns", "schedule_j", "ilp_bound_j", "ilp_optimal")
        told = [dict(zip(names, map(float, line.split()))) for line in done.stdout.splitlines()]
        self.assertEqual(len(told), len(drawn))
        return told

    def glpk(self, instance, is_integer):
        """The optimum by glpsol, None: there is none."""
        instances.write_program(self.path("lp"), instance, is_integer)
        subprocess.run(["glpsol", "--lp", self.path("lp"), "--nopresol", "--write",
                        self.path("solution")],
                       check=True, stdout=subprocess.DEVNULL, timeout=120)
        with open(self.path("solution"), encoding="ascii") as file:
            words = next(line.split() for line in file if line.startswith("s "))
        # s bas ROWS COLUMNS PRIMAL DUAL VALUE; s mip ROWS COLUMNS STATUS VALUE
        return float(words[-1]) if words[4] in ("f", "o") else None

    def assert_within(self, low, high, seed, margin=1e-8):
        self.assertLessEqual(low, high + margin * max(1.0, abs(high)), f"seed {seed}")


def draw(rng, seed, largest_jobs, largest_slots):
    return instances.draw(rng, rng.randint(1, largest_jobs), rng.randint(4, largest_slots),
                          rng.randint(1, 3), seed % 3 == 0, [0.0, 0.5, 0.8, 1.0][seed % 4])


class Programs(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("glpsol") is None:
            self.skipTest("no glpsol (glpk-utils)")

    def test_linear_program_is_that_of_glpk(self):
        feasible = 0
        drawn = [draw(random.Random(seed), seed, 12, 14) for seed in range(2 * RANDOM_PROBLEMS)]
        for seed, (instance, told) in enumerate(zip(drawn, self.solve_all(drawn))):
            if feasible == RANDOM_PROBLEMS:
                break
            expected = self.glpk(instance, False)
            self.assertEqual(bool(told["feasible"]), expected is not None, f"seed {seed}")
            if expected is None:
                continue
            feasible += 1
            margin = 1e-8 * max(1.0, abs(expected))
            self.assertAlmostEqual(told["lp_j"], expected, delta=margin, msg=f"seed {seed}")
            self.assertAlmostEqual(told["bound_j"], expected, delta=margin, msg=f"seed {seed}")
            # GLPK prints 15 digits.
            self.assert_within(told["bound_j"], expected, seed, 1e-14)
        self.assertEqual(feasible, RANDOM_PROBLEMS)

    def test_large_programs_are_those_of_glpk(self):
        for seed, share_left_out in enumerate((1.0, 0.97, 0.5)):
            instance = instances.draw(random.Random(3000 + seed), 250, 90, 2, seed == 0, share_left_out)
            could_run = {column[0] for column in instances.columns_of(instance)}
            instance = instance[:1] + [job for i, job in enumerate(instance[1:])
                                       if i in could_run or "value_j" in job]
            told, expected = self.bound(instance), self.glpk(instance, False)
            self.assertEqual(told["feasible"], expected is not None, f"seed {seed}")
            self.assertGreater(told["columns"], 5000)
            if expected is not None:
                self.assertAlmostEqual(told["bound_j"], expected, delta=1e-8 * expected, msg=f"seed {seed}")
                fast = self.bound(instance, "--fast")
                self.assert_within(fast["bound_j"], expected, seed, 1e-14)
                self.assertGreater(fast["bound_j"], 0.95 * expected)

    def test_integer_program_is_that_of_glpk(self):
        drawn = [draw(random.Random(1000 + seed), seed, 8, 8) for seed in range(40)]
        for seed, (instance, told) in enumerate(zip(drawn, self.solve_all(drawn, "--ilp"))):
            expected = self.glpk(instance, True)
            self.assertEqual(bool(told["feasible"]), expected is not None, f"seed {seed}")
            if expected is not None:
                self.assertAlmostEqual(told["schedule_j"], expected,
                                       delta=1e-6 * max(1.0, abs(expected)), msg=f"seed {seed}")


class Tiny(Case):
    def test_against_all_schedules(self):
        feasible = 0
        drawn = [draw(random.Random(2000 + seed), seed, 4, 6) for seed in range(TINY_PROBLEMS)]
        for seed, (instance, told) in enumerate(zip(drawn, self.solve_all(drawn, "--ilp"))):
            best = instances.best_of_all(instance)
            self.assertEqual(bool(told["feasible"]), best is not None, f"seed {seed}")
            if best is None:
                continue
            feasible += 1
            self.assertTrue(told["ilp_optimal"])
            self.assert_within(told["bound_j"], best, seed, 0.0)
            self.assert_within(told["ilp_bound_j"], best, seed, 0.0)
            self.assertAlmostEqual(told["schedule_j"], best, delta=1e-9 * max(1.0, abs(best)))
        self.assertGreater(feasible, TINY_PROBLEMS // 3)


class Order(Case):
    def test_proven_bound_integer_bound_and_schedule(self):
        """On jobs like the benchmark's the linear program is within 1.5 % of a schedule, and any prices below it."""
        for row in bench_bound.WHOLE[:2]:
            bench_bound.write_instance(self.path("instance"), *row[:4])
            told = json.loads(run(self.path("instance"), "--json", "--ilp", "--gap", "0.5%").stdout)
            fast = json.loads(run(self.path("instance"), "--json", "--fast").stdout)
            self.assertLessEqual(fast["bound_j"], told["lp_j"] * (1 + 1e-12))
            self.assertLessEqual(told["bound_j"], told["schedule_j"])
            self.assertLessEqual(told["ilp_bound_j"], told["schedule_j"])
            self.assertLessEqual(told["gap_ratio"], 0.015)


class Files(Case):
    INSTANCE = [{"slots": 6, "types": [{"name": "V", "gpus": 2}], "cap_w": 900},
                {"job": "a", "modes": [
                    {"type": "V", "gpus": 2, "slots": 3, "energy_j": 5, "power_w": 600},
                    {"type": "V", "gpus": 2, "slots": 2, "energy_j": 7, "power_w": 700}]},
                {"job": "b", "deadline": 4, "modes": [
                    {"type": "V", "gpus": 2, "slots": 3, "energy_j": 5, "power_w": 600},
                    {"type": "V", "gpus": 1, "slots": 4, "energy_j": 8, "power_w": 200}]},
                {"job": "c", "value_j": 20, "modes": [
                    {"type": "V", "gpus": 1, "slots": 3, "energy_j": 3, "power_w": 300}]}]

    def test_prices_prove_the_bound(self):
        told = self.bound(self.INSTANCE, "--prices", self.path("prices"))
        with open(self.path("prices"), encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        price = {(name, int(row["slot"])): float(row[name if name != "cap" else "cap_w"])
                 for row in rows for name in ("V", "cap")}
        bound = -sum(room * price[key]
                     for key, room in instances.rooms_of(self.INSTANCE[0]).items())
        for number, job in enumerate(self.INSTANCE[1:]):
            bound += min([cost + sum(amount * price[key] for key, amount in uses.items())
                          for n, cost, uses in instances.columns_of(self.INSTANCE)
                          if n == number] + [job[k] for k in ("value_j",) if k in job])
        self.assertAlmostEqual(bound, told["bound_j"], delta=1e-12)

    def test_schedule_is_one(self):
        told = self.bound(self.INSTANCE, "--ilp", "--schedule", self.path("schedule"))
        self.assertAlmostEqual(told["schedule_j"], instances.best_of_all(self.INSTANCE))
        with open(self.path("schedule"), encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["job"] for row in rows} - {"a", "b", "c"}, set())
        self.assertLessEqual({"a", "b"}, {row["job"] for row in rows})

    def test_standard_input_and_text(self):
        lines = "\n\n".join(json.dumps(line) for line in self.INSTANCE)
        done = run("-", "--ilp", text=lines)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^bound     \d.* J, proven;")
        self.assertRegex(done.stdout, r"(?m)^schedule  \d.* J, \d.* above the bound$")

    def test_jobs_that_do_not_fit_together(self):
        one = {"modes": [{"type": "V", "gpus": 2, "slots": 4, "energy_j": 1}]}
        told = self.bound([self.INSTANCE[0], dict(one, job="a"), dict(one, job="b")], "--ilp")
        self.assertEqual(told["feasible"], False)
        self.assertNotIn("bound_j", told)

    def test_whole_runs_bound_no_runs_in_pieces(self):
        """One GPU, a job around another: in pieces they fit, whole they do not, nor do fractions of whole runs."""
        mode = {"type": "V", "gpus": 1, "energy_j": 1}
        told = self.bound([{"slots": 6, "types": [{"name": "V", "gpus": 1}]},
                           {"job": "around", "modes": [dict(mode, slots=2)]},
                           {"job": "inner", "arrival": 1, "deadline": 5, "modes": [dict(mode, slots=4)]}])
        self.assertEqual(told["feasible"], False)

    def test_no_jobs_and_no_room(self):
        self.assertEqual(self.bound(self.INSTANCE[:1])["bound_j"], 0.0)
        told = self.bound([{"slots": 1, "types": [{"name": "V", "gpus": 0}]},
                           dict(self.INSTANCE[3])], "--ilp")
        self.assertEqual((told["bound_j"], told["schedule_j"], told["dropped_modes"]),
                         (20.0, 20.0, 1))

    def test_a_limit_of_time_leaves_a_bound(self):
        rng = random.Random(7)
        instance = instances.draw(rng, 150, 60, 3, True, 1.0)
        best = self.bound(instance)
        told = self.bound(instance, "--time-limit", "0.001")
        self.assertLessEqual(told["bound_j"], best["lp_j"] * (1 + 1e-9))


class BadInput(Case):
    CLUSTER = '{"slots": 4, "types": [{"name": "V", "gpus": 2}]}\n'
    MODE = '{"type": "V", "gpus": 1, "slots": 1, "energy_j": 1}'

    def refused(self, text, *words):
        done = run("-", text=text)
        self.assertEqual((done.returncode, done.stdout), (2, ""), text)
        self.assertEqual(done.stderr.count("\n"), 1)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_text(self):
        self.refused("", "no cluster")
        self.refused("{\n", "line 1", "byte")
        self.refused("[]\n", "line 1", "not an object")
        self.refused('{"slots": 4, "types": []}\n', "line 1", "types")
        self.refused('{"slots": 0, "types": [{"name": "V", "gpus": 2}]}\n', '"slots"')
        self.refused('{"slots": 4, "types": [{"name": "V"}]}\n', '"gpus"')
        self.refused('{"slots": 4, "types": [{"name": "V", "gpus": 2}, {"name": "V", "gpus": 2}]}',
                     "same name")
        self.refused('{"slots": 4, "types": [{"name": "V", "gpus": 2}], "cap": 3}', '"cap"')

    def test_jobs(self):
        for job, *words in [
                ('{"modes": []}', '"job"'),
                ('{"job": "a", "modes": 3}', '"modes"'),
                ('{"job": "a", "modes": []}', "no mode fits", "value_j"),
                ('{"job": "a", "arrival": 3, "deadline": 2, "modes": [%s]}', '"deadline"'),
                ('{"job": "a", "arrival": -1, "modes": [%s]}', '"arrival"'),
                ('{"job": "a", "arrival": 4, "modes": [%s]}', "no mode fits"),
                ('{"job": "a", "weight": 4, "modes": [%s]}', 'unknown "weight"'),
                ('{"job": "a", "job": "b", "modes": [%s]}', "duplicate"),
                ('{"job": "a", "modes": [{"type": "W", "gpus": 1, "slots": 1, "energy_j": 1}]}',
                 'no type "W"'),
                ('{"job": "a", "modes": [{"type": "V", "gpus": 3, "slots": 1, "energy_j": 1}]}',
                 "no mode fits"),
                ('{"job": "a", "modes": [{"type": "V", "gpus": 0, "slots": 1, "energy_j": 1}]}',
                 '"gpus"'),
                ('{"job": "a", "modes": [{"type": "V", "gpus": 1, "slots": 1}]}', '"energy_j"'),
                ('{"job": "a", "modes": [{"type": "V", "gpus": 1, "slots": 1, "energy_j": 1e99}]}',
                 '"energy_j"'),
                ('{"job": "a", "modes": [{"type": "V", "gpus": 1, "slots": 2, "energy_j": 1, '
                 '"last": 3}]}', "after the last"),
                ('{"job": "a", "weight_j": 1, "modes": [{"type": "V", "gpus": 1, "slots": 2, '
                 '"energy_j": 1, "delay_j": 3}]}', "delay_j")]:
            self.refused(self.CLUSTER + job.replace("%s", self.MODE), "line 2", *words)

    def test_calls(self):
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("a", "b").returncode, 2)
        self.assertEqual(run("a", "--gap", "x").returncode, 2)
        self.assertEqual(run("a", "--schedule", "x").returncode, 2)
        self.assertEqual(run("/nowhere/at/all").returncode, 1)
        self.assertIn("/nowhere/at/all", run("/nowhere/at/all").stderr)
        self.assertEqual(run("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
