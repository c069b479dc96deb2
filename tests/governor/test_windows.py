"""Energy windows and the whole run in the report, against what the emulated GPUs really drew.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Windows(unittest.TestCase):
    def run_job(self, *arguments, node="2xA100", fault=None, options=(), environment=()):
        """The report's energy, what windows really took (name -> [seconds, joules per GPU...]), what liblull
        measured (name -> [seconds, joules, uncertainty]), the node's own report, and the table."""
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            truth_file = os.path.join(directory, "truth.json")
            done = subprocess.run(
                [LULL, "emulate", "--seed", "0", "--truth", truth_file, *(["--fault", fault] if fault else []), node,
                 "--", LULL, "run", "--verbose", "--no-daemon", "--report", directory, *options, "--", JOB,
                 *(str(argument) for argument in arguments)],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory, **dict(environment)), capture_output=True, text=True,
                check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                energy = json.load(file)["energy"]
            with open(truth_file, encoding="utf-8") as file:
                node_truth = json.load(file)["gpus"]
        real, own = {}, {}
        for line in done.stdout.splitlines():
            words = line.split()
            if words[0] == "own":
                own.setdefault(words[1], []).append([float(word) for word in words[2:]])
            else:
                real.setdefault(words[0], []).append([float(word) for word in words[1:]])
        return energy, real, own, node_truth, done.stderr

    def near(self, row, truth_j):
        # Intervals hold 95 of 100; twice as wide are four standard deviations.
        self.assertAlmostEqual(row["energy_j"], truth_j, delta=2 * row["uncertainty_j"])

    def test_rows_hold_what_the_gpus_drew(self):
        energy, real, own, node, table = self.run_job(0, 8, 900, 500)
        rows = {row["name"]: row for row in energy["windows"]}
        self.assertEqual(set(rows), {"whole", "busy", "across"})
        for name, row in rows.items():
            self.assertEqual((row["count"], row["unmeasured"]), (len(real[name]), 0))
            self.assertEqual([gpu["index"] for gpu in row["gpus"]], [0])
            self.near(row, sum(window[1] for window in real[name]))
            for gpu in row["gpus"]:
                self.near(gpu, sum(window[1 + gpu["index"]] for window in real[name]))
                self.assertAlmostEqual(gpu["seconds"], sum(window[0] for window in real[name]), delta=0.2)
            self.assertIn(name, table)
        # Not absurdly wide: windows of 0.9 s are known to a fifth, the whole to a few percent.
        self.assertLess(rows["whole"]["uncertainty_j"], 0.05 * rows["whole"]["energy_j"])
        self.assertLess(rows["busy"]["uncertainty_j"], 0.2 * rows["busy"]["energy_j"])
        self.assertEqual((energy["open_windows"], energy["lost_windows"]), (0, 0))
        # The whole run is a little more than the outermost window, and less than the node's life.
        run = energy["run"]
        for gpu, drawn in zip(run["gpus"], node):
            self.assertGreater(gpu["energy_j"] + 2 * gpu["uncertainty_j"], real["whole"][0][1 + gpu["index"]])
            self.assertLess(gpu["energy_j"] - 2 * gpu["uncertainty_j"], drawn["energy_j"])
            self.assertEqual((gpu["source"], gpu["counter_resets"]), ("counter", 0))
        # What the process measures by itself: of the GPUs that it uses.
        for name, windows in own.items():
            for (_, joules, uncertainty_j), truth in zip(windows, real[name]):
                self.assertAlmostEqual(joules, truth[1], delta=2 * uncertainty_j)
        self.assertLess(own["whole"][0][2], 0.05 * own["whole"][0][1])

    def test_a_process_counts_the_gpu_that_it_uses(self):
        energy, real, _, _, _ = self.run_job(1, 3, 500, 100, environment={"LOCAL_RANK": "0"})
        (row,) = (row for row in energy["windows"] if row["name"] == "whole")
        (gpu,) = row["gpus"]
        self.assertEqual(gpu["index"], 1)
        self.near(gpu, real["whole"][0][2])

    def test_without_a_counter_power_is_integrated(self):
        energy, real, own, _, _ = self.run_job(0, 4, 700, 300, node="1xA100", fault="no_energy")
        (row,) = (row for row in energy["windows"] if row["name"] == "whole")
        # How narrow the interval is depends on how late the host lets the readings come; see test_energy.
        self.near(row, real["whole"][0][1])
        self.assertLess(row["uncertainty_j"], row["energy_j"])
        self.assertEqual(energy["run"]["gpus"][0]["source"], "power")
        self.assertEqual(own, {})

    def test_compared_runs_have_both_totals(self):
        energy, _, _, _, table = self.run_job(0, 2, 300, 100, node="1xA100", options=["--compare"])
        self.assertGreater(energy["unmanaged_run"]["energy_j"], 0)
        self.assertGreater(energy["run"]["energy_j"], 0)
        self.assertIn("unmanaged run", table)

    def test_processors_and_memory(self):
        with tempfile.TemporaryDirectory(prefix="lull-") as zones:
            for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram")):
                os.mkdir(os.path.join(zones, zone))
                for file, text in (("name", name), ("energy_uj", "5000000"), ("max_energy_range_uj", "262143328850")):
                    with open(os.path.join(zones, zone, file), "w", encoding="utf-8") as out:
                        out.write(text + "\n")
            energy, _, _, _, table = self.run_job(0, 2, 200, 100, node="1xA100",
                                                  environment={"LULL_POWERCAP": zones})
        for name in ("cpu", "dram"):
            self.assertEqual(energy["run"][name]["energy_j"], 0)
            self.assertIn(f"\n  {name} ", table)
        self.assertIsNone(energy["node_reason"])

    def test_their_absence_is_said_once(self):
        energy, _, _, _, table = self.run_job(0, 1, 100, 100, node="1xA100",
                                              environment={"LULL_POWERCAP": "/nowhere/at/all"})
        self.assertIsNone(energy["run"]["cpu"])
        self.assertEqual(table.count("/nowhere/at/all"), 1)
        self.assertIn("/nowhere/at/all", energy["node_reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
