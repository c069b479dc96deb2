# SPDX-License-Identifier: Apache-2.0
"""Installs a wheel in an empty virtual environment, uses it as its user would, and removes it. `make wheel` runs this.

usage: test_wheel.py WHEEL"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

WHEEL = os.path.abspath(sys.argv.pop(1))
MARKS = """
import lull
from lull import _native
with lull.section("forward"):
    lull.step()
print(_native.find("lull"), _native.find(_native.LIBRARY))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="lull-wheel-")
        cls.addClassCleanup(place.cleanup)
        cls.venv, cls.report = os.path.join(place.name, "venv"), os.path.join(place.name, "report")
        # Nothing of this machine's Lull may help.
        cls.environment = {"PATH": f"{cls.venv}/bin:/usr/bin:/bin", "HOME": place.name, "LULL_RUNTIME_DIR": place.name}
        begin = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", cls.venv], check=True)
        cls.pip("install", "-q", "--no-index", WHEEL)
        print(f"installed after {time.monotonic() - begin:.1f} s", file=sys.stderr)

    @classmethod
    def pip(cls, *words):
        return subprocess.run([f"{cls.venv}/bin/pip", "--disable-pip-version-check", *words], check=True, capture_output=True, text=True).stdout

    def use(self, *words):
        return subprocess.run(words, env=self.environment, check=True, capture_output=True, text=True).stdout

    def test_1_a_job_is_run_and_reported(self):
        begin = time.monotonic()
        self.use("lull", "emulate", "2xA100-SXM4-40GB", "--", "lull", "run", "--no-daemon", "--report", self.report, "--", "lull", "play",
                 "--preset", "resnet50-ddp", "--iterations", "60")
        print(f"first report {time.monotonic() - begin:.1f} s later", file=sys.stderr)
        with open(os.path.join(self.report, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual((report["status"], len(report["gpus"])), (0, 2))

    def test_2_python_finds_programs_and_library(self):
        said = self.use("python", "-c", MARKS).split()
        self.assertEqual(said, [os.path.join(self.venv, "bin/lull"), os.path.join(self.venv, "lib/liblull.so.0")])

    def test_3_all_parts_are_there(self):
        for words in (("sweep",), ("model",), ("simulate", "cluster"), ("budget",)):
            self.assertIn("Usage: lull " + " ".join(words), self.use("lull", *words, "--help"))
        self.assertIn("lulld ", self.use(os.path.join(self.venv, "sbin/lulld"), "--version"))

    def test_4_nothing_stays_behind(self):
        self.pip("uninstall", "-q", "-y", "lull")
        left = [os.path.join(folder, file) for folder, _, files in os.walk(self.venv) for file in files if "lull" in file]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
