"""The documents name what exists: files, folders, and the functions of the walks in docs/developer/architecture.md.

usage: test_documents.py SOURCE    SPDX-License-Identifier: Apache-2.0"""
import glob
import importlib.machinery
import importlib.util
import os
import re
import sys
import unittest

SOURCE = sys.argv.pop(1)
sys.dont_write_bytecode = True
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/developer/architecture.md"]
PATH = re.compile(r"`(\w[\w.-]*(?:/[\w.{}*,-]+)*/?)`|\]\(([\w./-]+)\)")
NAMES = {name for top in ("src", "cluster", "lab", "include", "tests", "tools", "docs", "bench")
         for _, _, files in os.walk(os.path.join(SOURCE, top)) for name in files}
NAMES.add("dist/")  # where the packages are built
# String literals, and those that stand side by side, which are one.
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ADJACENT = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"(?:\s|\\\n|PRI\w+|LULL_[A-Z_]+)*)+')
STEP = re.compile(r"^( *)([\w/]+\.[ch]): (\w+)(?: \(as (\w+)\))?")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def layers():
    """What each layer may include, from tools/check-layers."""
    loader = importlib.machinery.SourceFileLoader("check_layers", os.path.join(SOURCE, "tools/check-layers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module.LAYERS


def alternatives(name):
    """The paths that "a_{b,c}.h" stands for."""
    braces = re.match(r"(.*)\{(.*)\}(.*)", name)
    return [braces[1] + part + braces[3] for part in braces[2].split(",")] if braces else [name]


class Documents(unittest.TestCase):
    def exists(self, document, name):
        part = document.split("/")[0] if document.startswith(("cluster/", "lab/")) else "src"
        places = [os.path.dirname(document), "", "src", part]
        return any(glob.glob(os.path.join(SOURCE, place, name)) for place in places) or name in NAMES

    def test_paths(self):
        """What has a slash is a path from the document, the root or src/; what only has a known ending is any file."""
        documents = DOCUMENTS + [os.path.relpath(path, SOURCE) for path in glob.glob(SOURCE + "/src/*/README.md") + glob.glob(SOURCE + "/cluster/**/README.md", recursive=True)
                                  + glob.glob(SOURCE + "/lab/**/README.md", recursive=True)]
        self.assertGreater(len(documents), 12)
        for document in documents:
            for quoted, linked in PATH.findall(re.sub(r"```.*?```", "", read(document), flags=re.S)):
                name = linked or quoted
                if linked or "/" in name or re.search(r"\.(?:[ch]|py|def|md|scd)$", name):
                    for path in alternatives(name):
                        self.assertTrue(self.exists(document, path), f"{document}: there is no {path}")

    def test_evidence(self):
        """The tests and faults that a page for administrators names are there; tools/faults finds the cases of a fault."""
        faults = {line.split(",")[0] for line in read("tests/faults.csv").splitlines()}
        for page in glob.glob(SOURCE + "/docs/admin/*.md"):
            for fault in re.findall(r"\bF\d\d\b", read(page)):
                self.assertIn(fault, faults, page)
            for test in re.findall(r"`((?:test|fuzz)_\w+)`", read(page)):
                self.assertTrue({test + ".c", test + ".py"} & NAMES, f"{page}: there is no {test}")

    def test_messages_name_manuals(self):
        """Documents may not be installed, so no message names one."""
        for part in ("src", "cluster", "lab"):
            for path in glob.glob(f"{SOURCE}/{part}/**/*.[ch]", recursive=True):
                self.assertEqual(re.findall(r'"[^"\n]*docs/[\w/-]+\.md', read(path)), [], path)

    def test_reasons(self):
        """Each message of the two pages on messages is one that the program prints; "..." stands for what it fills in."""
        sources = "".join(read(os.path.relpath(path, SOURCE)) for path in glob.glob(SOURCE + "/src/**/*.[ch]", recursive=True))
        printed = "\n".join("".join(LITERAL.findall(found[0])) for found in ADJACENT.finditer(sources))
        page = read("docs/user/troubleshooting.md")
        reasons = page[page.index("## Nothing was saved"):page.index("## Frequent errors")] + read("docs/reference/messages.md")
        rows = re.findall(r"(?m)^\| `([^|]*)` \|", reasons)
        self.assertGreater(len(rows), 60)
        lacking = [row for row in rows if not all(piece.strip() in printed for piece in row.split("..."))]
        self.assertEqual(lacking, [])

    def test_walks(self):
        """Each function stands in its file, is called from the file above it, and goes down or stays level."""
        known = layers()
        walks = re.findall(r"```walk\n(.*?)```", read("docs/developer/architecture.md"), flags=re.S)
        self.assertEqual(len(walks), 11)
        for walk in walks:
            callers = []
            for line in walk.splitlines():
                indent, path, function, alias = STEP.match(line).groups()
                text = read("src/" + path)
                self.assertTrue(re.search(rf"(?m)^[^\s*#].*\b{function}\(|^{function}\(", text), line)
                depth = len(indent) // 2
                self.assertLessEqual(depth, len(callers), line)
                del callers[depth:]
                if callers:
                    above, layer = callers[-1].split("/")[0], path.split("/")[0]
                    self.assertTrue(re.search(rf"\b{alias or function}\(", read("src/" + callers[-1])), line)
                    self.assertIn(layer, known[above] | {above}, line)
                callers.append(path)


if __name__ == "__main__":
    unittest.main()
