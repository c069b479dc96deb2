#!/usr/bin/env python3
"""The documentation site: it is built, needs no network, its search finds pages, and axe-core finds no serious violation at two widths in
both themes.

usage: test_site.py SOURCE BUILD    SPDX-License-Identifier: Apache-2.0"""
import glob
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(SOURCE, "tests/cli"))
import axe  # noqa: E402

DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"
LOOKS = [(theme, f"--window-size={size}") for theme in (LIGHT, DARK) for size in ("1280,900", "500,900")]
# A page of each kind: the first, with pictures, with wide tables, of a command, of the C API, of the Python API, of fields.
PAGES = ["index.html", "user/report.html", "reference/metrics.html", "reference/commands/lull-run.1.html", "reference/c-api.html", "reference/python-api.html", "reference/json.html"]


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([os.path.join(SOURCE, "tools/make-site"), BUILD], capture_output=True, text=True, check=False)
        if done.returncode == 77:
            raise unittest.SkipTest(done.stdout.strip().removeprefix("skipped: "))
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.site = os.path.join(directory.name, "site")
        shutil.copytree(os.path.join(BUILD, "site"), self.site)

    def need(self, reason):
        if reason is not None:
            self.skipTest(reason)

    def test_no_page_loads_anything_from_elsewhere(self):
        pages = glob.glob(self.site + "/**/*.html", recursive=True)
        self.assertGreater(len(pages), 40)
        for page in pages:
            with open(page, encoding="utf-8") as file:
                text = file.read()
            loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"?([^\"\s>]+)", text)
            loaded += re.findall(r"<link(?![^>]*rel=\"?(?:canonical|prev|next))[^>]* href=\"?([^\"\s>]+)", text)
            self.assertEqual([url for url in loaded if re.match(r"(?:https?:)?//", url)], [], page)

    def test_the_search_works_without_network(self):
        self.need(None if shutil.which("chromium") else "no chromium")
        done = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
                               "--virtual-time-budget=20000", f"--user-data-dir={self.site}/profile", "--dump-dom",
                               f"file://{self.site}/user/report.html?q=power+limit"], capture_output=True, text=True, check=True, timeout=120)
        found = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', done.stdout)
        self.assertTrue(any("/user/power-limits.html" in html.unescape(url) for url in found), found)

    def test_axe(self):
        self.need(axe.reason_to_skip())
        for page in PAGES:
            path = os.path.join(self.site, page)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for look in LOOKS:
                found = axe.violations(text, os.path.dirname(path), *look)
                self.assertEqual([entry for entry in found if entry[0] in ("serious", "critical")], [], (page, look))


if __name__ == "__main__":
    unittest.main(verbosity=2)
