#!/usr/bin/env python3
"""What Slurm's programs load is under BSD-3-Clause and needs the C library alone: libslurm is not linked, and no file of
another licence is in it.

usage: test_plugins.py SOURCE PLUGIN...    SPDX-License-Identifier: Apache-2.0"""
import glob
import os
import re
import subprocess
import sys
import unittest

SOURCE, *PLUGINS = sys.argv[1:]
del sys.argv[1:]
# What the program that loads a plugin offers it: the interface of plugins, and where a node is, which is asked weakly.
OFFERED = re.compile(r"^(spank_\w+|slurm_(spank_log|info|error|xstrdup|conf_get_addr))$")


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Plugins(unittest.TestCase):
    def test_they_need_the_c_library_alone(self):
        for plugin in PLUGINS:
            needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", plugin))
            self.assertEqual([name for name in needed if not re.match(r"lib(c\.so|asan|ubsan|tsan)", name)], [], plugin)

    def test_what_they_leave_open_is_slurms_interface(self):
        for plugin in PLUGINS:
            names = [line.split()[-1] for line in output("nm", "-D", "--undefined-only", plugin).splitlines()]
            ours = [name for name in names if re.match(r"(lull|spank|slurm)_", name)]
            self.assertEqual([name for name in ours if not OFFERED.match(name)], [], plugin)

    def test_their_files_are_of_one_licence_and_include_no_others(self):
        paths = glob.glob(os.path.join(SOURCE, "cluster/slurm/*.[ch]"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn("SPDX-License-Identifier: BSD-3-Clause", text, path)
            for name in re.findall(r'#include "(.*)"', text):
                self.assertTrue(name.startswith("cluster/slurm/"), f"{path}: {name}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
