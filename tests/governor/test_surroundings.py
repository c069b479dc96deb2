#!/usr/bin/env python3
"""A run amid names of any bytes, and files and descriptors that others have taken, cut or closed (F55 to F58): the job
runs, its status is returned, what is shown is text, and a sentence says what is missing.
SPDX-License-Identifier: Apache-2.0"""
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402,F401 (the durations of cases)

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))

# Control characters that no text of a run has, in UTF-8.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SPITEFUL = [b"\xff\xfe\xc3", b"x\x1b]0;owned\x07\x1b[2J\nfake: 99 % saved", b"</script><script>alert(1)</script>\"'&",
            b"\xe2\x80\xaeRTL \xc2\x9b31m", b"\xed\xa0\x80\xf4\x90\x80\x80", "ä".encode() * 200 + b"\xc3"]


class Surroundings(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.report = os.path.join(self.directory, "report")

    def run_on_node(self, *command, options=(), wrap=(), **settings):
        environment = dict(os.environ, LULL_RUNTIME_DIR=self.directory, LULL_STATE_DIR=self.directory)
        return subprocess.run(
            [LULL, "emulate", "1xA100", "--", *wrap, LULL, "run", "--no-daemon", "--report", self.report, *options, "--",
             *command], env=environment, capture_output=True, check=False, **settings)

    def load(self):
        with open(os.path.join(self.report, "report.json"), "rb") as file:
            return json.loads(file.read().decode("utf-8"))

    def check_text(self, done):
        self.assertIsNone(CONTROLS.search(done.stderr.decode("utf-8")), done.stderr)
        self.assertNotIn(b"\nfake:", done.stderr)

    # ---- F55 ----

    def check_names(self, name):
        """The name is that of a section, and an argument."""
        done = self.run_on_node(JOB, "0", "12", "20", "20", "0", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_text(done)
        report = self.load()
        expected = name.decode("utf-8", "replace")
        self.assertEqual(len(report["command"]), 7)
        self.assertEqual(re.sub("\ufffd+", "\ufffd", report["command"][-1]), re.sub("\ufffd+", "\ufffd", expected))
        for gpu in report["gpus"]:
            for section in gpu["sections"]:
                self.assertIsInstance(section["name"], str)
                self.assertIsNone(CONTROLS.search(section["signature"]))
        with open(os.path.join(self.report, "report.html"), "rb") as file:
            page = file.read().decode("utf-8")
        self.assertNotIn("<script>alert", page)
        self.assertIsNone(CONTROLS.search(re.sub("[\u202a-\u202e]", "", page)))
        with open(os.path.join(self.report, "trace.json"), "rb") as file:
            json.loads(file.read().decode("utf-8"))

    def test_names_of_spite(self):
        for name in SPITEFUL:
            with self.subTest(name=name):
                self.check_names(name)

    def test_names_of_random_bytes(self):
        bytes_of = random.Random(55)
        for _ in range(4):
            name = bytes(bytes_of.randrange(1, 256) for _ in range(40))
            with self.subTest(name=name):
                self.check_names(name)

    def test_messages_about_names_are_one_line(self):
        done = self.run_on_node(b"/nonexistent\x1b[31m\nfake: X\xff")
        self.assertEqual(done.returncode, 127)
        self.check_text(done)

    # ---- F56 ----

    def test_pipes_in_the_place_of_files(self):
        """No process writes to them or reads them."""
        os.mkdir(self.report)
        os.mkfifo(os.path.join(self.report, "report.json"))
        scalars = os.path.join(self.directory, "scalars")
        os.mkdir(scalars)
        os.mkfifo(os.path.join(scalars, "scalars.jsonl"))
        done = self.run_on_node("sh", "-c", "exit 3", options=["--scalars", scalars], timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"scalars.jsonl", done.stderr)
        self.assertIn(b"no report: ", done.stderr)
        self.assertNotIn(b"report.html", done.stderr)  # it is not there, so it is not named

    # ---- F57 ----

    def test_names_that_were_taken(self):
        """What the names of a job's files were, for all processes that may come next."""
        take = ("import os, sys\nfor pid in range(os.getpid(), os.getpid() + 300):\n"
                "    for kind in ('job', 'live'):\n"
                "        open(f'/dev/shm/lull-{kind}-{pid}-managed', 'x').close()\n"
                "os.execv(sys.argv[1], sys.argv[1:])")
        before = set(glob.glob("/dev/shm/lull-*-managed"))
        try:
            done = self.run_on_node(JOB, "0", "12", "20", "20", "0", wrap=[sys.executable, "-c", take])
        finally:
            for path in set(glob.glob("/dev/shm/lull-*-managed")) - before:
                os.unlink(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.load()["gpus"]), 1, done.stderr)

    # ---- F58 ----

    def test_a_job_that_cuts_its_files(self):
        cut = 'for f in /dev/shm/lull-job-$PPID-* /dev/shm/lull-live-$PPID-*; do : > "$f"; done'
        done = self.run_on_node("sh", "-c", f'"$0" 0 30 20 20 0 & sleep 0.5; {cut}; sleep 0.3; exit 3', JOB)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"was truncated during the run", done.stderr)
        self.assertEqual(self.load()["status"], 3)

    def test_closed_descriptors(self):
        """The job finds them closed, as without Lull; --json costs its own document."""
        shown = os.path.join(self.directory, "descriptors")
        look = ("import os, sys\n"
                "def is_open(fd):\n    try:\n        os.fstat(fd)\n        return True\n"
                "    except OSError:\n        return False\n"
                "said = [is_open(fd) for fd in range(3)]\n"
                "open(sys.argv[1], 'w').write(repr(said))\nsys.exit(4)")
        for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            done = self.run_on_node(sys.executable, "-c", look, shown,
                                    wrap=["sh", "-c", f'exec "$@" {closing}', "sh"], timeout=60)
            self.assertEqual(done.returncode, 4, (closing, done.stderr))
            with open(shown, encoding="utf-8") as file:
                expected = [fd not in closing for fd in ("<&-", ">&-", "2>&-")]
                if closing == "2>&-":
                    expected = [True, True, False]
                self.assertEqual(file.read(), repr(expected), closing)

    def test_json_without_standard_output(self):
        done = self.run_on_node("sh", "-c", "exit 4", options=["--json"],
                                wrap=["sh", "-c", 'exec "$@" >&-', "sh"], timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"standard output cannot be written", done.stderr)

    def test_a_path_with_blanks(self):
        """The dynamic linker would read it as several: it is not handed to it, and the reason is said."""
        sources = os.path.dirname(os.path.dirname(LULL))
        place = os.path.join(self.directory, "a b")
        for part in ("cli/lull", "probe/liblull-gloo.so"):
            os.makedirs(os.path.dirname(os.path.join(place, part)))
            shutil.copy(os.path.join(sources, part), os.path.join(place, part))
        environment = dict(os.environ, LULL_RUNTIME_DIR=self.directory, LULL_STATE_DIR=self.directory)
        done = subprocess.run([LULL, "emulate", "1xA100", "--", os.path.join(place, "cli", "lull"), "run", "--no-daemon",
                               "--report", self.report, "--", "sh", "-c", "echo $LD_PRELOAD; exit 5"],
                              env=environment, capture_output=True, check=False)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertNotIn(b"a b/probe", done.stdout)
        self.assertIn(b"splits LD_PRELOAD at blanks", done.stderr)
        self.assertNotIn(b"ld.so", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
