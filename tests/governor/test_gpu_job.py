"""A recorded job that communicates through NCCL, played on the emulated node, is understood by
`lull run` through NCCL's profiler plugin and the CUPTI window alone: its iterations, its exposed
communication and its idle gaps. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, DATA = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
TRACES = [os.path.join(DATA, f"sampled_rank-{rank}.json.gz") for rank in range(2)]
ITERATIONS = 46


class GpuJob(unittest.TestCase):
    def run_job(self, iterations, *options):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            done = subprocess.run(
                [LULL, "emulate", "--seed", "0", "2xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--quiet",
                 "--report", directory, *options, "--", LULL, "play", "--iterations", str(iterations), *TRACES],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file)

    def test_gaps_are_found_where_they_were_recorded(self):
        report = self.run_job(ITERATIONS)
        self.assertTrue(all("during the clock search" in note for note in report["notes"]), report["notes"])
        # Two recorded iterations of about 615 ms; those before the GPUs are warm are left out.
        self.assertAlmostEqual(report["managed"]["iteration_ms"], 615, delta=30)
        self.assertGreater(report["managed"]["iterations"], ITERATIONS / 4)
        for gpu in report["gpus"]:
            self.assertEqual(gpu["events_lost"], 0)
            long = [section for section in gpu["sections"] if section["mean_ms"] > 40]
            self.assertTrue(all(section["kind"] in ("idle", "communication") for section in gpu["sections"]))
            self.assertTrue(any(section["kind"] == "communication" for section in long), long)
            self.assertTrue(any(section["kind"] == "idle" for section in long), long)
        # The gaps of rank 0 of more than 40 ms, as an independent reading of the trace has them.
        recorded = [44.1, 47.8, 56.6, 58.9, 65.1, 67.9]
        found = sorted(section["mean_ms"] for section in report["gpus"][0]["sections"] if section["mean_ms"] > 40)
        self.assertGreaterEqual(len(found), 5)
        for length in found:
            self.assertTrue(any(abs(length - other) < 4 for other in recorded), (length, recorded))

    def test_without_the_window_kernels_are_sections(self):
        report = self.run_job(20, "--exposure=no")
        for gpu in report["gpus"]:
            self.assertTrue(all(section["kind"] == "communication" for section in gpu["sections"]))
            self.assertGreater(gpu["calls"], 5 * 20 / 2)
            # Two communication streams, a communicator each; a recorded SendRecv is two operations.
            self.assertEqual([item["operations"] for item in gpu["communicators"]], [2 * 4 * 20, 2 * 20])


if __name__ == "__main__":
    if not os.path.isdir(DATA):
        print(f"skipped: no {DATA}")
        sys.exit(77)
    unittest.main(verbosity=2)
