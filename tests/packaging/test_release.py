#!/usr/bin/env python3
"""What is published beside the programs: promises of compatibility, the list of parts, hooks, the project of OSS-Fuzz.

usage: test_release.py SOURCE BUILD [--record]
  --record  write what this version promises into promised.json, as a release does. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from release_tools import end, find, need, run

SOURCE, BUILD = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
PROMISED = os.path.join(SOURCE, "tests/packaging/promised.json")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def paths(value, path=""):
    """The paths of all fields of a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}".lstrip(".")
            yield from paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, path + "[]")


def options(program):
    for line in run(os.path.join(BUILD, program), "--print-options").stdout.splitlines():
        kind, *words = line.split("\t")
        yield words[0] if kind == "command" else f"{words[0]} --{words[2]}"


def promises():
    """What users may rely on, as this build has it."""
    symbols = run("nm", "-D", "--defined-only", os.path.join(BUILD, "src/probe/liblull.so")).stdout
    schemas = json.loads(read("data/openapi.json"))["components"]["schemas"]
    return {
        "options": sorted({*options("src/cli/lull"), *options("src/daemon/lulld")}),
        "report.json, version 2": sorted(set(paths(json.loads(read("docs/user/report-example.json"))))),
        "/api/v1": sorted(f"{name}.{field}" for name, schema in schemas.items() for field in schema.get("properties", {})),
        "functions of liblull.so.0": sorted(set(re.findall(r" T (lull_\w+)", symbols))),
    }


class Compatibility(unittest.TestCase):
    def test_nothing_promised_is_gone(self):
        with open(PROMISED, encoding="utf-8") as file:
            promised = json.load(file)
        now = promises()
        self.assertEqual(set(promised), set(now))
        for name, expected in promised.items():
            self.assertGreater(len(expected), 3, name)
            self.assertEqual(set(expected) - set(now[name]), set(),
                             f"{name}: docs/reference/compatibility.md promises these; keep them, or publish a new version of the interface")

    def test_each_declared_function_is_exported(self):
        declared = set(re.findall(r"^[\w ]*?\*?\b(lull_\w+)\(", read("include/lull/lull.h"), re.M))
        self.assertGreater(len(declared), 5)
        self.assertEqual(declared - set(promises()["functions of liblull.so.0"]), set())

    def test_the_document_names_the_versions(self):
        document = read("docs/reference/compatibility.md")
        for path, pattern in (("src/wire/message.h", r"LULL_MESSAGE_VERSION = (\d+)"), ("src/wire/peer_proposal.h", r"LULL_PROPOSAL_VERSION = (\d+)"),
                              ("src/device/journal.h", r"LULL_JOURNAL_VERSION = (\d+)")):
            self.assertIn(f"| {re.search(pattern, read(path))[1]} |", document, path)
        for name in re.findall(r"`((?:test|fuzz)_\w+)`", document):
            self.assertTrue(any(name + suffix in files for suffix in (".py", ".c") for _, _, files in os.walk(os.path.join(SOURCE, "tests"))),
                            f"docs/reference/compatibility.md: there is no {name}")


class Published(unittest.TestCase):
    def sbom(self):
        done = run(os.path.join(SOURCE, "tools/sbom"), BUILD, env={**os.environ, "SOURCE_DATE_EPOCH": "1796000000"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_sbom(self):
        text = self.sbom()
        self.assertEqual(text, self.sbom(), "the same build gives other bytes")
        names = {package["name"] for package in json.loads(text)["packages"]}
        self.assertLessEqual({"lull", "jansson", "libuv", "sqlite", "libmicrohttpd", "libseccomp", "libcap-ng", "zlib"}, names)
        need(self, "spdx_tools")
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lull.spdx.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(validate_full_spdx_document(parse_file(path)), [])

    def test_hooks(self):
        need(self, "yaml")
        import yaml
        config = yaml.safe_load(read(".pre-commit-config.yaml"))
        (local,) = [repository for repository in config["repos"] if repository["repo"] == "local"]
        for hook in local["hooks"]:
            program = os.path.join(SOURCE, hook["entry"].split()[0])
            self.assertTrue(os.access(program, os.X_OK), hook["entry"])
        done = run(find(self, "pre-commit"), "validate-config", os.path.join(SOURCE, ".pre-commit-config.yaml"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_oss_fuzz(self):
        """build.sh builds two targets with libFuzzer here, and each runs on its corpus."""
        clang, zipped = find(self, "clang"), find(self, "zip")
        self.assertTrue(zipped)
        script = os.path.join(SOURCE, "oss-fuzz/build.sh")
        self.assertEqual(run("bash", "-n", script).returncode, 0)
        with tempfile.TemporaryDirectory() as folder:
            flags = "-O1 -fsanitize=address,fuzzer-no-link"
            if run(clang, *flags.split(), "-fsanitize=fuzzer", "-x", "c", "-", "-o", os.path.join(folder, "x"),
                   input="int LLVMFuzzerTestOneInput(const char *d, long n) { return 0 * (d[0] + n); }").returncode != 0:
                self.skipTest("this clang has no libFuzzer")
            os.symlink(SOURCE, os.path.join(folder, "lull"))
            environment = {**os.environ, "SRC": folder, "OUT": os.path.join(folder, "out"), "WORK": os.path.join(folder, "work"), "CC": clang,
                           "CFLAGS": flags, "FUZZ_TARGETS": "pod request"}
            os.mkdir(environment["OUT"])
            done = subprocess.run(["bash", "-eu", script], env=environment, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
            for target in ("pod", "request"):
                corpus = os.path.join(folder, target)
                shutil.unpack_archive(os.path.join(environment["OUT"], f"fuzz_{target}_seed_corpus.zip"), corpus)
                done = run(os.path.join(environment["OUT"], "fuzz_" + target), "-runs=1000", corpus)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        with open(PROMISED, "w", encoding="utf-8") as out:
            json.dump(promises(), out, indent=0)
            out.write("\n")
        sys.exit(0)
    sys.exit(end(unittest.main(exit=False, verbosity=2)))
