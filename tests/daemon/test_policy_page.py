#!/usr/bin/env python3
"""The policy of docs/admin/policy.md grants and refuses what the page's table says.

Run as: lull emulate --seed 0 4xA100-SXM4-40GB -- test_policy_page.py LULLD TOOL LULL PAGE. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL, PAGE = sys.argv[1:5]
REFUSED = 3  # enum lull_exit
GROUPS = {"vision": 12100, "speech": 12200, "gpu-admins": 12400}
USER, NO_GROUP = 12001, 12900
ROW = re.compile(r"\| (?:a member of `(?P<group>[\w-]+)`|(?P<other>any other user|root)) \| (?P<gpus>[^|]+) \| (?:(?P<mhz>\d+) MHz|refused) \|")


def as_member(group):
    """Options of a process of a user in this group; root: none."""
    if group == "root":
        return {}
    return {"user": USER, "group": GROUPS.get(group, NO_GROUP), "extra_groups": []}


def call(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **options)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        cls.rows = [row.groupdict() for row in map(ROW.match, text.splitlines()) if row]
        policy = re.search(r"```ini\n(.*?)```", text, re.S)[1]
        for name, number in GROUPS.items():  # this machine has no such groups
            policy, count = re.subn(rf"\b{name}\b", str(number), policy)
            assert count == 1, name
        cls.holder = tempfile.TemporaryDirectory(prefix="lulld-page-")
        cls.addClassCleanup(cls.holder.cleanup)
        os.chmod(cls.holder.name, 0o755)
        cls.policy = cls.holder.name + "/policy.conf"
        with open(cls.policy, "w", encoding="utf-8") as file:
            file.write(policy)
        os.environ["LULL_RUNTIME_DIR"] = cls.holder.name + "/run"
        cls.gpus = {gpu["pci_bus_id"].lower().removeprefix("0000"): gpu["uuid"]
                    for gpu in json.loads(call(LULL, "gpus", "--json").stdout)["gpus"]}
        host.require_open(TOOL)
        cls.log = open(cls.holder.name + "/log", "w+", encoding="utf-8")
        cls.addClassCleanup(cls.log.close)
        processes = []
        cls.addClassCleanup(host.stop_all, processes)

        def spawn(*words, **options):
            processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, **options))
            return processes[-1]
        host.start_lulld(spawn, LULLD, "--policy", cls.policy, stderr=cls.log)

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def test_the_policy_has_no_errors(self):
        self.assertEqual(call(LULLD, "--check", "--policy", self.policy).returncode, 0)

    def test_each_row(self):
        self.assertEqual(len(self.rows), 7)
        for row in self.rows:
            who = row["group"] or row["other"]
            for address in self.gpus if row["gpus"] == "all" else row["gpus"].split(", "):
                done = call(TOOL, "rules", "daemon", self.gpus[address], **as_member(who))
                if row["mhz"] is None:
                    self.assertEqual(done.returncode, REFUSED, (row, done))
                else:
                    self.assertEqual(done.returncode, 0, (row, done))
                    self.assertRegex(done.stdout, rf"(?m)^clamped .* sm_mhz={row['mhz']} ", row)

    def test_who_may_reload(self):
        for who, status in (("root", 0), ("gpu-admins", 0), ("vision", REFUSED), ("any other user", REFUSED)):
            self.assertEqual(call(LULL, "reload", **as_member(who)).returncode, status, who)

    def test_a_wrong_address_is_logged(self):
        with open(self.policy, encoding="utf-8") as file:
            policy = file.read()
        self.assertNotIn("does not have", self.logged())
        try:
            with open(self.policy, "w", encoding="utf-8") as file:
                file.write(policy.replace("0000:4e:00.0", "0000:87:00.0"))
            self.assertEqual(call(LULL, "reload").returncode, 0)
            self.assertIn("GPUs of the policy that this node does not have: 1 of 4, such as 0000:87:00.0", self.logged())
        finally:
            with open(self.policy, "w", encoding="utf-8") as file:
                file.write(policy)
            call(LULL, "reload")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: several users need root")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
