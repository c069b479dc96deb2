"""The progress of `lull run` beside a job's own output, recorded from a terminal and from a pipe: the job sees the same
terminal, and each byte of it stands where it stands without Lull.

usage: test_progress.py LULL JOB
SPDX-License-Identifier: Apache-2.0"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
COLUMNS = 66
# What `lull run` may write besides the job: the title, put away, set and brought back.
TITLE = re.compile(rb"\x1b\]0;([^\x07]*)\x07|\x1b\[2[23];0t")
# A job that prints: whole lines, a bar that is drawn over itself, lines in parts, both descriptors.
PRINTING = """
import os, subprocess, sys, time
job = subprocess.Popen(sys.argv[1:])
print(os.ttyname(0) == os.ttyname(1) == os.ttyname(2), os.isatty(1), os.get_terminal_size().columns, flush=True)
step = 0
while job.poll() is None or step < 20:
    if step < 60:
        print(f"epoch {step} ", end="", flush=True)
        time.sleep(0.04)
        print("loss", 1.0 / (step + 1), flush=True)
        for done in range(0, 101, 25):
            sys.stderr.write(f"\\rbar {done:3} % " + "#" * (done // 4))
            sys.stderr.flush()
            time.sleep(0.01)
        sys.stderr.write("\\n")
    step += 1
    time.sleep(0.02)
print("over", flush=True)
"""


class Progress(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-")
        self.addCleanup(host.remove, self.directory)

    def under_lull(self, *job, options=()):
        return [LULL, "emulate", "--seed", "1", "1xA100", "--", LULL, "run", "--no-daemon", *options, "--report",
                os.path.join(self.directory, "report"), "--", *job]

    def record(self, command, term="xterm-256color"):
        """All that a command writes onto a terminal of its own, which is its standard input as well."""
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
        job = subprocess.Popen(command, env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, TERM=term), stdin=end, stdout=end,
                               stderr=end, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(end)
        said = b""
        try:
            while block := os.read(terminal, 4096):
                said += block
        except OSError:  # the other end is closed
            pass
        os.close(terminal)
        self.assertEqual(job.wait(), 0, said)
        return said

    def test_a_job_that_prints(self):
        job = [sys.executable, "-c", PRINTING, JOB, "0", "60", "30", "60", "0"]
        said = self.record(self.under_lull(*job))
        titles = [match.group(1) for match in TITLE.finditer(said) if match.group(1)]
        self.assertGreater(len(titles), 5, said)
        seen, _, table = TITLE.sub(b"", said).partition(b"over\r\n")
        self.assertIn(b"nothing saved, no clocks lowered", table)
        lines = [b"True True %d\r\n" % COLUMNS]
        for step in range(60):
            lines.append(b"epoch %d loss %s\r\n" % (step, str(1.0 / (step + 1)).encode()))
            lines.append(b"".join(b"\rbar %3d %% " % done + b"#" * (done // 4) for done in range(0, 101, 25)) + b"\r\n")
        # The job may have ended before its last lines; those that are there are whole, and nothing is between them.
        count = seen.count(b"\r\n")
        self.assertGreater(count, 40)
        self.assertEqual(seen, b"".join(lines[:count]))

    def test_a_job_that_is_silent(self):
        """Its state is in the title from before the first iteration on, and the screen stays as it was."""
        said = self.record(self.under_lull(JOB, "0", "60", "30", "60", "0"))
        self.assertTrue(said.startswith(b"\x1b[22;0t\x1b]0;lull: no iteration yet: learning"), said[:80])
        titles = [match.group(1).decode() for match in TITLE.finditer(said) if match.group(1)]
        self.assertTrue(any("learning its iterations" in title for title in titles), titles)
        self.assertTrue(any(re.search(r"ms\): trying \d+ MHz in sections, \d+ s", title) for title in titles), titles)
        self.assertEqual(TITLE.sub(b"", said)[:4], b"\r\n  ")  # the table comes first on the screen
        self.assertEqual(said.count(b"\x1b[22;0t"), 1)
        self.assertEqual([match.group(0) for match in TITLE.finditer(said)][-2:], [b"\x1b]0;\x07", b"\x1b[23;0t"])

    def test_choices_on_a_terminal(self):
        job = [JOB, "0", "30", "10", "20", "0"]
        for term, options, has_title, has_lines in (
                ("xterm", ("--progress=none",), False, False), ("dumb", (), False, False), ("dumb", ("--progress=line",), True, False),
                ("xterm", ("--quiet",), False, False), ("xterm", ("--progress=log",), False, True)):
            with self.subTest(term=term, options=options):
                said = self.record(self.under_lull(*job, options=options), term)
                self.assertEqual(TITLE.search(said) is not None, has_title, said)
                self.assertEqual(re.search(rb"^lull: iteration \d", said, re.M) is not None, has_lines, said)

    def test_through_a_pipe(self):
        done = subprocess.run(self.under_lull(JOB, "0", "60", "30", "60", "0"), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, TERM="xterm"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("\x1b", done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("lull: ")]
        self.assertRegex(lines[0], r"^lull: iteration [1-9]\d* \([1-9]\d*\.\d ms\)")
        self.assertLess(len(lines), 5, lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
