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
import zipfile

from upgrade_checks import UpgradeChecks

UPGRADE_STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upgrade_steps.sh")
WHEEL = os.path.abspath(sys.argv.pop(1))
VERDICT_S = 60  # from pip install to the first verdict
MARKS = """
import lull
from lull import _native
with lull.section("forward"):
    lull.step()
print(_native.find("lull"), _native.find(_native.LIBRARY))
"""


def make_newer(folder):
    """The same wheel with a higher version; returns its path. pip does not check RECORD."""
    version = os.path.basename(WHEEL).split("-")[1]
    newer = version + ".1"
    path = os.path.join(folder, os.path.basename(WHEEL).replace(version, newer, 1))
    with zipfile.ZipFile(WHEEL) as source, zipfile.ZipFile(path, "w") as copy:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("/METADATA"):
                content = content.replace(f"\nVersion: {version}\n".encode(), f"\nVersion: {newer}\n".encode())
            elif entry.filename.endswith("/RECORD"):
                content = content.replace(f"lull-{version}.d".encode(), f"lull-{newer}.d".encode())
            entry.filename = entry.filename.replace(f"lull-{version}.d", f"lull-{newer}.d", 1)
            copy.writestr(entry, content)
    return path


class Environment(unittest.TestCase):
    """An empty virtual environment with the wheel."""
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="lull-wheel-")
        cls.addClassCleanup(place.cleanup)
        cls.place = place.name
        cls.venv, cls.report = os.path.join(place.name, "venv"), os.path.join(place.name, "report")
        # Nothing of this machine's Lull may help.
        cls.environment = {"PATH": f"{cls.venv}/bin:/usr/bin:/bin", "HOME": place.name, "LULL_RUNTIME_DIR": place.name}
        subprocess.run([sys.executable, "-m", "venv", cls.venv], check=True)
        cls.begin = time.monotonic()
        cls.pip("install", "-q", "--no-index", WHEEL)
        print(f"installed after {time.monotonic() - cls.begin:.1f} s", file=sys.stderr)

    @classmethod
    def pip(cls, *words):
        return subprocess.run([f"{cls.venv}/bin/pip", "--disable-pip-version-check", *words], check=True, capture_output=True, text=True).stdout

    @classmethod
    def use(cls, *words):
        return subprocess.run(words, env=cls.environment, check=True, capture_output=True, text=True).stdout


class Wheel(Environment):
    def test_1_a_job_is_run_and_reported(self):
        self.use("lull", "emulate", "2xA100-SXM4-40GB", "--", "lull", "run", "--no-daemon", "--report", self.report, "--", "lull", "play",
                 "--preset", "resnet50-ddp", "--iterations", "60")
        seconds = time.monotonic() - self.begin
        print(f"first verdict {seconds:.1f} s after the begin of pip install", file=sys.stderr)
        self.assertLess(seconds, VERDICT_S)
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
        self.assertTrue(os.path.exists(os.path.join(self.venv, "share/man/man1/lull-run.1")))
        findings = json.loads(self.use("lull", "emulate", "2xA100-SXM4-40GB", "--", "lull", "doctor", "--json"))["findings"]
        self.assertIn("install-daemon", next(finding["fix"] for finding in findings if finding["check"] == "lulld"))

    def test_4_nothing_stays_behind(self):
        self.pip("uninstall", "-q", "-y", "lull")
        left = [os.path.join(folder, file) for folder, _, files in os.walk(self.venv) for file in files if "lull" in file]
        self.assertEqual(left, [])


@unittest.skipIf(os.geteuid() != 0, "lulld needs root")
class Upgrade(UpgradeChecks, Environment):
    """pip upgrades a wheel whose lulld runs as `lull install-daemon` installed it. No systemd is needed: the steps restart it."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.out, root = os.path.join(cls.place, "out"), os.path.join(cls.place, "root")
        for folder in (cls.out, root):
            os.mkdir(folder)
        cls.newer = make_newer(cls.place)
        cls.install = ("lull", "install-daemon", "--root", root, "--yes")
        os.chmod(cls.venv, 0o777)  # as in a user's environment: root executes copies only
        cls.use(*cls.install)
        cls.lulld = os.path.join(root, "opt/lulld/sbin/lulld")
        first = os.stat(cls.lulld).st_ino
        upgrade = f"pip --disable-pip-version-check install -q --no-index --upgrade {cls.newer} && " + " ".join(cls.install)
        cls.use("lull", "emulate", "--seed", "0", "4xA100-SXM4-40GB", "--", "sh", UPGRADE_STEPS, cls.out, cls.lulld, upgrade)
        cls.is_replaced = os.stat(cls.lulld).st_ino != first

    def test_the_newer_wheel_is_installed(self):
        version = os.path.basename(self.newer).split("-")[1]
        self.assertIn(f"\nVersion: {version}\n", self.pip("show", "lull"))
        self.assertTrue(self.is_replaced)


if __name__ == "__main__":
    unittest.main(verbosity=2)
