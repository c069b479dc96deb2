"""The README shows the figures of docs/research/measurements, exactly, and stays short.

usage: test_readme.py SOURCE    SPDX-License-Identifier: Apache-2.0"""
import os
import re
import sys
import unittest

SOURCE = sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools", "figures"))
import savings

LONGEST = 120  # lines


class Readme(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            self.lines = file.read().splitlines()

    def row(self, title):
        found = [line for line in self.lines if line.startswith(f"| {title} |")]
        self.assertEqual(len(found), 1, f"the README needs one row {title}")
        return found[0]

    def test_savings(self):
        """A row has the same numbers in the same order, and names the page that has them."""
        for title, page, figures in savings.rows():
            with self.subTest(title):
                line = self.row(title)
                shown = re.findall(r"(\d+\.\d+) %", line)
                wanted = [*figures[savings.SETTLED], *figures.get(savings.SLOWER, []), *figures.get(savings.WHOLE, [])]
                self.assertEqual(shown, wanted, line)
                self.assertIn(f"/{page}", line)

    def test_chart(self):
        """`make figures` made the chart from the same figures."""
        with open(os.path.join(SOURCE, "docs", "get-started", "savings.svg"), encoding="utf-8") as file:
            chart = file.read()
        for title, _, figures in savings.rows():
            self.assertIn(f">{title}<", chart)
            self.assertIn(f">{float(figures[savings.SETTLED][0]):.1f} %<", chart)

    def test_length(self):
        self.assertLessEqual(len(self.lines), LONGEST)


if __name__ == "__main__":
    unittest.main()
