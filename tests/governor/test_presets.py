"""A job whose communicators race on the GPU, tensor, pipeline and data parallel at once, is learnt by
`lull run`, with its computation told and without. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv.pop(1))
RANKS = 8
SECONDS = 17  # iterations of 0.6 s: to find three, to record six, for the track to learn as many


class Presets(unittest.TestCase):
    def run_megatron(self, *options):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            done = subprocess.run(
                [LULL, "emulate", "--seed", "0", f"{RANKS}xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--quiet",
                 "--report", directory, *options, "--", LULL, "play", "--preset", "megatron-3d", "--ranks", str(RANKS),
                 "--seconds", str(SECONDS)],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file)

    def check(self, report):
        # One iteration, not half of one nor two; how fast it is on a busy machine is not asked here.
        self.assertAlmostEqual(report["managed"]["iteration_ms"], 613, delta=200)
        for gpu in report["gpus"]:
            self.assertEqual(gpu["events_lost"], 0)
            self.assertNotIn("not managed", gpu["state"])
            # The bubble: what the next or the last stage waits for.
            self.assertTrue(any(section["mean_ms"] > 15 for section in gpu["sections"]), gpu["sections"])

    def test_computation_is_told(self):
        self.check(self.run_megatron())

    def test_computation_is_not_told(self):
        self.check(self.run_megatron("--exposure=no"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
