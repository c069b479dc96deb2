"""lull plan: what its JSON says holds, plans survive a replay and tampering is found, recorded frontiers
of Perseus are beaten, and bad input is refused in words.

Usage: test_plan.py LULL DIRECTORY_OF_PIPELINE_DATA
SPDX-License-Identifier: Apache-2.0"""
import ast
import bisect
import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

LULL = os.path.abspath(sys.argv[1])
DATA = os.path.abspath(sys.argv[2])
del sys.argv[1:3]
SKIPPED = 77

GPT3 = os.path.join(DATA, "profiles", "gpt3-175b_a100_sxm_bf16.csv")
A100_W = "83.64"
HAS_DATA = os.path.exists(GPT3)
RELATIVE = 1e-9

SMALL = """stage,instruction,frequency,time,energy
0,forward,1410,0.050,24
0,forward,1080,0.062,17
0,backward,1410,0.093,45
0,backward,1080,0.113,32
1,forward,1410,0.054,26
1,forward,1080,0.066,19
1,backward,1410,0.099,48
1,backward,1080,0.120,35
"""


def plan(*arguments, data=None):
    return subprocess.run([LULL, "plan", *arguments], input=data, capture_output=True, text=True, check=False,
                          timeout=120)


def plan_json(*arguments, data=None):
    done = plan("--json", *arguments, data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def gpt3(stages, microbatches, *arguments):
    return ("--profile", GPT3, "--stages", str(stages), "--microbatches", str(microbatches), "--blocking-w", A100_W,
            *arguments)


# ---- an independent evaluation ----

def read_profile(path):
    with open(path, encoding="ascii") as file:
        return {(int(row["stage"]), row["instruction"], int(row["frequency"])):
                (float(row["time"]), float(row["energy"])) for row in csv.DictReader(file)}


def replay_1f1b(clocks, profile, stage_of, blocking_w):
    """Time and energy of lists of (operation, microbatch, MHz), one per stage."""
    begin = {}
    stages = len(clocks)
    at = [0] * stages
    free = [0.0] * stages
    energy = busy = 0.0
    while any(at[s] < len(clocks[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(clocks[s]):
                kind, batch, mhz = clocks[s][at[s]]
                before = (s - 1 if kind == "forward" else s + 1, kind, batch)
                if 0 <= before[0] < stages and before not in begin:
                    break
                took, joules = profile[stage_of(s), kind, mhz]
                free[s] = max(free[s], begin.get(before, 0.0)) + took
                begin[s, kind, batch] = free[s]  # its end
                energy += joules
                busy += took
                at[s] += 1
    time_s = max(free)
    return time_s, energy + blocking_w * (stages * time_s - busy)


def clocks_of(document):
    return [[(op["operation"], op["microbatch"], op["sm_mhz"]) for op in device] for device in document["plan"]]


@unittest.skipUnless(HAS_DATA, f"no {DATA}")
class Frontier(unittest.TestCase):
    def test_times_grow_and_energies_fall_above_the_bound(self):
        for stages, microbatches in ((4, 8), (8, 32), (8, 12)):
            document = plan_json(*gpt3(stages, microbatches, "--frontier"))
            points = document["frontier"]
            self.assertGreater(len(points), 50)
            for point in points:
                self.assertGreaterEqual(point["energy_j"], point["bound_j"] * (1 - RELATIVE))
                self.assertAlmostEqual(point["gap_ratio"], point["energy_j"] / point["bound_j"] - 1, places=8)
            for faster, slower in zip(points, points[1:]):
                self.assertLess(faster["time_s"], slower["time_s"])
                self.assertGreater(faster["energy_j"], slower["energy_j"])
                self.assertGreaterEqual(faster["bound_j"], slower["bound_j"] * (1 - RELATIVE))
            gaps = [point["gap_ratio"] for point in points]
            print(f"{stages}x{microbatches}: {len(points)} plans, gap mean {100 * sum(gaps) / len(gaps):.3f} %, "
                  f"worst {100 * max(gaps):.3f} %")
            self.assertLess(sum(gaps) / len(gaps), 0.002)

    def test_bounds_are_those_of_an_lp_solver(self):
        with open(os.path.join(DATA, "lp_reference.csv"), encoding="ascii") as file:
            rows = [row for row in csv.DictReader(file) if (row["stages"], row["microbatches"]) == ("8", "32")]
        points = plan_json(*gpt3(8, 32))["frontier"]
        high = plan_json(*gpt3(8, 32))["all_max"]
        checked = 0
        for row in rows:
            time_s, energy_j = float(row["T_s"]), float(row["E_J"])
            if row["kind"] == "allmax":
                self.assertAlmostEqual(high["time_s"], time_s, delta=1e-5)
                self.assertAlmostEqual(high["energy_j"], energy_j, delta=1e-5 * energy_j)
                continue
            i = bisect.bisect([point["time_s"] for point in points], time_s)
            if 0 < i < len(points):  # the relaxation is convex: between the bounds of its neighbours
                self.assertLessEqual(points[i]["bound_j"], energy_j * (1 + 1e-5))
                self.assertGreaterEqual(points[i - 1]["bound_j"], energy_j * (1 - 1e-5))
                checked += 1
        self.assertGreater(checked, 3)


Compared = collections.namedtuple("Compared", "time_s recorded_j ours_j bound_j")


def compare(stages, microbatches, recorded):
    """Every recorded point that some plan is fast enough for; the bound matters only where ours needs more."""
    points = plan_json(*gpt3(stages, microbatches))["frontier"]
    times = [point["time_s"] for point in points]
    seen = []
    for time_s, recorded_j in recorded:
        i = bisect.bisect_right(times, time_s)
        if i == 0:
            continue
        ours_j, bound_j = points[i - 1]["energy_j"], 0.0
        if i < len(points) and recorded_j < points[i]["bound_j"]:
            bound_j = points[i]["bound_j"]  # of a longer time, so a bound of this one too
        elif ours_j > recorded_j:
            ours_j, bound_j = single_at(stages, microbatches, time_s)
        seen.append(Compared(time_s, recorded_j, ours_j, bound_j))
    return seen


def single_at(stages, microbatches, time_s):
    """Energy of the plan for a deadline, and what its flow proves for just this time: the bound is a line there."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "plan.json")
        point = plan_json(*gpt3(stages, microbatches, "--deadline-ms", f"{time_s * 1e3:.9f}", "--output", path))
        with open(path, encoding="ascii") as file:
            flow = json.load(file)["flow"]
    point = point["frontier"][0]
    slope_w = stages * float(A100_W) - flow["value"] * flow["unit_w"]
    return point["energy_j"], point["bound_j"] + slope_w * (time_s - point["time_s"])


@unittest.skipUnless(HAS_DATA, f"no {DATA}")
class Recorded(unittest.TestCase):
    def test_recorded_frontiers_of_perseus(self):
        """Recorded energies are those of fitted curves: some lie below what any plan needs. At a few points the
        recorded energy lies between that bound and our plan (docs/research/measurements/pipelines.md). All are counted."""
        for microbatches, most_between in ((12, 12), (24, 14)):
            name = os.path.join(DATA, "perseus_frontiers", f"gpt3-175b_a100_sxm_mb{microbatches}.csv")
            with open(name, encoding="ascii") as file:
                recorded = [(float(row["time"]), float(row["energy"])) for row in csv.DictReader(file)]
            seen = compare(8, microbatches, recorded)
            below = [point for point in seen if point.recorded_j < point.bound_j and point.ours_j > point.recorded_j]
            between = [point for point in seen if point.bound_j <= point.recorded_j < point.ours_j]
            saved = [1 - point.ours_j / point.recorded_j for point in seen]
            print(f"Perseus, 8x{microbatches}: {len(recorded)} recorded, {len(recorded) - len(seen)} faster than any "
                  f"plan; of the other {len(seen)} ours needs no more at {len(seen) - len(below) - len(between)} and "
                  f"{100 * sum(saved) / len(saved):.2f} % less on average; {len(below)} lie below the proven bound, by "
                  f"up to {100 * max(1 - point.recorded_j / point.bound_j for point in below):.2f} %; {len(between)} "
                  f"between it and ours, by up to "
                  f"{100 * max([point.ours_j / point.recorded_j - 1 for point in between], default=0):.3f} %")
            for point in between:
                print(f"  {point.time_s:.4f} s: bound {point.bound_j:.2f}, recorded {point.recorded_j:.2f}, "
                      f"ours {point.ours_j:.2f} J")
                self.assertLess(point.recorded_j, 1.0008 * point.bound_j)
                self.assertLess(point.ours_j, 1.001 * point.bound_j)
            self.assertLessEqual(len(between), most_between)


@unittest.skipUnless(HAS_DATA, f"no {DATA}")
class Single(unittest.TestCase):
    def test_deadlines_hold_and_the_plan_is_what_it_says(self):
        profile = read_profile(GPT3)
        high = plan_json(*gpt3(8, 12))["all_max"]
        for slowdown in (0.0, 0.01, 0.05, 0.1):
            document = plan_json(*gpt3(8, 12, "--slowdown", str(slowdown)))
            (point,) = document["frontier"]
            self.assertLessEqual(point["time_s"], high["time_s"] * (1 + slowdown) + 1e-9)
            self.assertAlmostEqual(document["slowdown_ratio"], point["time_s"] / high["time_s"] - 1, places=8)
            self.assertAlmostEqual(document["saving_ratio"], 1 - point["energy_j"] / high["energy_j"], places=8)
            time_s, energy_j = replay_1f1b(clocks_of(document), profile, lambda s: s, float(A100_W))
            self.assertAlmostEqual(time_s, point["time_s"], delta=1e-7)
            self.assertAlmostEqual(energy_j, point["energy_j"], delta=1e-6 * energy_j)
            self.assertGreaterEqual(point["energy_j"], point["bound_j"] * (1 - RELATIVE))
            self.assertLess(point["gap_ratio"], 0.005)

    def test_a_long_pipeline_reads_its_profile_once(self):
        with open(GPT3, encoding="ascii") as file:
            text = file.read()
        about = ("--stages", "4", "--microbatches", "1024", "--blocking-w", A100_W, "--slowdown", "2%")
        self.assertEqual(plan_json("--profile", "-", *about, data=text), plan_json("--profile", GPT3, *about))

    def test_a_late_deadline_is_the_cheapest_plan(self):
        cheapest = plan_json(*gpt3(4, 8))["frontier"][-1]
        late = plan_json(*gpt3(4, 8, "--deadline-ms", "60000"))["frontier"][0]
        self.assertLess(late["energy_j"], cheapest["energy_j"] * 1.001)
        self.assertLess(late["time_s"], 2.1)

    def test_stragglers_are_waited_for_either_way(self):
        alone = plan_json(*gpt3(8, 12, "--slowdown", "0%"))
        for factor in (1.05, 1.2, 1.5, 3.0):
            straggler_s = alone["all_max"]["time_s"] * factor
            late = plan_json(*gpt3(8, 12, "--straggler-ms", str(straggler_s * 1e3)))
            self.assertAlmostEqual(late["period_s"], straggler_s, delta=1e-8)
            self.assertLessEqual(late["frontier"][0]["time_s"], straggler_s + 1e-9)
            waits_j = 8 * float(A100_W) * (straggler_s - alone["all_max"]["time_s"])
            self.assertAlmostEqual(late["all_max"]["energy_j"], alone["all_max"]["energy_j"] + waits_j, delta=1e-3)
            self.assertLess(late["frontier"][0]["energy_j"], alone["frontier"][0]["energy_j"] + waits_j)
            self.assertGreaterEqual(late["frontier"][0]["gap_ratio"], -RELATIVE)

    def test_copies_cost_as_often(self):
        one = plan_json(*gpt3(4, 8, "--slowdown", "1%"))
        two = plan_json(*gpt3(4, 8, "--slowdown", "1%", "--replicas", "2"))
        self.assertEqual(len(two["plan"]), 8)
        self.assertAlmostEqual(two["all_max"]["energy_j"], 2 * one["all_max"]["energy_j"], delta=1e-6)
        self.assertAlmostEqual(two["frontier"][0]["bound_j"], 2 * one["frontier"][0]["bound_j"],
                               delta=2e-3 * one["frontier"][0]["bound_j"])

    def test_slow_switches_cost_but_do_not_break_the_deadline(self):
        free = plan_json(*gpt3(4, 8, "--slowdown", "5%"))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "plan.json")
            slow = plan_json(*gpt3(4, 8, "--slowdown", "5%", "--switch-ms", "10,10", "--min-dwell-ms", "100",
                                   "--output", path))
            self.assertLessEqual(slow["slowdown_ratio"], 0.05 + 1e-9)
            self.assertGreaterEqual(slow["frontier"][0]["energy_j"], free["frontier"][0]["energy_j"] * 0.999)
            self.assertEqual(plan("--verify", path).returncode, 0)
        self.assertGreater(count_changes(free), count_changes(slow))

    def test_a_plan_for_a_busy_driver_holds(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "plan.json")
            for copies in ("1", "2"):
                made = plan(*gpt3(4, 8, "--replicas", copies, "--slowdown", "0%", "--switch-ms", "24,20",
                                  "--feed-forward", "9", "--driver-ms", "4", "--output", path))
                self.assertEqual(made.returncode, 0, made.stderr)
                done = plan("--verify", path)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_fed_forward_switches_take_energy_and_no_time(self):
        switching = ("--slowdown", "0%", "--switch-ms", "16,25")
        free = plan_json(*gpt3(4, 8, "--slowdown", "0%"))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "plan.json")
            forward = plan_json(*gpt3(4, 8, *switching, "--feed-forward", "9", "--output", path))
            self.assertEqual(plan("--verify", path).returncode, 0)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn('"feed_forward": 1, "early_s": 0.009000000', text)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace('"early_s": 0.009', '"early_s": 0.029'))
            self.assertEqual(plan("--verify", path).returncode, 1)
        self.assertLessEqual(forward["slowdown_ratio"], 1e-9)
        self.assertGreater(forward["frontier"][0]["energy_j"], free["frontier"][0]["energy_j"])
        self.assertLess(forward["frontier"][0]["energy_j"], 1.05 * free["frontier"][0]["energy_j"])
        self.assertLess(count_changes(forward), count_changes(free))


def count_changes(document):
    return sum(a["sm_mhz"] != b["sm_mhz"] for device in document["plan"] for a, b in zip(device, device[1:]))


class Small(unittest.TestCase):
    """What needs no recorded data."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.profile = self.write("small.csv", SMALL)

    def tearDown(self):
        self.directory.cleanup()

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def small(self, *arguments):
        return ("--profile", self.profile, "--stages", "2", "--microbatches", "4", *arguments)

    def refused(self, status, pattern, *arguments, data=None):
        done = plan(*arguments, data=data)
        self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.stdout, "")


class Verify(Small):
    def setUp(self):
        super().setUp()
        self.plan = self.path("plan.json")
        done = plan(*self.small("--slowdown", "3%", "--latency-ms", "2", "--output", self.plan))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.plan, encoding="ascii") as file:
            self.text = file.read()

    def test_round_trip(self):
        done = plan("--verify", self.plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("holds", done.stdout)
        document = plan_json("--verify", self.plan, "--profile", self.profile)
        self.assertTrue(document["holds"])
        written = json.loads(self.text)
        for key in ("time_s", "energy_j", "bound_j"):
            self.assertAlmostEqual(document[key], written[key], delta=1e-6)

    def tampered(self, pattern, change):
        document = json.loads(self.text)
        change(document)
        self.write("tampered.json", json.dumps(document))
        done = plan("--verify", self.path("tampered.json"))
        self.assertEqual(done.returncode, 1, (done.stdout, done.stderr))
        self.assertRegex(done.stderr, pattern)

    def test_tampering_is_found(self):
        def every_clock(document, mhz):
            for device in document["devices"]:
                for operation in device["operations"]:
                    operation["sm_mhz"] = mhz

        def first_flow(document, field, by):
            with_flow = next(op for op in document["devices"][0]["operations"] if op["flow"] > 0)
            with_flow[field] += by

        self.tampered("takes", lambda d: every_clock(d, 1080))
        self.tampered("energy|needs", lambda d: d.update(energy_j=d["energy_j"] - 1))
        self.tampered("flow proves", lambda d: d.update(bound_j=d["bound_j"] + 1))
        self.tampered("takes", lambda d: d.update(time_s=d["time_s"] - 1e-6))
        self.tampered("deadline", lambda d: d.update(deadline_s=d["time_s"] - 1e-3))
        self.tampered("flow", lambda d: first_flow(d, "flow", 5))
        self.tampered("flow", lambda d: d["flow"].update(value=d["flow"]["value"] + 5))
        self.tampered("needs", lambda d: d["devices"][0].update(blocking_w=80.0))
        self.tampered("needs|takes", lambda d: d["classes"][0]["options"][0].__setitem__(2, 20.0))

    def test_another_profile(self):
        other = self.write("other.csv", SMALL.replace("0.054,26", "0.056,26"))
        done = plan("--verify", self.plan, "--profile", other)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "it takes")
        lacking = self.write("lacking.csv", SMALL.replace("1410", "1400"))
        self.refused(1, "lacking.csv: has no 1410 MHz", "--verify", self.plan, "--profile", lacking)

    def test_what_is_no_plan(self):
        for name, text, pattern in (
                ("empty", "", "empty: .*byte 0|empty"), ("cut", self.text[:900], "cut: .*byte"),
                ("list", "[1, 2]", "list: byte .* expected an object"),
                ("version", self.text.replace('"lull_plan": 1', '"lull_plan": 2'), "not a plan that this version"),
                ("clock", self.text.replace('"sm_mhz": 1080', '"sm_mhz": 1081', 1), "a clock that its class"),
                ("kind", self.text.replace('"operation": "forward"', '"operation": "sideways"', 1), "no such operation"),
                ("cycle", self.text.replace('"edges": [', '"edges": [[2, 0, 0, 0], ', 1), "circle"),
                ("edge", self.text.replace('"edges": [', '"edges": [[99, 0, 0, 0], ', 1), "an edge is between"),
                ("negative", re.sub(r'"flow": (\d+)', r'"flow": -\1', self.text, count=1), "negative")):
            self.refused(1, pattern, "--verify", self.write(name, text))
        self.refused(1, "absent: .*[Nn]o such file", "--verify", self.path("absent"))


class Output(Small):
    def test_perseus_list(self):
        path = self.path("freqs.py")
        document = plan_json(*self.small("--slowdown", "0", "--perseus", path))
        with open(path, encoding="ascii") as file:
            text = file.read()
        stages = ast.literal_eval(text)
        self.assertEqual(stages, [[(op["operation"], op["sm_mhz"]) for op in device] for device in document["plan"]])
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("#")]), 3)

    def test_picture(self):
        path = self.path("plan.svg")
        self.assertEqual(plan(*self.small("--slowdown", "0", "--svg", path)).returncode, 0)
        root = xml.etree.ElementTree.parse(path).getroot()
        text = " ".join("".join(node.itertext()) for node in root.iter())
        for word in ("stage 0", "stage 1", "All at the highest clock", "Plan", "1080", "1410 MHz", "critical path"):
            self.assertIn(word, text)

    def test_pictures_of_many_operations_stay_small(self):
        path = self.path("large.svg")
        done = plan("--profile", self.profile, "--stages", "16", "--microbatches", "256", "--slowdown", "0%", "--svg",
                    path)
        self.assertEqual(done.returncode, 0, done.stderr)
        xml.etree.ElementTree.parse(path)
        self.assertLess(os.path.getsize(path), 4 << 20)

    def test_many_micro_batches_are_extended_from_few(self):
        path = self.path("long.json")
        long = ("--profile", self.profile, "--stages", "16", "--microbatches", "256")
        single = plan_json(*long, "--slowdown", "1%", "--output", path)
        self.assertGreaterEqual(single["frontier"][0]["gap_ratio"], -RELATIVE)
        self.assertLessEqual(single["slowdown_ratio"], 0.01)
        self.assertEqual(plan("--verify", path).returncode, 0)
        points = plan_json(*long)["frontier"]
        for point in points:
            self.assertGreaterEqual(point["gap_ratio"], -RELATIVE)
        for faster, slower in zip(points, points[1:]):
            self.assertGreater(faster["energy_j"], slower["energy_j"])

    def test_text_and_pipes(self):
        done = plan(*self.small("--slowdown", "0%"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("all at the highest", "bound", "stage", "--svg"):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stderr, "")
        done = plan("--profile", "-", "--stages", "2", "--microbatches", "2", data=SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_same_again(self):
        first = plan("--json", *self.small())
        self.assertEqual(first.stdout, plan("--json", *self.small()).stdout)

    def test_nothing_half_written(self):
        self.refused(1, "absent/plan.json", *self.small("--slowdown", "0", "--output",
                                                        self.path("absent/plan.json")))


class BadInput(Small):
    def test_deadlines(self):
        self.refused(1, r"T_min", *self.small("--deadline-ms", "100"))
        shortest = re.search(r"shortest takes ([\d.]+) ms", plan(*self.small("--deadline-ms", "1")).stderr).group(1)
        self.assertEqual(plan(*self.small("--deadline-ms", shortest)).returncode, 0)

    def test_usage(self):
        for arguments in (("--deadline-ms", "-5"), ("--deadline-ms", "0"), ("--deadline-ms", "soon"),
                          ("--slowdown", "-1%"), ("--straggler-ms", "nan"), ("--latency-ms", "-1"),
                          ("--switch-ms", "3"), ("--feed-forward", "5"), ("--min-dwell-ms", "-1"), ("--replicas", "0"), ("--stages", "0"),
                          ("--microbatches", "1.5"), ("surplus",), ("--slowdown", "0", "--frontier"),
                          ("--deadline-ms", "900", "--slowdown", "1%"), ("--svg", "x.svg"), ("--output", "x.json"),
                          ("--graph", "x.csv")):
            self.refused(2, "lull plan", *self.small(*arguments))
        self.refused(2, "--profile", "--stages", "2", "--microbatches", "2")
        self.refused(2, "--stages", "--profile", self.profile)

    def test_schedules(self):
        done = plan(*self.small("--schedule", "2f2b"))
        self.assertIn(done.returncode, (1, 2))
        self.assertRegex(done.stderr, "2f2b.*1f1b")

    def test_blocking(self):
        for text in ("-1", "85,", "85,85,85", "watts", "V100-SXM2-16GB", "nan", "0xA40", ""):
            self.refused(2, "--blocking-w", *self.small("--blocking-w", text))
        for text in ("0", "85,80", "A40", "8xA100-SXM4-80GB"):
            self.assertEqual(plan(*self.small("--blocking-w", text)).returncode, 0)

    def test_profiles(self):
        for text, pattern in (
                ("", "."), ("stage,instruction,frequency,time\n0,forward,1,1\n", "energy"),
                (SMALL.replace("0.054", "-0.054"), r"6.*|0\.054"), (SMALL.replace("0.054", "x"), "row 6|line 6|:6"),
                (SMALL + "1,backward,1080,0.120,35\n", "1080"), (SMALL.replace("1,backward", "1,backwards"), "backwards")):
            path = self.write("bad.csv", text)
            self.refused(1, r"bad\.csv.*" + pattern, "--profile", path, "--stages", "2", "--microbatches", "2")
        self.refused(1, "absent.csv", "--profile", self.path("absent.csv"), "--stages", "2", "--microbatches", "2")


class Graphs(Small):
    LINES = "\n".join(json.dumps(line) for line in (
        {"op": 1, "device": 0, "stage": 0, "kind": "forward", "microbatch": 0},
        {"op": 2, "device": 1, "stage": 1, "kind": "forward", "microbatch": 0},
        {"op": 3, "device": 1, "stage": 1, "kind": "backward", "microbatch": 0},
        {"op": 4, "device": 0, "stage": 0, "kind": "backward", "microbatch": 0},
        {"from": 1, "to": 2}, {"from": 3, "to": 4})) + "\n"
    TORCH = "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1,,\n"

    def test_a_chain_cannot_be_slowed(self):
        path = self.write("chain.jsonl", self.LINES)
        document = plan_json("--profile", self.profile, "--graph", path, "--slowdown", "0%", "--blocking-w", "0")
        self.assertAlmostEqual(document["frontier"][0]["time_s"], 0.05 + 0.054 + 0.099 + 0.093)
        self.assertEqual({op["sm_mhz"] for device in document["plan"] for op in device}, {1410})

    def test_torch_schedule_is_as_the_generated_one(self):
        path = self.write("1f1b.csv", self.TORCH)
        ours = plan_json("--profile", self.profile, "--stages", "2", "--microbatches", "2")
        theirs = plan_json("--profile", self.profile, "--graph", path)
        self.assertEqual(ours, theirs)

    def test_bad_graphs(self):
        cyclic = self.LINES + '{"from": 4, "to": 1}\n'
        self.refused(1, "cyclic", "--profile", self.profile, "--graph", self.write("cyclic", cyclic))
        self.refused(1, "torch.csv.*[23]X0", "--profile", self.profile, "--graph",
                     self.write("torch.csv", self.TORCH.replace("1F1", "3X0")))
        self.refused(1, "empty", "--profile", self.profile, "--graph", self.write("empty", ""))


class Time(unittest.TestCase):
    @unittest.skipUnless(HAS_DATA, f"no {DATA}")
    def test_no_progress_line_where_there_is_no_terminal(self):
        done = plan("--json", *gpt3(8, 32))
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) == result.testsRun else 0)
