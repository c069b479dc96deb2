# SPDX-License-Identifier: Apache-2.0
"""What must hold after upgrade_steps.sh: the job does not notice the upgrade, and no clock stays low."""
import json
import os
import re

# The median iteration of the job that is upgraded over the median of the same job without an upgrade, at most.
SLOWEST_RATIO = 1.02


class UpgradeChecks:
    """For a unittest.TestCase that has `out`, the directory of the results."""

    @classmethod
    def read(cls, name):
        with open(os.path.join(cls.out, name), encoding="utf-8") as file:
            return file.read()

    def status(self, name):
        return {gpu["index"]: gpu for gpu in json.loads(self.read(name))["gpus"]}

    def median_ms(self, log, iterations):
        return float(re.search(rf"\n +0 +{iterations} +\S+ +(\S+)", self.read(log))[1])

    def test_the_job_does_not_notice_an_upgrade(self):
        self.assertEqual(self.read("job.status").strip(), "0", self.read("job.log"))
        self.assertEqual(json.loads(self.read("upgraded/report.json"))["status"], 0)
        self.assertLess(self.median_ms("job.log", 300), SLOWEST_RATIO * self.median_ms("calm.log", 60))
        self.assertNotRegex(self.read("upgrade.log"), r"(?i)\berror\b")

    def test_no_clock_is_left_low(self):
        self.assertEqual(self.status("low.json")[3]["applied_sm_mhz"], 900, self.read("hold.log"))
        # An upgrade alone ends no lease.
        self.assertEqual(self.status("upgraded.json")[3]["applied_sm_mhz"], 900)
        for gpu in self.status("after.json").values():
            self.assertIn(gpu["applied_sm_mhz"], (None, 1410), gpu)
        for gpu in self.status("loaded.json").values():
            self.assertEqual(gpu["sm_clock_mhz"], gpu["sm_clock_max_mhz"], gpu)
