#!/usr/bin/env python3
"""The programs and libraries that are installed are hardened (F59): what the compiler and the linker can do against a
write behind an array or a wrong jump is in the built files. Reads them with readelf.
usage: test_hardening.py READELF IS_FORTIFIED ARCHIVE FILE...
SPDX-License-Identifier: Apache-2.0"""
import os
import platform
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402,F401 (the durations of cases)

READELF, IS_FORTIFIED, ARCHIVE = sys.argv[1], sys.argv[2] == "true", sys.argv[3]
FILES = sys.argv[4:]
# They look names up when they are called (cluster/slurm/meson.build).
LAZY = ("spank_lull.so", "job_submit_lull.so", "acct_gather_energy_lull.so")


def read(option, path):
    return subprocess.run([READELF, option, "-W", path], capture_output=True, text=True, check=True).stdout


class Hardening(unittest.TestCase):
    def each(self):
        for path in FILES:
            with self.subTest(file=path):
                yield path

    def test_addresses_are_random(self):
        for path in self.each():
            self.assertRegex(read("-h", path), r"Type:\s+DYN")

    def test_relocations_are_read_only(self):
        for path in self.each():
            self.assertIn("GNU_RELRO", read("-l", path))
            is_now = re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", read("-d", path)) is not None
            self.assertEqual(is_now, not path.endswith(LAZY))

    def test_the_stack_is_no_code(self):
        for path in self.each():
            self.assertRegex(read("-l", path), r"GNU_STACK.* RW +0x")

    def test_no_path_of_libraries_is_relative(self):
        for path in self.each():
            for place in re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", read("-d", path)):
                for part in place.split(":"):
                    self.assertRegex(part, r"^(/|\$ORIGIN)")

    def test_returns_are_checked(self):
        for path in self.each():
            self.assertIn("__stack_chk_fail", read("-s", path))

    def test_jumps_can_be_checked(self):
        """In the objects: whether the linked files say so depends on the C library's start files."""
        if platform.machine() != "x86_64":
            self.skipTest("the processor has no checked jumps")
        notes = read("-n", ARCHIVE)
        self.assertEqual(len(re.findall(r"^File: ", notes, re.M)), len(re.findall(r"IBT, SHSTK", notes)))

    def test_copies_are_checked(self):
        if not IS_FORTIFIED:
            self.skipTest("this build is not optimized or has a sanitizer: no _FORTIFY_SOURCE")
        for path in self.each():
            self.assertRegex(read("-s", path), r"__\w+_chk\b(?<!stack_chk)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
