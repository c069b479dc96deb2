"""A driver that does not do what it says is named in the report, and its GPU left alone where asking
is pointless. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
MEDDLER = os.path.abspath(sys.argv.pop(1))


class Driver(unittest.TestCase):
    def run_job(self, *arguments, fault=None, beside=None):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            run = [LULL, "run", "--no-daemon", "--quiet", "--report", directory, "--", JOB,
                   *(str(argument) for argument in arguments)]
            if beside is not None:
                script = f'{sys.executable} "$0" & meddler=$!; "$@"; status=$?; kill $meddler; exit $status'
                run = ["sh", "-c", script, beside, *run]
            done = subprocess.run(
                [LULL, "emulate", *(["--fault", fault] if fault else []), "1xA100", "--", *run],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.said = done.stderr
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                report = json.load(file)
            self.notes = report["notes"]
            (gpu,) = report["gpus"]
            return gpu

    def test_a_driver_that_obeys_is_not_blamed(self):
        driver = self.run_job(0, 60, 20, 80, 0)["driver"]
        self.assertEqual((driver["without_effect"], driver["foreign_changes"], driver["trouble"]), (0, 0, ""))

    def test_success_without_effect(self):
        gpu = self.run_job(0, 60, 20, 80, 0, fault="no_effect")
        self.assertGreaterEqual(gpu["driver"]["without_effect"], 5)
        self.assertIn("had no effect although the driver reported success", gpu["driver"]["trouble"])
        self.assertIn("not managed", gpu["state"])
        (note,) = self.notes
        self.assertRegex(note, r"^GPU 0: not managed: \d+ of \d+ clock changes had no effect .*nvidia-smi -q -d CLOCK")
        self.assertLess(gpu["driver"]["changes"], 12)  # it is not asked for ever

    def check_slow_calls(self, gpu):
        self.assertGreaterEqual(gpu["driver"]["slowest_call_ms"], 500)
        self.assertRegex(gpu["driver"]["trouble"], r"driver calls block for \d+ ms: \d+ of \d+ took over 100 ms")
        self.assertEqual(gpu["state"], "not managed: driver calls block for too long")
        (note,) = self.notes
        self.assertRegex(note, r"^GPU 0: not managed: driver calls block for [5-9]\d\d ms.*--steady 1%")

    def test_calls_that_take_half_a_second(self):
        gpu = self.run_job(0, 60, 20, 80, 0, fault="hang_ms=500")
        self.check_slow_calls(gpu)
        # One step down, and back: that is known after the first of them.
        self.assertEqual((gpu["driver"]["calls"], gpu["driver"]["slow_calls"]), (2, 2))
        for section in gpu["sections"]:
            self.assertEqual((section["verdict"], section["descent"]), ("not switched", []))

    def test_a_fault_that_begins_in_mid_run(self):
        # Ten calls are pulses; every step that is lowered takes two, until that is proven.
        gpu = self.run_job(0, 100, 20, 80, 0, fault="hang_ms=500@24")
        self.check_slow_calls(gpu)
        self.assertGreaterEqual(gpu["driver"]["calls"], 24)
        # The first one, and a raising if that was a lowering.
        self.assertLessEqual(gpu["driver"]["slow_calls"], 2)

    def test_f08_what_is_measured_beside_xids_is_set_aside(self):
        # Without them a lower clock is judged by four or five of some eleven pairs of blocks.
        gpu = self.run_job(0, 220, 10, 50, 0, fault="xid=31")
        self.assertIn("GPU 0: its driver has reported XID 31 (", self.said)
        self.assertLess(self.said.count("XID 31"), 20)  # there are thousands
        for section in gpu["sections"]:
            self.assertEqual(section["verdict"], "unfinished")
            # One of four counts all the same, and a stall of the host ends a comparison before its first pair does.
            self.assertLessEqual(sum(tried["pairs"] for tried in section["descent"]), 3)

    def test_another_program_that_changes_the_clocks(self):
        # Sections long enough to be seen low between two of the program's resets.
        gpu = self.run_job(0, 20, 50, 1500, 0, beside=MEDDLER)
        self.assertGreater(gpu["driver"]["foreign_changes"], 0)
        self.assertIn("another program changes it", gpu["driver"]["trouble"])
        self.assertTrue(any("another program changes it (nvidia-smi -lgc" in note for note in self.notes), self.notes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
