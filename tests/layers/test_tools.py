"""The tools that look at the source tree and at the tests: what they find, and what they leave alone.

usage: test_tools.py TOOLS    SPDX-License-Identifier: Apache-2.0"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS = sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, TOOLS)
import c_source  # noqa: E402


def load(name):
    """A tool as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(TOOLS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Tree(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(holder.cleanup)
        self.root = holder.name

    def write(self, path, text):
        os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def test_names(self):
        self.write("src/core/a.h", "struct lull_good {\n    int x;\n};\n\nstruct bad {\n    int x;\n};\nstruct other;\n")
        self.write("src/core/a.c", "/* struct row { */\nstruct row {\n    int x;\n};\n")
        self.write("src/core/b.c", "enum row {\n    ROW\n};\nint f(int x)\n{\n    return x ? 1 : x > 2 ? 3 : 4;\n}\n")
        self.write("src/probe/nvtx_abi.h", "struct nvtx_event {\n    int x;\n};\n")
        found = load("check-names").check(self.root)
        self.assertEqual([violation.split(": ")[0] for violation in found],
                         ["src/core/a.h:5", "src/core/b.c:6", "src/core/a.c:2"])
        self.assertIn("row has 2 bodies; the others are at src/core/b.c:1", found[2])

    def test_nested_ternaries(self):
        for code, lines in (("x = a ? b : c;\ny = d ? e : f;", []), ("f(a ? b : c, d ? e : f);", []),
                            ("x = a ? b\n : c ? d : e;", [2]), ("x = a ? (b ? c : d) : e;", [1]),
                            ("if (a ? b : c) {\n x = d ? e : f;\n}\nz = g ? h : i;", [])):
            self.assertEqual(c_source.nested_ternaries(code), lines, code)

    def test_names_and_parameters(self):
        self.write("src/core/a.c", "static int run(int a, int b)\n{\n    return a + b;\n}\n\n"
                                   "static int save_file(void (*f)(int, int), int c, int d, int e, int g, int h, int i, int j)\n{\n"
                                   "    return c;\n}\n\nint lull_a(void)\n{\n    return run(1, 2);\n}\n")
        self.write("cluster/core/b.c", "static int save_file(void)\n{\n    return 1;\n}\n\nstatic int load_file(void)\n{\n    return 1;\n}\n")
        found = load("count-lines").measure(self.root, os.path.join(self.root, "build"))
        self.assertEqual((found["static_names_of_one_word_ratio"], found["static_names_shared_ratio"]), (0.25, 0.5))
        self.assertEqual(found["functions_over_7_parameters"], ["src/core/a.c:6 save_file"])

    def test_lines(self):
        self.write("src/core/a.c", "/* One.\n * Two. */\nint f(void) // and code\n\n{\n    return *\"/* x */\";\n}\n")
        self.write("lab/reproduce/b.c", "int g(void);\n")
        self.write("tests/t.c", "int h;\n")
        tool = load("count-lines")
        found = tool.measure(self.root, os.path.join(self.root, "build"))
        self.assertEqual((found["code_lines"], found["test_lines"], found["circles"]), (5, 1, None))
        self.assertEqual(found["lines_by_part"], {"src": 7, "cluster": 0, "lab": 1})
        self.assertEqual(found["comments_per_code_line_c"], 0.4)
        calls = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
        self.assertEqual(tool.find_circles(calls), [["a", "b", "c"], ["d", "e"]])


class Mutants(unittest.TestCase):
    CODE = """#define TWO 2
static const int three = 3;
int f(const char *s, int *p)
{
    int array[7];
    assert(p != NULL);
    p[1] = -1; // 5 + 5
    return *s * 4 + '6';
}
"""

    def test_places(self):
        code = c_source.blank(self.CODE)
        found = load("mutate").find_mutants(code)
        self.assertEqual({(code.count("\n", 0, offset) + 1, old) for offset, old, _ in found},
                         {(7, "1"), (8, "*"), (8, "4"), (8, "+")})
        for offset, old, new in found:
            self.assertEqual(self.CODE[offset:offset + len(old)], old)
            self.assertNotEqual(old, new)


class Outcome(unittest.TestCase):
    def test_one_line_for_each_reason(self):
        outcome = load("test").Outcome()
        for name, result, text in (("s / a", "SKIP", "skipped: no /x/../shared/data/y\n"), ("s / b", "OK", ""),
                                   ("s / c", "OK", "test_x (__main__.X.test_x) ... skipped 'no /w/shared/data/z'\n"),
                                   ("s / d", "SKIP", ""), ("s / e", "FAIL", ""), ("s / f", "SKIP", "skipped: no python\n")):
            outcome.take({"name": name, "result": result, "stdout": text})
        self.assertEqual((outcome.passed, outcome.failed, outcome.skipped), (2, 1, 3))
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            outcome.show_skipped()
        self.assertEqual(shown.getvalue().splitlines(),
                         ["1 skipped, 1 skipped in part: measured data are not here (../shared/data): a, c",
                          "1 skipped: no python: f", "1 skipped: no reason given: d"])


class Apart(unittest.TestCase):
    """What a test sees of the machine's Lull, whatever its environment."""
    MACHINE = {"LULL_STATE_DIR": "/var/lib/lull", "LULL_RUNTIME_DIR": "/run/lull", "LULL_CONFIG": "/etc/lull/lull.conf",
               "LULL_POLICY": "/etc/lull/policy.conf", "XDG_STATE_HOME": "/home/x/state", "XDG_CONFIG_HOME": "/home/x/config",
               "LULL_BATCH_STORE": "postgresql://h/d", "LULL_VENDOR": "amd", "LULL_EMULATED_NODE": "/dev/shm/x", "LULL_LOG": "debug",
               "LULL_JOB": "/run/lull/jobs/1", "LULL_TOGETHER_KEY": "secret", "LULL_POWERCAP": "/x", "LULL_LATER": "y"}

    def run_apart(self, *words, **options):
        return subprocess.run([os.path.join(os.path.dirname(os.path.abspath(TOOLS)), "tests", "apart"), *words], check=False,
                              capture_output=True, text=True, env=dict(os.environ, **self.MACHINE, LULL_TEST_PLACE="kept"), **options)

    def test_nothing_of_the_machine(self):
        seen = dict(line.split("=", 1) for line in self.run_apart("env").stdout.splitlines() if line.startswith(("LULL_", "XDG_")))
        for name, value in self.MACHINE.items():
            self.assertNotEqual(seen.get(name), value, name)
        self.assertEqual(seen["LULL_TEST_PLACE"], "kept")
        self.assertFalse(os.path.exists(os.path.dirname(seen["LULL_STATE_DIR"])), "not removed")

    def test_status(self):
        self.assertEqual(self.run_apart("sh", "-c", "exit 77").returncode, 77)
        self.assertEqual(self.run_apart("sh", "-c", 'exec printf "%s|" "$@"', "sh", "a b", "c").stdout, "a b|c|")


class Documents(unittest.TestCase):
    TEXT = """Text.

    $ lull a
    one 1
    two 2

    $ lull b  # why
    three

More.

```console
$ lull c
```

Text between.

```
x 1
...
y 2
```

    lull d --x   # with a comment
    sudo lull e
    other = 1
"""

    def setUp(self):
        self.tool = load("check-documents")

    def test_reading(self):
        found = self.tool.read_document("d", self.TEXT.split("\n"))
        self.assertEqual([(command.text, command.shown) for command in found],
                         [("lull a", ["one 1", "two 2"]), ("lull b", ["three"]), ("lull c", ["x 1", "...", "y 2"]),
                          ("lull d --x", None), ("sudo lull e", None)])
        lines = self.TEXT.split("\n")
        for command in found[:3]:
            self.assertEqual([line.strip() for line in lines[command.place:command.place + len(command.shown)]], command.shown)

    def same(self, shown, printed):
        return self.tool.place_segments(shown, printed, lambda a, b: a == b) is not None

    def test_comparing(self):
        printed = ["a 1", "b 2", "c 3", "d 4"]
        for shown in (printed, ["a 1", "...", "c 3", "d 4"], ["a 1", "..."], ["...", "d 4"], ["...", "b 2", "...", "d 4"], ["..."]):
            self.assertTrue(self.same(shown, printed), shown)
        for shown in (printed[:3], printed[1:], ["a 2", "..."], ["a 1", "...", "c 3"], ["...", "b 2", "d 4", "..."],
                      ["...", "c 3", "...", "b 2", "..."], printed + ["e"]):
            self.assertFalse(self.same(shown, printed), shown)

    def test_writing(self):
        printed = ["saves 7.5 % for 1 s", "n  12", "other", "total 3 J"]
        self.assertEqual(self.tool.adapt(["old"], printed), printed)
        self.assertEqual(self.tool.adapt(["saves 9 % for 2 s", "...", "total 1 J"], printed), [printed[0], "...", printed[3]])
        self.assertEqual(self.tool.adapt(["...", "  n  7  ".strip(), "..."], printed), ["...", printed[1], "..."])
        self.assertIsNone(self.tool.adapt(["...", "nothing of the kind", "..."], printed))

    def test_lookups_are_repeated(self):
        """Of each header that may be missing: meson keeps that it was."""
        count = 0
        for folder, _, names in os.walk(os.path.dirname(os.path.abspath(TOOLS))):
            if "meson.build" in names and not os.path.exists(os.path.join(folder, "meson-private")):
                with open(os.path.join(folder, "meson.build"), encoding="utf-8") as file:
                    calls = re.findall(r"(?:has_headers?: |has_header\().*", file.read())
                count += len(calls)
                for call in calls:
                    self.assertIn("machine_args", call, folder)
        self.assertGreater(count, 5)


class Configure(unittest.TestCase):
    """A header that was missing at first is found when a package has come, and options stay."""
    PROJECT = """project('p', 'c')
machine_args = ['-DM=' + run_command(TOOL, '--machine', check: true).stdout().strip()]
cc = meson.get_compiler('c')
found = cc.has_header('late.h', args: machine_args + ['-I' + meson.current_source_dir()])
configure_file(output: 'answer', capture: true, command: ['echo', found.to_string(), get_option('tests').to_string(), get_option('x')])
"""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(holder.cleanup)
        self.root = holder.name
        self.write("meson.build", self.PROJECT.replace("TOOL", f"'{os.path.abspath(TOOLS)}/configure'"))
        self.write("meson_options.txt", "option('tests', type: 'boolean', value: true)\noption('x', type: 'string', value: 'none')\n")
        self.install("1")
        self.environment = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def install(self, version):
        self.write("bin/dpkg-query", f"#!/bin/sh\necho late-dev {version} ii\n", 0o755)

    def configure(self, *options):
        done = subprocess.run([os.path.join(os.path.abspath(TOOLS), "configure"), "build", *options], cwd=self.root, env=self.environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.root, "build", "answer"), encoding="utf-8") as file:
            return file.read().split(), done.stdout

    def test_a_header_that_comes_later(self):
        self.assertEqual(self.configure("-Dtests=false", "-Dx=kept")[0], ["false", "false", "kept"])
        self.write("late.h", "")
        self.assertEqual(self.configure("-Dx=other"), (["false", "false", "kept"], ""))  # no package has come
        self.install("2")
        self.assertEqual(self.configure()[0], ["true", "false", "kept"])
        self.assertEqual(self.configure("--tests")[0], ["true", "true", "kept"])
        os.unlink(os.path.join(self.root, "late.h"))
        self.install("3")
        self.assertEqual(self.configure("--tests")[0], ["false", "true", "kept"])

    def test_a_build_of_somebody_else(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a build of another user's")
        self.configure()
        os.chmod(self.root, 0o755)
        with open(os.path.join(TOOLS, "configure"), encoding="utf-8") as file:
            self.write("configure", file.read(), 0o755)  # the checkout may be closed to others
        done = subprocess.run(["./configure", "build"], cwd=self.root, env=self.environment, user=65534,
                              group=65534, extra_groups=[], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"cannot build in build: build\S* belongs to root; run: sudo chown -R \S+ build\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
