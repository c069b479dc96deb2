"""lull-reproduce envpipe: the eight published energies, and a wrong profile.

Usage: test_envpipe_command.py LULL_REPRODUCE DIRECTORY_OF_PIPELINE_DATA
SPDX-License-Identifier: Apache-2.0"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import reproduce_case  # pylint: disable=wrong-import-position

DATA = os.path.abspath(sys.argv[2])
RUNNER = reproduce_case.Runner(sys.argv[1], "envpipe")
SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "data", "samples", "gpt3-stages.csv")
A40 = os.path.join(DATA, "profiles", "gpt3-175b_a40_bf16.csv")
PUBLISHED = os.path.join(DATA, "envpipe", "envpipe_emulation_gpt3.csv")
STEPS = 86  # of the A100's plans, counted by the authors' emulation
del sys.argv[1:3]


class Envpipe(unittest.TestCase):
    def check_rows(self, document):
        self.assertEqual([row["microbatches"] for row in document["rows"]], [12, 24, 48, 96])
        for row in document["rows"]:
            self.assertLess(abs(row["energy_j"] / row["published_energy_j"] - 1), 1e-8)
            self.assertLess(abs(row["time_s"] - row["published_time_s"]), 0.00051)

    def test_a100(self):
        document = RUNNER.answer(SAMPLE)
        self.check_rows(document)
        self.assertEqual({row["steps"] for row in document["rows"]}, {STEPS})

    @unittest.skipUnless(os.path.exists(A40), "no published profile of the A40")
    def test_a40(self):
        self.check_rows(RUNNER.answer(A40, "--gpu", "a40"))

    @unittest.skipUnless(os.path.exists(PUBLISHED), "no published results of EnvPipe")
    def test_published_figures_are_those_of_the_file(self):
        rows = reproduce_case.table(PUBLISHED)
        for gpu, device, path in (("a100", "a100_sxm", SAMPLE), ("a40", "a40", A40)):
            shown = RUNNER.answer(path, "--gpu", gpu)["rows"]
            self.assertEqual([(int(row["num_microbatches"]), float(row["iteration_time"]), float(row["energy"]))
                              for row in rows if row["device"] == device],
                             [(row["microbatches"], row["published_time_s"], row["published_energy_j"]) for row in shown])

    def test_another_gpus_profile_is_refused(self):
        done = RUNNER.run(SAMPLE, "--gpu", "a40")
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs from the published one", done.stderr)
        self.assertIn("--gpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
