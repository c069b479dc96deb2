#!/usr/bin/env python3
"""Workload power profiles that lulld requests on an emulated B200: removed whatever happens, and those of others stay.

Run as: lull emulate --driver BRANCH 1xB200 -- test_power_profiles.py LULLD TOOL LULL. Drivers before 570 have none.
SPDX-License-Identifier: Apache-2.0
"""

import errno
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_daemon import TOOL, Case, fields, host, lull, tool  # noqa: E402

MAX_Q, NETWORK = 1 << 1, 1 << 4
HAS_PROFILES = json.loads(lull("gpus", "--json").stdout)["gpus"][0]["power_profiles"] is not None


class Profiles(Case):
    def setUp(self):
        super().setUp()
        lull("restore", "--force")
        self.policy = os.environ["LULL_POLICY"] = os.path.join(self.directory, "policy.conf")

    @staticmethod
    def user():
        host.require_open(TOOL)
        return {"user": 12001, "group": 12000, "extra_groups": []}

    def requested(self):
        return json.loads(lull("gpus", "--json").stdout)["gpus"][0]["power_profiles_requested"]

    def start_with_policy(self, text):
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.policy, 0o644)
        return self.start_daemon("--policy", self.policy)

    def ask(self, mode="daemon", profiles=MAX_Q, **options):
        client = self.spawn(TOOL, "profiles", mode, self.uuids[0], str(profiles), **options)
        return client, fields(client.stdout.readline())["requested"]

    def assert_restored(self, profiles=()):
        host.wait_for(lambda: self.requested() == list(profiles), 10.0)
        self.assertEqual(self.requested(), list(profiles))
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 10.0), self.saved())


@unittest.skipUnless(HAS_PROFILES, "this driver has no power profiles")
class Deaths(Profiles):
    """One other profile is requested by another program all the time."""

    def setUp(self):
        super().setUp()
        self.assertEqual(tool("admin-profiles", self.uuids[0], str(NETWORK)).returncode, 0)

    def hold(self, mode="daemon"):
        client, result = self.ask(mode)
        self.assertEqual((result["status"], result["enforced"]), (0, MAX_Q | NETWORK))
        self.assertEqual(self.requested(), ["max-q", "network"])
        return client

    def test_killed_client(self):
        self.start_daemon()
        self.hold().kill()
        self.assert_restored(["network"])

    def test_killed_daemon_with_a_keeper(self):
        daemon = self.start_daemon()
        self.hold()
        daemon.kill()
        daemon.wait()
        self.assert_restored(["network"])

    def test_everything_killed(self):
        daemon = self.start_daemon()
        client = self.hold()
        self.kill_with_keeper(daemon)
        client.kill()
        self.assertEqual(self.requested(), ["max-q", "network"])
        self.start_daemon()
        self.assert_restored(["network"])

    def test_stopped_daemon(self):
        daemon = self.start_daemon()
        self.hold()
        daemon.terminate()
        daemon.wait()
        self.assert_restored(["network"])

    def test_killed_without_daemon(self):
        client = self.hold(mode="local")
        client.kill()
        client.wait()
        self.assertEqual(self.requested(), ["max-q", "network"])
        self.assertEqual(lull("restore").returncode, 0)
        self.assert_restored(["network"])

    def test_a_forced_restore_removes_all(self):
        self.assertEqual(lull("restore", "--force").returncode, 0)
        self.assert_restored()


class Rights(Profiles):
    def test_a_user_needs_the_key_of_the_policy(self):
        self.start_with_policy("[everybody]\ngpus = all\n")
        _, result = self.ask(**self.user())
        self.assertEqual((result["status"], self.requested() or []), (-errno.EACCES, []))

    @unittest.skipUnless(HAS_PROFILES, "this driver has no power profiles")
    def test_the_key_gives_the_right_and_a_reload_takes_it(self):
        self.start_with_policy("[everybody]\ngpus = all\npower-profiles = yes\n")
        client, result = self.ask(**self.user())
        self.assertEqual((result["status"], self.requested()), (0, ["max-q"]))
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write("[everybody]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertEqual(client.wait(10), 1)
        self.assert_restored()

    @unittest.skipIf(HAS_PROFILES, "this driver has power profiles")
    def test_an_older_driver_has_none(self):
        self.start_daemon()
        _, result = self.ask()
        self.assertEqual(result["status"], -errno.EACCES)
        self.assertIsNone(self.requested())


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
