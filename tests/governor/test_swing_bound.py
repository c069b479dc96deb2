#!/usr/bin/env python3
"""lull run --swing-bound on an emulated node: a floor is set for the job, and restored after a kill of everything.

Run as: lull emulate --driver BRANCH 2xB200 -- test_swing_bound.py LULL TOOL. Drivers before 570 have no smoothing.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, TOOL = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class SwingBound(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LULL_RUNTIME_DIR=self.directory.name, LULL_STATE_DIR=self.directory.name)
        self.gpus = json.loads(self.output(LULL, "gpus", "--json"))["gpus"]

    def output(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout

    def settings(self):
        return [self.output(TOOL, "smoothing-settings", gpu["uuid"]) for gpu in self.gpus]

    def start(self, seconds):
        return subprocess.Popen(
            [LULL, "run", "--no-daemon", "--quiet", "--swing-bound", "3%", "--report", self.directory.name, "--", LULL,
             "play", "--preset", "gpt-fsdp", "--seconds", str(seconds)],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def has_smoothing(self):
        return "power_smoothing" in self.gpus[0]["capabilities"]

    def test_settings_are_restored_after_a_kill_of_everything(self):
        if not self.has_smoothing():
            self.skipTest("this driver has no power smoothing")
        before = self.settings()
        job = self.start(120)
        self.addCleanup(job.stderr.close)
        self.assertTrue(host.wait_for(lambda: all(text.split()[-1] == "1" for text in self.settings()), 60.0, 0.2))
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        self.output(LULL, "restore")
        self.assertEqual(self.settings(), before)

    def test_a_driver_without_smoothing_is_named(self):
        if self.has_smoothing():
            self.skipTest("this driver has power smoothing")
        _, messages = self.start(8).communicate()
        self.assertIn("power smoothing does not bound the power swings: GPU 0 or its driver has none", messages)
        with open(os.path.join(self.directory.name, "report.json"), encoding="utf-8") as file:
            self.assertFalse(json.load(file)["smoothing"]["held"])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(verbosity=2)
