"""The tools that look at the source tree and at the tests: what they find, and what they leave alone.

usage: test_tools.py TOOLS    SPDX-License-Identifier: Apache-2.0"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
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

    def test_lines(self):
        self.write("src/core/a.c", "/* One.\n * Two. */\nint f(void) // and code\n\n{\n    return *\"/* x */\";\n}\n")
        self.write("src/reproduce/b.c", "int g(void);\n")
        self.write("tests/t.c", "int h;\n")
        tool = load("count-lines")
        found = tool.measure(self.root, os.path.join(self.root, "build"))
        self.assertEqual((found["code_lines"], found["test_lines"], found["circles"]), (4, 1, None))
        self.assertEqual(found["comments_per_code_line_c"], 0.5)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
