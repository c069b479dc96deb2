#!/usr/bin/env python3
"""F22: caps and grid durations while the wall clock of lulld and of lull budget jumps by a year, back and forth, ten times a second: no
cap ends early or late, and a duration keeps its length.
Run as: lull emulate SPEC -- test_budget_times.py LULLD LULL JUMPING_CLOCK. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests"))
import host  # noqa: E402

LULLD, LULL, CLOCK = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
HOLD_S = 3
SLACK_S = 3  # lulld looks at its caps once a second; the rest is for a busy host


class BudgetTimes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-times-")
        self.processes = []
        self.addCleanup(host.remove, self.directory)
        self.addCleanup(host.stop_all, self.processes)
        os.environ["LULL_RUNTIME_DIR"] = self.path("run")
        host.start_lulld(self.spawn, LULLD, stderr=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.directory, name)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ, LD_PRELOAD=CLOCK), **options)
        self.processes.append(process)
        return process

    def write(self, name, text):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))
        return self.path(name)

    def cap(self):
        done = subprocess.run([LULL, "status", "--json"], capture_output=True, check=True)
        return json.loads(done.stdout)["gpus"][0]["cap"]

    def state(self):
        try:
            with open(self.path("state.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def test_a_cap_ends_after_its_time(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(self.path("run/lulld.sock"))
            for kind, body in ((1, struct.pack("<I", os.getpid())), (26, struct.pack("<4I", 0, 600, 0, 1000 * HOLD_S))):
                before = time.monotonic()
                connection.send(struct.pack("<4sHHII", b"LULL", 6, kind, len(body), 1) + body)
                connection.recv(512)
            given = time.monotonic()
        held = []
        while time.monotonic() - given < HOLD_S + SLACK_S + 1:
            asked = time.monotonic()
            cap = self.cap()
            held.append((asked - given, time.monotonic() - before, cap is not None))
            time.sleep(0.1)
        self.assertTrue(held[0][2])
        for since_given, since_before, is_held in held:
            if since_before < HOLD_S:
                self.assertTrue(is_held, f"gone after {since_before:.2f} s")
            if since_given > HOLD_S + SLACK_S:
                self.assertFalse(is_held, f"still there after {since_given:.2f} s")

    def test_a_budget_keeps_its_caps(self):
        budget = self.spawn(LULL, "budget", "--quiet", self.write("budget.conf", f"[budget]\nlimit-w = 20\nhold-s = {HOLD_S}\n"))
        self.assertIsNotNone(host.wait_for(lambda: self.cap() is not None, 20, 0.1))
        began = time.monotonic()
        while time.monotonic() - began < 2 * HOLD_S + 2:
            self.assertIsNotNone(self.cap())
            time.sleep(0.1)
        budget.kill()
        budget.wait()
        self.assertIsNotNone(host.wait_for(lambda: self.cap() is None, HOLD_S + SLACK_S, 0.1))

    def test_a_duration_keeps_its_length(self):
        seconds = 5
        self.spawn(LULL, "budget", "--state", self.path("state.json"), self.write(
            "budget.conf", f"[budget]\nlimit-w = 10000\ngrid-file = {self.path('grid.json')}\n"))
        self.assertIsNotNone(host.wait_for(self.state, 20, 0.1))
        before = time.monotonic()
        self.write("grid.json", json.dumps({"target_w": 300, "duration_s": seconds}))
        self.assertIsNotNone(host.wait_for(lambda: self.state()["grid_target_w"] == 300, 20, 0.05))
        began = time.monotonic()
        while time.monotonic() - before < seconds - 0.1:
            self.assertEqual(self.state()["grid_target_w"], 300, f"gone after {time.monotonic() - before:.2f} s")
            time.sleep(0.05)
        self.assertIsNotNone(host.wait_for(lambda: self.state()["grid_target_w"] is None, began + seconds + SLACK_S - time.monotonic(), 0.05))


if __name__ == "__main__":
    unittest.main(verbosity=2)
