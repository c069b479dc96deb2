"""`lull run --compare`: unmanaged and managed runs in turn on the emulated node, and what the report says of them. No
speed is asserted: bounds are held against the runs that the report itself lists. SPDX-License-Identifier: Apache-2.0"""
import json
import math
import os
import pty
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Compare(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.directory.cleanup)
        self.report = os.path.join(self.directory.name, "report.json")

    def compare(self, *command, options=(), status=0, stderr=subprocess.PIPE, fault=None):
        """The report, null where there is none, and what was printed."""
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", *(("--fault", fault) if fault else ()), "1xA100", "--", LULL, "run", "--verbose", "--no-daemon", "--compare", "--report",
             self.directory.name, *options, "--", *command],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory.name, LULL_STATE_DIR=self.directory.name),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if not os.path.exists(self.report):
            return None, done.stderr
        with open(self.report, encoding="utf-8") as file:
            return json.load(file), done.stderr

    def log_ratios(self, report, field):
        """Of each pair, managed to unmanaged."""
        runs = report["comparison"]["runs"]
        return [math.log(managed[field] / unmanaged[field]) for unmanaged, managed in
                (sorted(pair, key=lambda run: run["managed"]) for pair in zip(runs[::2], runs[1::2]))]

    def test_pairs_alternate_and_bound_the_difference(self):
        report, table = self.compare(JOB, "0", "45", "15", "60", "0",
                                     options=["--compare-pairs", "2", "--confidence", "90%"])
        comparison = report["comparison"]
        self.assertEqual([run["managed"] for run in comparison["runs"]], [False, True, True, False])
        self.assertEqual((comparison["pairs_wanted"], comparison["pairs"], comparison["no_bound_reason"]), (2, 2, None))
        for run in comparison["runs"]:
            self.assertGreater(run["iterations"], 20)
            self.assertGreater(run["wall_s"], 45 * 0.075)
            self.assertGreaterEqual(run["iteration_ms"], 75)
        # Student's t with one degree of freedom is the tangent.
        first, second = self.log_ratios(report, "iteration_ms")
        bound = (first + second) / 2 + math.tan(math.pi * 0.4) * abs(first - second) / 2
        self.assertAlmostEqual(report["slowdown_ratio"], math.expm1((first + second) / 2), places=7)
        self.assertAlmostEqual(report["slowdown_upper_ratio"], math.expm1(bound), places=6)
        self.assertEqual((report["confidence_ratio"], report["slowdown_basis"]), (0.9, "runs"))
        # Of the saving both bounds hold together, and the boards' offset is in them.
        first, second = self.log_ratios(report, "settled_energy_per_iteration_j")
        half = math.tan(math.pi * 0.45) * abs(first - second) / 2
        self.assertAlmostEqual(report["saving_ratio"], -math.expm1((first + second) / 2), places=7)
        self.assertLess(report["saving_lower_ratio"], -math.expm1((first + second) / 2 + half))
        self.assertGreater(report["saving_upper_ratio"], -math.expm1((first + second) / 2 - half))
        self.assertIsNone(report["saving_uncertainty_ratio"])
        self.assertIsNone(report["saving_terms"])
        self.assertIn("over 2 pairs of runs, at 90 % confidence", table)
        # The second managed run got the GPU as the first did.
        self.assertTrue(all("during the clock search" in note for note in report["notes"]), report["notes"])
        self.assertNotIn("not managed", table)
        self.assertGreater(report["gpus"][0]["switches"], 0)
        self.assertEqual(report["gpus"][0]["switches_refused"], 0)

    def test_one_run_each_has_no_bound(self):
        report, table = self.compare(JOB, "0", "45", "15", "60", "0")
        self.assertIn("one run of each kind", report["comparison"]["no_bound_reason"])
        self.assertIn("no run-to-run bound: only one run of each kind", table)
        self.assertEqual([run["managed"] for run in report["comparison"]["runs"]], [False, True])
        (ratio,) = self.log_ratios(report, "iteration_ms")
        self.assertAlmostEqual(report["slowdown_ratio"], math.expm1(ratio), places=7)
        for field in ("slowdown_upper_ratio", "saving_lower_ratio", "saving_upper_ratio"):
            self.assertIsNone(report[field])
        terms = report["saving_terms"]
        self.assertEqual(list(terms), ["readings_ratio", "runs_ratio", "offset_ratio", "level_ratio", "sampling_ratio"])
        self.assertAlmostEqual(report["saving_uncertainty_ratio"], math.hypot(*terms.values()), places=7)
        self.assertAlmostEqual(terms["runs_ratio"], 0.02356 * (1 - report["saving_ratio"]), places=5)
        # Iterations of 75 ms are short enough for a sensor that sees 25 of every 100 ms to keep step with some of them.
        self.assertGreater(terms["sampling_ratio"], 0)
        self.assertIn(f"+- {report['saving_uncertainty_ratio'] * 100:.2f} (95 %; one run of each kind", table)

    def test_a_power_limit_of_others_is_no_effect_of_lull(self):
        """The limit falls in one of the runs, or between them: no figure is claimed, and the reason is given."""
        report, said = self.compare(JOB, "0", "30", "15", "60", "0", fault="foreign_limit_w=150x1@300")
        self.assertEqual(report["comparison"]["pairs"], 0, said)
        self.assertIn("another program changed a power limit", report["comparison"]["no_bound_reason"])
        self.assertTrue(any("1 of 1 pairs of runs are left out of the comparison: another program changed a power limit" in note
                            for note in report["notes"]), report["notes"])
        for field in ("slowdown_ratio", "slowdown_upper_ratio", "saving_lower_ratio", "saving_ratio"):
            self.assertIsNone(report[field], field)
        self.assertNotIn("slowdown of the run as a whole", said)

    def test_a_run_that_fails_ends_the_comparison(self):
        count = os.path.join(self.directory.name, "count")
        job = f'echo >>{count}; test $(wc -l <{count}) -lt "$0" || exit 7'
        for failing, name, pairs in ((1, "unmanaged", 0), (2, "managed", 0), (3, "managed", 1), (4, "unmanaged", 1)):
            report, said = self.compare("sh", "-c", job, str(failing), options=["--compare-pairs", "3"], status=7)
            self.assertIn(f"run {failing} of 6, {name}: the job exited with status 7, so the comparison ends with "
                          f"{pairs} of 3 pairs of runs", said)
            with open(count, encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), failing)
            os.remove(count)
            if failing == 1:
                self.assertIsNone(report)
                continue
            self.assertEqual(report["status"], 7)
            self.assertIn("the run without Lull succeeded" if name == "managed" else "it failed in a run without Lull",
                          report["verdict"]["next_line"])
            self.assertEqual(report["comparison"]["pairs"], pairs)
            self.assertEqual([run["status"] for run in report["comparison"]["runs"]], [0] * (failing - 1) + [7])

    def test_progress_of_every_run_on_a_terminal(self):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb") as terminal:
            with subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True) as reader:
                self.compare("sleep", "0.2", options=["--compare-pairs", "2", "--progress=line"], stderr=theirs)
                os.close(theirs)
                said = reader.stdout.read()
        for number, name in enumerate(("unmanaged", "managed", "managed", "unmanaged"), 1):
            self.assertIn(f"lull: run {number} of 4, {name}, no iteration yet", said)

    def test_pairs_belong_to_a_comparison(self):
        for options in (["--compare-pairs", "2"], ["--compare", "--compare-pairs", "0"]):
            done = subprocess.run([LULL, "run", *options, "--", "true"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--compare-pairs", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
