# SPDX-License-Identifier: Apache-2.0
"""Installs the Debian packages in a fresh root, uses them, upgrades them under a running job, removes and purges them.
`make deb` runs this; deb_steps.sh has the steps.

usage: test_deb.py FRESH-MACHINE FOLDER    FOLDER holds the packages that tools/make-deb has built"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from release_tools import count, end
from upgrade_checks import UpgradeChecks

FRESH_MACHINE, FOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:]
STEPS = ("deb_steps.sh", "upgrade_steps.sh")
NO_MACHINE = 77 # of tools/fresh-machine and of deb_steps.sh: no root could be made, or no mirror answers
PACKAGES = {"lull", "lulld", "liblull0", "liblull-dev", "lull-slurm", "lull-cluster", "lull-lab", "python3-lull"}
PROGRAM = """
#include <lull/lull.h>
int main(void)
{
    lull_step();
    return 0;
}
"""


def release_packages():
    return [path for path in glob.glob(os.path.join(FOLDER, "*.deb")) if "-dbgsym" not in path]


def make_newer(path, folder):
    """The same package with a higher version."""
    with tempfile.TemporaryDirectory(prefix="lull-deb-") as place:
        subprocess.run(["dpkg-deb", "-R", path, place + "/tree"], check=True)
        control = place + "/tree/DEBIAN/control"
        with open(control, encoding="utf-8") as file:
            text = file.read()
        version = re.search(r"^Version: (.+)$", text, re.M)[1]
        with open(control, "w", encoding="utf-8") as file:
            file.write(text.replace(version, version + "+1"))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", place + "/tree", folder], check=True, stdout=subprocess.DEVNULL)


class Steps(UpgradeChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="lull-deb-")
        cls.addClassCleanup(place.cleanup)
        cls.out = os.path.join(place.name, "out")
        for name in ("first", "newer", "out"):
            os.mkdir(os.path.join(place.name, name))
        for path in release_packages():
            shutil.copy(path, place.name + "/first")
            make_newer(path, place.name + "/newer")
        for name in STEPS:
            shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), place.name)
        done = subprocess.run([FRESH_MACHINE, "--add", place.name, "sh /mnt/deb_steps.sh"], stdout=subprocess.PIPE, text=True, check=False,
                              env={name: value for name, value in os.environ.items() if name != "LULL_TEST_COUNTS"})
        if done.returncode == NO_MACHINE:
            raise unittest.SkipTest(done.stdout.strip().rpartition("skipped: ")[2])
        if done.returncode != 0:
            raise AssertionError(f"deb_steps.sh ended with status {done.returncode}:\n{done.stdout}")
        seconds = {name: float(cls.read(name)) for name in ("begin", "installed", "verdict")}
        print(f"installed after {seconds['installed'] - seconds['begin']:.1f} s, "
              f"first verdict after {seconds['verdict'] - seconds['begin']:.1f} s", file=sys.stderr)

    def test_first_report(self):
        report = json.loads(self.read("report/report.json"))
        self.assertEqual((report["status"], len(report["gpus"])), (0, 2))

    def test_removal_and_purge(self):
        self.assertEqual(self.read("before"), "")
        self.assertIn("/etc/lull", self.read("removed"))
        for path in ("/usr/bin/lull", "/usr/sbin/lulld", "/usr/lib/lull"):
            self.assertNotIn(path + "\n", self.read("removed"))
        self.assertEqual(self.read("purged"), "")


class Files(unittest.TestCase):
    """What needs no root."""
    def test_all_packages_are_there(self):
        self.assertEqual({os.path.basename(path).split("_")[0] for path in release_packages()}, PACKAGES)

    def test_a_program_is_compiled_by_pkg_config(self):
        with tempfile.TemporaryDirectory(prefix="lull-deb-") as place:
            for name in ("liblull0", "liblull-dev"):
                subprocess.run(["dpkg-deb", "-x", *glob.glob(f"{FOLDER}/{name}_*.deb"), place], check=True)
            folder = os.path.dirname(*glob.glob(place + "/usr/lib/**/liblull.pc", recursive=True))
            words = subprocess.run(["pkg-config", "--cflags", "--libs", "liblull"], check=True, capture_output=True, text=True,
                                   env=dict(os.environ, PKG_CONFIG_PATH=folder, PKG_CONFIG_SYSROOT_DIR=place)).stdout.split()
            with open(place + "/program.c", "w", encoding="ascii") as file:
                file.write(PROGRAM)
            subprocess.run(["cc", "-o", place + "/program", place + "/program.c", *words], check=True)
            library_path = os.path.dirname(folder)
            subprocess.run([place + "/program"], check=True, env={"LD_LIBRARY_PATH": library_path})


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    count(program.result)
    sys.exit(end(program))
