#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of layers on trees that keep and break the rules.

usage: test_check_layers.py CHECK_LAYERS NM BAD_ARCHIVE
"""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKER, NM, BAD_ARCHIVE = sys.argv[1:4]


def check(*arguments):
    done = subprocess.run(
        [sys.executable, CHECKER, "--nm", NM, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
    return done.returncode, done.stdout.splitlines()


class CheckLayers(unittest.TestCase):
    def test_a_tree_that_keeps_the_rules_passes(self):
        self.assertEqual(check(os.path.join(HERE, "good")), (0, []))

    def test_every_forbidden_include_is_named(self):
        status, lines = check(os.path.join(HERE, "bad"))
        self.assertEqual(status, 1)
        self.assertEqual(lines, [
            "src/base/upwards.h:2: base must not include core/impure.h",
            "src/core/uphill.c:2: core must not include cluster/core/jobs.h",
            "src/daemon/decides.c:2: daemon must not include core/impure.h",
            "src/daemon/decides.c:3: daemon must not include ../core/impure.h",
            "src/probe/sideways.c:2: probe must not include daemon/decides.h",
            "src/unknown/stray.c: belongs to no known layer",
            "lab/reproduce/paper.c:3: lab/reproduce must not include cli/shared/command.h",
        ])

    def test_impure_symbols_of_the_archive_are_named(self):
        status, lines = check(os.path.join(HERE, "good"), BAD_ARCHIVE)
        named = {line.split()[-1] for line in lines}
        self.assertEqual(status, 1)
        self.assertLessEqual({"rand", "time"}, named)
        self.assertTrue(named & {"printf", "__printf_chk"}, named)
        self.assertNotIn("impure", named)

    def test_a_wrong_call_says_so(self):
        self.assertEqual(check()[0], 2)
        self.assertEqual(check(os.path.join(HERE, "nowhere"))[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
