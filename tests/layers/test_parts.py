"""The three parts install alone, each by its tag: every file belongs to one part, the node runs without the others and
names the package of a missing command, and a part that is installed later is found by `lull`.

usage: test_parts.py SOURCE BUILD MESON    SPDX-License-Identifier: Apache-2.0"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, MESON = sys.argv[1:4]
del sys.argv[1:]
os.environ.pop("LD_LIBRARY_PATH", None)  # meson names the build's libraries in it
COMMANDS = {"cluster": ["budget", "simulate cluster", "model job"],
            "lab": ["sweep", "model evaluate", "model fit", "model predict"]}


def installed():
    """Where each file comes from and goes to, and its tag."""
    with open(os.path.join(BUILD, "meson-info", "intro-install_plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    return [(source, entry["destination"], entry["tag"]) for kind in plan.values() for source, entry in kind.items()]


def built_parts():
    return {tag for _, _, tag in installed()}


def part_of(source):
    """The part by the file's place: programs and libraries by their folder, manuals by that of their text."""
    name = os.path.basename(source)
    for part in ("cluster", "lab"):
        places = tuple(os.path.join(root, part) + os.sep for root in (BUILD, SOURCE))
        if os.path.normpath(source).startswith(places) or glob.glob(f"{SOURCE}/docs/man/{part}/{name}.scd"):
            return part
        program = name.removesuffix(".bash").removesuffix(".service")
        if name != program and glob.glob(f"{SOURCE}/docs/man/{part}/{program}.?.scd"):
            return part
    return "node"


class Plan(unittest.TestCase):
    def test_each_file_belongs_to_one_part(self):
        self.assertGreater(len(installed()), 30)
        for source, _, tag in installed():
            self.assertEqual(tag, part_of(source), source)

    def test_no_file_is_installed_twice(self):
        places = [place for _, place, _ in installed()]
        self.assertEqual(len(places), len(set(places)))


class Installed(unittest.TestCase):
    """Installs into a directory: first the node, then each other part that is built, on top of it."""
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="lull-parts-")
        self.addCleanup(self.holder.cleanup)
        self.root = os.path.join(self.holder.name, "root")
        self.install("node")
        self.lull = glob.glob(f"{self.root}/**/bin/lull", recursive=True)[0]

    def install(self, part):
        subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", part], check=True,
                       env=dict(os.environ, DESTDIR=self.root), stdout=subprocess.DEVNULL)

    def files(self):
        return {os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names}

    def run_lull(self, *arguments):
        return subprocess.run([self.lull, *arguments], capture_output=True, text=True, check=False, cwd=self.holder.name)

    def test_the_node_runs_alone(self):
        self.assertIn("\n  simulate cluster ", self.run_lull("--help").stdout)
        done = self.run_lull("simulate", "--preset", "moe-alltoall", "--periods", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Every probe and emulated library is found.
        done = self.run_lull("emulate", "2xA100-SXM4-40GB", "--", self.lull, "run", "--verbose", "--no-daemon", "--report", self.holder.name,
                             "--", self.lull, "play", "--preset", "resnet50-ddp", "--ranks", "2", "--iterations", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not found", done.stderr)
        self.assertNotRegex(done.stderr, "no (rank|NCCL, MPI or gloo process) was detected")
        self.assertIn("  GPU 1: ", done.stderr)

    def test_a_missing_part_is_named_and_an_added_one_is_found(self):
        node = self.files()
        for part, commands in COMMANDS.items():
            for command in commands:
                done = self.run_lull(*command.split(), "--help")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (
                    1, "", f"lull {command}: this command is not installed. Install the package lull-{part}.\n"))
            if part not in built_parts():
                continue
            before = {path: os.stat(path).st_ino for path in self.files()}
            self.install(part)
            self.assertEqual(before, {path: os.stat(path).st_ino for path in before}, "a file of another part was replaced")
            for command in commands:
                done = self.run_lull(*command.split(), "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                self.assertTrue(done.stdout.startswith(f"Usage: lull {command} "), done.stdout)
        self.assertLessEqual(node, self.files())

    def test_uninstalling_leaves_nothing(self):
        shutil.rmtree(self.root)
        subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", self.root], check=True, stdout=subprocess.DEVNULL)
        self.assertIn(self.lull, self.files())
        # What `ninja uninstall` runs.
        subprocess.run([MESON, "--internal", "uninstall"], check=True, cwd=BUILD, stdout=subprocess.DEVNULL)
        self.assertFalse(os.path.exists(self.root))


if __name__ == "__main__":
    unittest.main(verbosity=2)
