"""lull batch: its table of commands, and where the replay of recorded training went.

Usage: test_batch.py LULL
SPDX-License-Identifier: Apache-2.0"""
import os
import subprocess
import sys
import unittest

LULL = os.path.abspath(sys.argv.pop(1))


class CommandLine(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([LULL, "batch", *words], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def test_no_command_or_an_unknown_one(self):
        self.assertIn("forget", self.refused())
        self.assertIn("frobnicate", self.refused("frobnicate"))


if __name__ == "__main__":
    unittest.main()
