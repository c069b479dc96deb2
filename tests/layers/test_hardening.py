#!/usr/bin/env python3
"""Every program and library that is installed is hardened: what the compiler and the linker can do against a write behind an
array or a wrong jump is in the built files. Reads them with readelf, and prints a table of them.
usage: test_hardening.py READELF BUILD IS_FORTIFIED IS_SANITIZED ARCHIVE COMPILER...
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import platform
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402,F401 (the durations of cases)

READELF, BUILD, IS_FORTIFIED, IS_SANITIZED, ARCHIVE = sys.argv[1], sys.argv[2], sys.argv[3] == "true", sys.argv[4] == "true", sys.argv[5]
COMPILER = sys.argv[6:]
# They look names up when they are called (cluster/slurm/meson.build).
LAZY = ("spank_lull.so", "job_submit_lull.so", "acct_gather_energy_lull.so")
# Its copies have sizes that are known or cannot be, so it calls no checked function.
UNCHECKED = ("libcupti.so.12",)
# Of OpenSSF's guide, those that the files built by gcc with debug information name.
OPTIONS = ["-fstack-protector-strong", "-fstack-clash-protection", "-fexceptions", "-fstrict-flex-arrays=3"]
UNSANITIZED_OPTIONS = ["-ftrivial-auto-var-init=zero", "-fzero-init-padding-bits=all", "-fno-delete-null-pointer-checks",
                       "-fno-strict-overflow", "-fno-strict-aliasing"]
MACHINE_OPTIONS = {"x86_64": ["-fcf-protection=full"], "aarch64": ["-mbranch-protection=standard"]}


def read(option, path):
    return subprocess.run([READELF, *option.split(), "-W", path], capture_output=True, text=True, check=True).stdout


def installed_files():
    """The ELF files of the install plan: none can be forgotten."""
    with open(os.path.join(BUILD, "meson-info", "intro-install_plan.json"), encoding="utf-8") as file:
        paths = json.load(file)["targets"]
    found = []
    for path in sorted(paths):
        with open(path, "rb") as file:
            if file.read(4) == b"\x7fELF":
                found.append(path)
    return found


def is_known(option):
    return subprocess.run([*COMPILER, "-Werror", option, "-x", "c", "-c", "-o", "/dev/null", "/dev/null"],
                          capture_output=True, check=False).returncode == 0


def wanted_options():
    options = OPTIONS + MACHINE_OPTIONS.get(platform.machine(), []) + ([] if IS_SANITIZED else UNSANITIZED_OPTIONS)
    return [option for option in options if is_known(option)]


def options_lacking(path, wanted):
    """The wanted options that a compilation unit of the file was built without; None where the file does not say."""
    units = re.findall(r"GNU C\d+ .*", read("-p .debug_str", path)) if ".debug_str" in read("-S", path) else []
    if not units:
        return None
    return sorted({option for unit in units for option in wanted if option not in unit.split()})


def traits(path):
    """What the table has of a file: trait -> whether the file has it."""
    dynamic, segments, symbols = read("-d", path), read("-l", path), read("-s", path)
    library_paths = re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", dynamic)
    return {
        "pie": re.search(r"Type:\s+DYN", read("-h", path)) is not None,
        "relro": "GNU_RELRO" in segments,
        "now": re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic) is not None,
        "nx stack": re.search(r"GNU_STACK.* RW +0x", segments) is not None,
        "no w+x": re.search(r"LOAD.* RWE ", segments) is None,
        "no textrel": "TEXTREL" not in dynamic,
        "paths": all(re.match(r"/|\$ORIGIN", part) for paths in library_paths for part in paths.split(":")),
        "canary": "__stack_chk_fail" in symbols,
        "fortify": re.search(r"__(?!stack_)\w+_chk\b", symbols) is not None,
    }


class Hardening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = installed_files()
        cls.wanted = wanted_options()
        cls.traits = {path: traits(path) for path in cls.files}
        cls.lacking = {path: options_lacking(path, cls.wanted) for path in cls.files}
        cls.show()

    @classmethod
    def show(cls):
        names = list(cls.traits[cls.files[0]])
        print("options:", " ".join(cls.wanted))
        print(f"{'file':<34}", *names, "options", sep="  ")
        for path in cls.files:
            shown = [f"{'yes' if cls.traits[path][name] else 'no':<{len(name)}}" for name in names]
            lacking = cls.lacking[path]
            options = "unknown" if lacking is None else ("no: " + " ".join(lacking) if lacking else "yes")
            print(f"{os.path.basename(path):<34}", *shown, options, sep="  ")
        sys.stdout.flush()

    def expect(self, trait, but=()):
        for path in self.files:
            with self.subTest(file=path):
                self.assertTrue(self.traits[path][trait] or path.endswith(but), trait)

    def test_every_kind_of_file_is_there(self):
        names = {os.path.basename(path) for path in self.files}
        self.assertLessEqual({"lull", "lulld", "lull-keeper", "liblull.so.0.1.0", "liblull-nvtx.so"}, names)

    def test_addresses_are_random(self):
        self.expect("pie")

    def test_relocations_are_read_only(self):
        self.expect("relro")
        self.expect("now", but=LAZY)
        for path in self.files:
            self.assertFalse(path.endswith(LAZY) and self.traits[path]["now"], path)

    def test_no_memory_is_written_and_run(self):
        for trait in ("nx stack", "no w+x", "no textrel"):
            self.expect(trait)

    def test_no_path_of_libraries_is_relative(self):
        self.expect("paths")

    def test_returns_are_checked(self):
        self.expect("canary")

    def test_copies_are_checked(self):
        if not IS_FORTIFIED:
            self.skipTest("this build is not optimized or has a sanitizer: no _FORTIFY_SOURCE")
        self.expect("fortify", but=UNCHECKED)

    def test_jumps_can_be_checked(self):
        """In the objects: whether the linked files say so depends on the C library's start files."""
        if platform.machine() != "x86_64":
            self.skipTest("the processor has no checked jumps")
        notes = read("-n", ARCHIVE)
        self.assertEqual(len(re.findall(r"^File: ", notes, re.M)), len(re.findall(r"IBT, SHSTK", notes)))

    def test_all_options_of_the_guide_are_used(self):
        self.assertGreaterEqual(len(self.wanted), 4)
        for path, lacking in self.lacking.items():
            with self.subTest(file=path):
                if lacking is None:
                    self.skipTest("no debug information of gcc: options are not in the built files")
                self.assertEqual(lacking, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
