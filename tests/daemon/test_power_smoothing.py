#!/usr/bin/env python3
"""Power smoothing that lulld sets on an emulated B200: restored whatever happens, and never that of another program.

Run as: lull emulate --driver BRANCH 1xB200 -- test_power_smoothing.py LULLD TOOL LULL. Drivers before 570 have none.
SPDX-License-Identifier: Apache-2.0
"""

import errno
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_daemon import TOOL, Case, fields, host, lull, tool  # noqa: E402

GPU = json.loads(lull("gpus", "--json").stdout)["gpus"][0]
HAS_SMOOTHING = "power_smoothing" in GPU["capabilities"]
# floor %, ramps mW/s, hysteresis ms, active preset, whether it is on
HELD = "40 20000000 10000000 300 4 1"


def settings():
    return tool("smoothing-settings", GPU["uuid"]).stdout.strip()


class Smoothing(Case):
    def setUp(self):
        super().setUp()
        lull("restore", "--force")
        self.policy = os.environ["LULL_POLICY"] = os.path.join(self.directory, "policy.conf")
        self.before = settings()

    @staticmethod
    def user():
        host.require_open(TOOL)
        return {"user": 12001, "group": 12000, "extra_groups": []}

    def start_with_policy(self, text):
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.policy, 0o644)
        return self.start_daemon("--policy", self.policy)

    def ask(self, mode="daemon", **options):
        client = self.spawn(TOOL, "smoothing", mode, self.uuids[0], "40", **options)
        return client, fields(client.stdout.readline())["requested"]

    def hold(self, mode="daemon"):
        client, result = self.ask(mode)
        self.assertEqual((result["status"], result["floor"]), (0, 400))
        self.assertEqual(settings(), HELD)
        return client

    def assert_restored(self):
        host.wait_for(lambda: settings() == self.before, 10.0)
        self.assertEqual(settings(), self.before)
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 10.0), self.saved())


@unittest.skipUnless(HAS_SMOOTHING, "this driver has no power smoothing")
class Deaths(Smoothing):
    def test_killed_client(self):
        self.start_daemon()
        self.hold().kill()
        self.assert_restored()

    def test_killed_daemon_with_a_keeper(self):
        daemon = self.start_daemon()
        self.hold()
        daemon.kill()
        daemon.wait()
        self.assert_restored()

    def test_everything_killed(self):
        daemon = self.start_daemon()
        client = self.hold()
        self.kill_with_keeper(daemon)
        client.kill()
        self.assertEqual(settings(), HELD)
        self.start_daemon()
        self.assert_restored()

    def test_stopped_daemon(self):
        daemon = self.start_daemon()
        self.hold()
        daemon.terminate()
        daemon.wait()
        self.assert_restored()

    def test_killed_without_daemon(self):
        client = self.hold(mode="local")
        client.kill()
        client.wait()
        self.assertEqual(settings(), HELD)
        self.assertEqual(lull("restore").returncode, 0)
        self.assert_restored()

    def test_smoothing_of_an_administrator_stays(self):
        self.assertEqual(tool("admin-smoothing", self.uuids[0], "30").returncode, 0)
        administrators = settings()
        self.start_daemon()
        client, result = self.ask()
        self.assertEqual(result["status"], -errno.EBUSY)
        client.kill()
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 10.0), self.saved())
        self.assertEqual(settings(), administrators)
        self.assertEqual(tool("admin-smoothing", self.uuids[0], "0").returncode, 0)


class Rights(Smoothing):
    def test_a_user_needs_the_key_of_the_policy(self):
        self.start_with_policy("[everybody]\ngpus = all\npower-profiles = yes\n")
        _, result = self.ask(**self.user())
        self.assertEqual((result["status"], settings()), (-errno.EACCES, self.before))

    @unittest.skipUnless(HAS_SMOOTHING, "this driver has no power smoothing")
    def test_the_key_gives_the_right_and_a_reload_takes_it(self):
        self.start_with_policy("[everybody]\ngpus = all\npower-smoothing = yes\n")
        client, result = self.ask(**self.user())
        self.assertEqual((result["status"], settings()), (0, HELD))
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write("[everybody]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertEqual(client.wait(10), 1)
        self.assert_restored()

    @unittest.skipIf(HAS_SMOOTHING, "this driver has power smoothing")
    def test_an_older_driver_has_none(self):
        self.start_daemon()
        _, result = self.ask()
        self.assertEqual(result["status"], -errno.EACCES)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
