# SPDX-License-Identifier: Apache-2.0
"""What axe-core finds on a page that people are to read, by headless Chromium."""
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

# What a page is looked at in: light, dark, and 400 pixels wide.
LOOKS = ((), ("--blink-settings=preferredColorScheme=0",), ("--window-size=500,900",))
CHECK = "axe.run().then(r => {document.body.dataset.found = JSON.stringify(r.violations.map(" \
    "v => [v.impact, v.id, v.nodes.map(n => n.html.slice(0, 120))]))})"


def reason_to_skip():
    """Why nothing can be looked at here; None: it can."""
    if shutil.which("chromium") is None:
        return "no chromium"
    host.find_packages()
    if importlib.util.find_spec("axe_playwright_python") is None:
        return "no axe-core: see tools/install-deps"
    return None


def violations(text, directory, *options):
    """What axe finds on a page, to which it is added, and which may run scripts for that. What it writes is in the directory."""
    origin = importlib.util.find_spec("axe_playwright_python").origin
    with open(os.path.join(os.path.dirname(origin), "axe.min.js"), encoding="utf-8") as file:
        axe = file.read()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    path = os.path.join(directory, "checked.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", f"<script>{axe}</script><script>{CHECK}</script></body>"))
    done = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
                           f"--user-data-dir={directory}/profile", *options, "--dump-dom", "file://" + path],
                          capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'<body[^>]* data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return json.loads(html.unescape(found.group(1)))
