#!/usr/bin/env python3
"""lull run tests a power profile on emulated GPUs, whose effect is borrowed: kept, removed, or not tested, and always restored.

Run as: lull emulate --driver BRANCH SPEC -- test_power_profile.py LULLD TOOL LULL JOB CLASS.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "daemon"))
from test_daemon import LULL  # noqa: E402
from test_power_profiles import NETWORK, Profiles, host, lull, tool  # noqa: E402

JOB = os.path.abspath(sys.argv[4])
LONG, SHORT = "4000", "60"


class Runs(Profiles):
    def setUp(self):
        super().setUp()
        self.report = os.path.join(self.directory, "report")
        os.chmod(self.directory, 0o777)

    def start(self, steps, *options, **process_options):
        return self.spawn(LULL, "run", "--quiet", "--report", self.report, *options, "--", JOB, "0", steps, "45", "5", "0",
                          stdin=subprocess.DEVNULL, **process_options)

    @staticmethod
    def kill(run):
        """Kills the run and its job."""
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
        for pid in (run.pid, *children):
            os.kill(pid, signal.SIGKILL)
        run.wait()

    def tearDown(self):
        for process in self.processes:
            if process.args[0] == LULL and process.poll() is None:
                self.kill(process)
        super().tearDown()

    def activity(self, run):
        """What the run's section controller does now."""
        jobs = json.loads(lull("top", "--json").stdout)["runs"]
        return next((job.get("learning") or "" for job in jobs if job["pid"] == run.pid), "")

    def has_tested(self, run):
        self.assertIsNone(run.poll(), "the run has ended")
        return "MHz" in self.activity(run) or self.activity(run) == "settled"

    def leased(self):
        return json.loads(lull("status", "--json").stdout)["gpus"][0]["power_profiles"]

    def end(self, run):
        """The run's verdict, and its lever of the power profile."""
        run.wait(60)
        with open(os.path.join(self.report, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        lever, = [lever for lever in report["levers"] if lever["lever"] == "power profile"]
        self.assertEqual(lever["name"], "max-q")
        return report["verdict"], lever

    def try_profile(self, *options):
        """Lets a run test the profile, and ends it."""
        run = self.start(LONG, *options)
        self.assertIsNotNone(host.wait_for(lambda: self.leased() == ["max-q"], 30.0, 0.02), "no test has begun")
        self.assertIsNotNone(host.wait_for(lambda: self.has_tested(run), 120.0, 0.3), self.activity(run))
        run.terminate()
        verdict, lever = self.end(run)
        self.assert_restored()
        self.assertEqual(self.leased(), [])
        return verdict, lever

class Kept(Runs):
    def test_a_profile_that_saves_is_kept_until_the_end(self):
        self.start_daemon()
        verdict, lever = host.run_on_time(lambda: self.try_profile("-t", "10%"), lambda found: found[1]["verdict"] == "kept")
        self.assertEqual(lever["verdict"], "kept", lever)
        self.assertGreater(lever["saving_low_ratio"], 0.0)
        self.assertIn("power profile max-q on GPU 0", verdict["lowered_line"])
        self.assertTrue(verdict["profile_line"].startswith("max-q kept: "), verdict)
        self.assertLess(verdict["slowdown_upper_ratio"], 0.1)


class Killed(Runs):
    def test_everything_is_killed_while_the_profile_is_requested(self):
        daemon = self.start_daemon()
        run = self.start(LONG, "-t", "10%")
        self.assertIsNotNone(host.wait_for(lambda: self.stop_with_profile(run), 60.0, 0.02), "no test has begun")
        self.kill_with_keeper(daemon)
        self.kill(run)
        self.assertEqual(self.requested(), ["max-q"])
        self.start_daemon()
        self.assert_restored()

    def stop_with_profile(self, run):
        """Stops the run while its profile is requested; true: it is."""
        if self.leased() != ["max-q"]:
            return False
        run.send_signal(signal.SIGSTOP)
        if self.leased() == ["max-q"]:
            return True
        run.send_signal(signal.SIGCONT)
        return False


class Removed(Runs):
    def test_a_profile_that_is_too_slow_is_removed(self):
        self.start_daemon()
        verdict, lever = host.run_on_time(lambda: self.try_profile("-t", "1%"), lambda found: found[1]["verdict"] == "removed")
        self.assertEqual((lever["verdict"], lever["reason"]), ("removed", "it is not proven to be within the tolerance"))
        self.assertGreater(lever["slowdown_ratio"], 0.01)
        self.assertTrue(verdict["profile_line"].startswith("max-q removed: "), verdict)


class NotTested(Runs):
    def check(self, reason, *options, **process_options):
        verdict, lever = self.end(self.start(SHORT, *options, **process_options))
        self.assertEqual(lever["verdict"], "not tested")
        self.assertTrue(lever["reason"].startswith(reason), lever)
        self.assertIsNone(lever["saving_ratio"])
        return verdict

    def test_without_the_right(self):
        host.require_open(JOB)
        self.start_with_policy("[everybody]\ngpus = all\n")
        verdict = self.check("this user has no right to power profiles", **self.user())
        self.assertTrue(verdict["profile_line"].startswith("max-q not tested: this user has no right"), verdict)
        self.assertEqual(self.requested(), [])

    def test_where_another_program_requests_profiles(self):
        self.start_daemon()
        self.assertEqual(tool("admin-profiles", self.uuids[0], str(NETWORK)).returncode, 0)
        self.check("another program requests power profiles")
        self.assertEqual(self.requested(), ["network"])


class Unsupported(NotTested):
    """A driver without profiles."""

    test_without_the_right = test_where_another_program_requests_profiles = None

    def test_none_is_tested(self):
        self.start_daemon()
        self.assertIsNone(self.check("the GPU or its driver has no power profiles")["profile_line"])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
