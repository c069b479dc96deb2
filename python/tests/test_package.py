# SPDX-License-Identifier: Apache-2.0
"""The package itself: metadata, types, documentation, and how it finds its programs.

usage: test_package.py LULL LIBLULL VERSION"""
import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import case
import host
from lull import _native

VERSION = sys.argv.pop(1)


def sources():
    for folder, _, files in os.walk(os.path.join(case.PACKAGE, "lull")):
        yield from (os.path.join(folder, file) for file in files if file.endswith(".py"))


class Metadata(unittest.TestCase):
    def test_versions_are_the_projects(self):
        import lull
        self.assertEqual(lull.__version__, VERSION)
        with open(os.path.join(case.PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            self.assertEqual(re.search(r'^version = "([^"]*)"', file.read(), re.M).group(1), VERSION)

    def test_imports_nothing_but_the_standard_library(self):
        code = "import sys, lull, lull.zeus; print(*sorted({name.split('.')[0] for name in sys.modules}))"
        said = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(set(said) & {"torch", "transformers", "numpy", "accelerate", "pytorch_lightning", "pynvml"}, set())

    def test_is_python_3_8(self):
        for path in sources():
            with open(path, encoding="utf-8") as file:
                ast.parse(file.read(), path, feature_version=(3, 8))

    def test_public_functions_and_classes_are_documented(self):
        missing = []
        for path in sources():
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                    if ast.get_docstring(node) is None:
                        missing.append(f"{path}:{node.lineno}: {node.name}")
        self.assertEqual(missing, [])

    def test_types(self):
        host.find_packages()
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("no mypy; tools/install-deps installs it")
        packages = [path for path in sys.path if os.path.isdir(os.path.join(path, "mypy"))]
        with tempfile.TemporaryDirectory(prefix="lull-") as cache:
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "lull"], cwd=case.PACKAGE,
                                  env=dict(os.environ, PYTHONPATH=packages[0]), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Find(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.folder.cleanup)

    def put(self, *names):
        path = os.path.join(self.folder.name, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
        os.chmod(path, 0o755)
        return path

    def test_the_wheels_come_first(self):
        program, library = self.put("bin", "lull"), self.put("lib", _native.LIBRARY)
        packages = os.path.join(self.folder.name, "lib", "python3.11", "site-packages")
        with mock.patch.object(_native, "FOLDER", os.path.join(packages, "lull")):
            self.assertEqual(_native.find("lull"), program)
            self.assertEqual(_native.find(_native.LIBRARY), library)

    def test_then_the_environment(self):
        program = self.put("lull")
        with mock.patch.dict(os.environ, PATH=self.folder.name, LULL_LIBRARY="/x/liblull.so.0"):
            self.assertEqual(_native.find("lull"), program)
            self.assertEqual(_native.find(_native.LIBRARY), "/x/liblull.so.0")

    def test_then_the_system(self):
        with mock.patch.dict(os.environ, PATH=self.folder.name):
            del os.environ["LULL_LIBRARY"]
            self.assertIsNone(_native.find("lull"))
            self.assertEqual(_native.find(_native.LIBRARY), _native.LIBRARY)

    def test_without_them_marks_do_nothing_and_commands_say_what_to_do(self):
        code = ("import lull\n"
                "with lull.section('a'): lull.step()\n"
                "with lull.window('w') as w: pass\n"
                "print(w.joules, w.uncertainty, w.seconds is not None, w.reason)\n"
                "try: lull.devices()\n"
                "except lull.LullError as error: print(error)\n")
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env=dict(os.environ, PATH=self.folder.name, LULL_LIBRARY="/nowhere/liblull.so.0")).stdout
        self.assertEqual(said.splitlines()[0],
                         "None None True liblull was not found; install it, or name its file in LULL_LIBRARY")
        self.assertIn("the program lull was not found", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
