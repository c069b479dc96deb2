# SPDX-License-Identifier: Apache-2.0
"""The Python examples of docs/user/ run as they are, on an emulated node.

usage: test_documents.py LULL LIBLULL"""
import os
import re
import subprocess
import sys
import unittest

import case


class Examples(unittest.TestCase):
    def test_each(self):
        examples = []
        for page in ("python", "energy", "inference"):
            with open(os.path.join(case.SOURCE, "docs", "user", page + ".md"), encoding="utf-8") as file:
                examples += re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
        self.assertGreaterEqual(len(examples), 8)
        for example in examples:
            with self.subTest(example=example):
                done = subprocess.run([case.LULL, "emulate", "2xA100", "--", sys.executable, "-c", example], cwd=case.SOURCE,
                                      capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(bool(done.stdout), "print(" in example)


if __name__ == "__main__":
    unittest.main(verbosity=2)
