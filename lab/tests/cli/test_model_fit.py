"""lull model fit and lull model predict: errors, predictions and intervals against a second implementation, on devices
that are drawn; how often intervals hold the truth, also of kernels that were measured, where these are there; what is
refused, in words.

Usage: test_model_fit.py LULL DIRECTORY_OF_MEASURED_KERNELS
SPDX-License-Identifier: Apache-2.0"""
import collections
import csv
import gzip
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from model_oracle import HEADER, Device, bound, draw, quantile, table

LULL = os.path.abspath(sys.argv[1])
MEASURED = os.path.join(sys.argv[2], "kernels_dvfs.csv.gz")
del sys.argv[1:3]


def lull(*arguments, text=None):
    return subprocess.run([LULL, "model", *arguments], input=text, capture_output=True, check=False, timeout=60,
                          text=True)


def rows_of(device, names, kept=None):
    """The table of a device's kernels, at all or some of its points."""
    lines = [HEADER]
    for name, times, powers in zip(names, device.times, device.powers):
        for i, ((sm, mem), t, p) in enumerate(zip(device.points, times, powers)):
            if kept is None or i in kept:
                lines.append(f"drawn,s,{name},0,k,{sm},{mem},{t!r},{p!r},1")
    return "\n".join(lines) + "\n"


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.model = os.path.join(directory.name, "model.json")
        self.probes = os.path.join(directory.name, "probes.csv")

    def fit(self, text):
        done = lull("fit", "--output", self.model, "-", text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.model, encoding="utf-8") as file:
            return json.load(file)

    def predict(self, *arguments):
        done = lull("predict", "--json", *arguments, self.model)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["kernels"]

    def predict_probes(self, text, *arguments):
        with open(self.probes, "w", encoding="utf-8") as file:
            file.write(text)
        return self.predict("--probes", self.probes, *arguments)


class Figures(Case):
    def check(self, device):
        one, = self.fit(table(device))["sets"]
        names = ("time", "power", "energy")
        for name, errors in zip(names, device.left_out_errors()):
            self.assertAlmostEqual(one["known_errors"][name + "_log_ratio"], quantile(errors, 0.95), delta=1e-6)
        for name, errors in zip(names, device.probed_errors()):
            floor, slope = bound(errors, len(device.times))
            self.assertAlmostEqual(one["probed_errors"][name + "_log_ratio"], floor, delta=1e-5 * floor)
            if name != "power":
                self.assertAlmostEqual(one["probed_errors"][name + "_per_doubt_ratio"], slope, delta=1e-5 * slope)
        new = draw(77, 2, device.clocks, sorted({mem for _, mem in device.points}))
        rise = device.curve(len(device.powers))
        for kernel, times, powers in zip(self.predict_probes(rows_of(new, ("a", "b"), device.probes)), new.times,
                                         new.powers):
            self.assertFalse(kernel["is_known"])
            for point, time, doubt, power in zip(kernel["points"], *new.probe(times, powers, rise)):
                self.assertAlmostEqual(point["time_ms"]["value"] / time, 1, delta=1e-6)
                self.assertAlmostEqual(point["power_w"]["value"] / power, 1, delta=1e-6)
                error = one["probed_errors"]["energy_log_ratio"] + one["probed_errors"]["energy_per_doubt_ratio"] * doubt
                self.assertAlmostEqual(math.log(point["energy_mj"]["high"] / (time * power)), error, delta=1e-6)

    def test_one_axis(self):
        self.check(draw(11, 8, [600, 800, 1000, 1200, 1400], [900]))

    def test_two_axes(self):
        self.check(draw(12, 6, [600, 900, 1200], [2000, 2500, 3000]))


class Predictions(Case):
    device = draw(21, 24, list(range(600, 1401, 100)), [900])

    def test_what_was_measured_is_told(self):
        self.fit(table(self.device))
        for k, kernel in enumerate(self.predict()):
            for point, time, power in zip(kernel["points"], self.device.times[k], self.device.powers[k]):
                self.assertTrue(point["is_measured"])
                self.assertIsNone(point["time_ms"]["low"])
                self.assertAlmostEqual(point["time_ms"]["value"], time, delta=1e-5 * time)
                self.assertAlmostEqual(point["power_w"]["value"], power, delta=1e-5 * power)
            energy = [t * p for t, p in zip(self.device.times[k], self.device.powers[k])]
            self.assertEqual(kernel["least_energy"]["sm_mhz"], self.device.points[energy.index(min(energy))][0])
            within = self.device.pick(self.device.times[k], self.device.powers[k], 1.05)
            self.assertEqual(kernel["least_energy_within"]["sm_mhz"], self.device.points[within][0])

    def test_a_clock_between(self):
        fine = draw(31, 24, list(range(600, 1401, 50)), [900])
        coarse = Device(fine.points[::2], [row[::2] for row in fine.times], [row[::2] for row in fine.powers])
        self.fit(table(coarse))
        inside = 0
        for clock in range(650, 1400, 100):
            at = fine.points.index((clock, 900))
            for k, kernel in enumerate(self.predict("--sm-clock", str(clock))):
                point, = kernel["points"]
                self.assertFalse(point["is_measured"])
                inside += point["time_ms"]["low"] <= fine.times[k][at] <= point["time_ms"]["high"]
        self.assertGreater(inside, 0.93 * 24 * 8)

    def test_without_power(self):
        one, = self.fit(table(self.device, power=False))["sets"]
        self.assertIsNone(one["known_errors"]["power_log_ratio"])
        kernel = self.predict("--kernel", "app3,")[0]
        self.assertEqual((kernel["name"], kernel["least_energy"]), ("app3,0,k", None))
        self.assertIsNone(kernel["points"][0]["power_w"]["value"])
        self.assertIn("no power was measured", kernel["why_null"])

    def test_a_pick_between(self):
        self.fit(table(self.device))
        new = draw(78, 6, self.device.clocks, [900])
        between = 0
        for kernel in self.predict_probes(rows_of(new, map(str, range(6)), new.probes), "--slowdown", "3%"):
            base = kernel["points"][-1]
            for name, slowest in (("least_energy", math.inf), ("least_energy_within", 1.03)):
                picked = kernel[name]
                self.assertLessEqual(picked["sm_low_mhz"], picked["sm_mhz"])
                self.assertLessEqual(picked["sm_mhz"], picked["sm_high_mhz"])
                self.assertLessEqual(picked["slowdown_ratio"], slowest - 1)
                for point in kernel["points"]:
                    if point["time_ms"]["value"] <= slowest * base["time_ms"]["value"]:
                        self.assertLessEqual((1 - picked["saving_ratio"]) * base["energy_mj"]["value"],
                                             point["energy_mj"]["value"] * (1 + 1e-9))
                between += picked["sm_mhz"] not in self.device.clocks
        self.assertGreater(between, 3)
        # Without power there is nothing to pick; a known kernel has no interval, because all of it was measured.
        self.assertIsNone(self.predict("--kernel", "app3,")[0]["least_energy"]["sm_low_mhz"])
        done = lull("predict", "--probes", self.probes, self.model)
        self.assertIn("kernels of the file that\nare like it make them no narrower", done.stdout)

    def test_for_people(self):
        self.fit(table(self.device))
        done = lull("predict", "--kernel", "app3,", "--sm-clock", "650", self.model)
        self.assertIn("  650/900", done.stdout)
        self.assertNotIn("no narrower", done.stdout)
        self.assertIn("least: the SM/memory clock of least energy", done.stdout)


class Refused(Case):
    device = draw(41, 5, [600, 800, 1000], [900])

    def refused(self, words, *arguments):
        done = lull("predict", *arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, words)
        self.assertEqual(done.stdout, "")

    def test_what_is_not_there(self):
        self.fit(table(self.device) + table(self.device, gpu="other").split("\n", 1)[1])
        self.refused(r"several sets; give --set with one of 2, such as drawn/s", self.model)
        self.refused(r"the file has no set none", "--set", "none", self.model)
        self.refused(r'no kernel.s name begins with "x"; the first of 5 is "app0,0,k"', "--set", "other", "--kernel",
                     "x", self.model)
        self.refused(r"1100/900 MHz is not within what was measured, from 600 to 1000", "--set", "other",
                     "--sm-clock", "1100", self.model)
        self.refused(r"--mem-clock needs --sm-clock", "--set", "other", "--mem-clock", "900", self.model)

    def test_bad_documents(self):
        document = self.fit(table(self.device))
        for text, words in (("{", r"line 1: "), ("{}", "not a model of version 2")):
            self.write(text)
            self.refused(words, self.model)
        for field, value in (("points", [1]), ("kernels", []), ("base", 7), ("gpu", 3), ("known_errors", None)):
            broken = dict(document, sets=[dict(document["sets"][0], **{field: value})])
            self.write(json.dumps(broken))
            self.refused(rf"set 1: {field}: .*; fit the model again", self.model)

    def write(self, text):
        with open(self.model, "w", encoding="utf-8") as file:
            file.write(text)

    def test_too_many_probes(self):
        self.fit(table(self.device))
        other = draw(42, 1, [600, 650, 700, 750, 800, 850], [900])
        with open(self.probes, "w", encoding="utf-8") as file:
            file.write(rows_of(other, ("mine",)))
        self.refused(r'"mine,0,k" has more than 5 rows', "--probes", self.probes, self.model)

    def test_nothing_to_fit(self):
        done = lull("fit", "--output", self.model, "-", text=HEADER + "\ng,s,a,0,k,600,900,1,1,1\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is nothing to fit", done.stderr)
        self.assertFalse(os.path.exists(self.model))


@unittest.skipUnless(os.path.exists(MEASURED), "the measured kernels are not there")
class Measured(Case):
    """Half of the kernels are fitted, and the others are predicted from their probes."""

    def test_intervals_hold_the_truth(self):
        with gzip.open(MEASURED, "rt", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["valid"] == "1"]
        sets = collections.defaultdict(lambda: collections.defaultdict(dict))
        for row in rows:
            kernel = ",".join((row["app"], row["arg"], row["cuda_kernel"]))
            sets[row["gpu"], row["set"]][kernel].setdefault((float(row["core_mhz"]), float(row["mem_mhz"])), row)
        inside = {"time_ms": 0, "power_w": 0}
        count = dict(inside)
        for kernels in sets.values():
            self.judge(kernels, inside, count)
        for name in inside:
            print(f"{name}: {inside[name]} of {count[name]} within their intervals")
            self.assertGreater(inside[name], 0.94 * count[name])

    def judge(self, kernels, inside, count):
        names = sorted(kernels)
        self.fit(self.text([kernels[name] for name in names[::2]]))
        others = [kernels[name] for name in names[1::2]]
        predicted = self.predict_probes(self.text([self.probes_of(points) for points in others]))
        for kernel, points in zip(predicted, others):
            for point in kernel["points"]:
                row = points.get((point["sm_mhz"], point["mem_mhz"]))
                if row is None or row in self.probes_of(points).values():
                    continue
                for name, column in (("time_ms", "time_ms"), ("power_w", "power_w")):
                    if row[column]:
                        count[name] += 1
                        inside[name] += point[name]["low"] <= float(row[column]) <= point[name]["high"]

    @staticmethod
    def probes_of(points):
        device = Device(sorted(points), [], [])
        return {device.points[i]: points[device.points[i]] for i in device.probes}

    @staticmethod
    def text(kernels):
        out = io.StringIO()
        columns = HEADER.split(",")
        writer = csv.DictWriter(out, columns, extrasaction="ignore")
        writer.writeheader()
        for points in kernels:
            writer.writerows(points.values())
        return out.getvalue()


if __name__ == "__main__":
    unittest.main()
