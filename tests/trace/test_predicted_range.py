"""The range that lull analyze predicts, against what lull simulate reaches on the same jobs once settled.

Usage: test_predicted_range.py LULL JOB_SHAPES
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, JOB_SHAPES = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]

# Jobs that differ in what communicates; each is played in a few seconds.
SHAPES = ("accumulation-8", "fsdp-32", "moe-24")
PERIODS = 1000  # the least for which the range is promised


def read_json(*arguments):
    done = subprocess.run([LULL, *arguments], capture_output=True, check=True, timeout=240)
    return json.loads(done.stdout)


class PredictedRange(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, shape):
        path = os.path.join(self.folder.name, shape + ".json.gz")
        subprocess.run([sys.executable, JOB_SHAPES, shape, path], check=True, timeout=60)
        return path

    def play(self, path, *options):
        document = read_json("simulate", "--json", "--modes", "auto", "--periods", str(PERIODS), *options, path)
        return [mode for mode in document["modes"] if mode["name"] == "auto"][0]

    def check(self, path, *options):
        predicted = read_json("analyze", "--json", *options, path)["predicted"]
        played = self.play(path, *options)
        settled = played["settled_saving_ratio"]
        self.assertIsNotNone(settled, played["settled_reason"])
        self.assertLessEqual(predicted["low_ratio"], settled, (predicted, played))
        self.assertGreaterEqual(predicted["high_ratio"], settled, (predicted, played))
        return predicted, played

    def test_the_settled_saving_is_within_the_range(self):
        for shape in SHAPES:
            with self.subTest(shape=shape):
                predicted, played = self.check(self.make(shape))
                self.assertGreater(played["below_ratio"], 0.0)  # two clocks by turns
                # A range says little that is wider than what may be saved.
                self.assertGreater(predicted["low_ratio"], predicted["high_ratio"] / 3)
                self.assertLess(abs(predicted["saving_ratio"] / played["settled_saving_ratio"] - 1), 0.25)

    def test_iterations_that_scatter(self):
        """Their proofs go on, half of which runs at the highest clocks."""
        self.check(self.make("evaluation-50"))

    def test_a_tolerance_below_the_first_lower_clock(self):
        """Turns reach what one clock cannot: the first one below the highest costs more than 0.5 %."""
        path = self.make("moe-24")
        predicted, played = self.check(path, "--tolerance", "0.5%")
        self.assertGreater(played["settled_saving_ratio"], 0.01)
        self.assertEqual(predicted["steady_saving_ratio"], 0.0)
        self.assertGreater(predicted["high_ratio"], 0.015)

    def test_the_first_line_says_of_what_it_is_a_range(self):
        self.assertIn(", once settled; run: lull run",
                      read_json("analyze", "--json", self.make("moe-24"))["verdict"])


if __name__ == "__main__":
    unittest.main()
