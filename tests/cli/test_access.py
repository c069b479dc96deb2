#!/usr/bin/env python3
"""What axe-core finds on the pages that people are to read, in light and dark, and at 400 pixels: nothing. The pages are those of a run, of
two runs side by side, and of a live node with a run on its GPUs.

Run as: lull emulate 2xMODEL -- test_access.py LULL LULLD LIVE_RUN. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import axe  # noqa: E402
import report_case  # noqa: E402
import serve_case  # noqa: E402

LULL, LULLD, LIVE_RUN = (os.path.abspath(path) for path in sys.argv[1:4])


class Access(unittest.TestCase):
    def setUp(self):
        reason = axe.reason_to_skip()
        if reason is not None:
            self.skipTest(reason)
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def report(self, *names):
        """The page of runs of these names."""
        for name in names:
            os.mkdir(os.path.join(self.directory, name))
            with open(os.path.join(self.directory, name, "report.json"), "w", encoding="utf-8") as file:
                json.dump(report_case.large(gpus=2), file)
        done = subprocess.run([LULL, "report", *names], cwd=self.directory, capture_output=True, text=True, check=True)
        with open(os.path.join(self.directory, done.stdout.strip()), encoding="utf-8") as file:
            return file.read()

    def check(self, page):
        for options in axe.LOOKS:
            self.assertEqual(axe.violations(page, self.directory, *options), [], options)

    def test_a_run(self):
        self.check(self.report("one"))

    def test_two_runs(self):
        self.check(self.report("one", "two"))

    def test_a_live_node(self):
        node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        self.addCleanup(node.close)
        node.publish(*((gpu, 1, 1000) for gpu in range(len(node.gpus))))
        status, _, page = node.serve().ask("/")
        self.assertEqual(status, 200)
        self.check(page)

    def test_axe_looks(self):
        page = self.report("one").replace(' lang="en"', "")
        self.assertEqual([found[1] for found in axe.violations(page, self.directory)], ["html-has-lang"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
