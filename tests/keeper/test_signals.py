#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals at random points of what restores: it completes, or the next start resumes it. Fault F36.

Run as: lull emulate SPEC -- test_signals.py LULLD TOOL LULL KEEPER JOB [SEED [ROUNDS]]; prints the seed.
"""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from node import BOUND_S, JOB, LULL, LULLD, Node, call, keepers_of, kill_both, truth
import host

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 1
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 8
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        self.node = Node()

    def tearDown(self):
        self.node.close()
        self.assertEqual(truth(0), "free")

    def send(self, process, count, within_s):
        """That many signals at random times, which all come before the process ends or never."""
        for _ in range(count):
            time.sleep(self.random.uniform(0.0, within_s))
            if process.poll() is None:
                process.send_signal(self.random.choice(STOPPING))

    def leave_low(self):
        """GPU 0 stays low, with its record: ward and keeper are dead."""
        holder = self.node.hold(0, "local")
        kill_both(holder, self.node.wait_keeper(holder.pid))
        self.assertEqual((truth(0), len(self.node.saved())), ("locked", 1))

    def assert_undone(self):
        self.assertIsNotNone(self.node.wait_free([0], BOUND_S), f"GPU 0 is low:\n{self.node.said()}")
        self.assertIsNotNone(host.wait_for(lambda: not self.node.saved(), 3.0), f"{self.node.saved()}\n{self.node.said()}")

    def test_f36_lulld_stops_once(self):
        for _ in range(ROUNDS):
            daemon = self.node.start_daemon()
            self.node.hold(0, "daemon")
            daemon.terminate()
            self.send(daemon, 3, 0.02)
            self.assertEqual(daemon.wait(10), 0, self.node.said())
            self.assert_undone()

    def test_f36_lulld_is_stopped_while_it_starts(self):
        ends = set()
        for _ in range(ROUNDS):
            self.leave_low()
            daemon = self.node.spawn(LULLD)
            self.send(daemon, 1 + self.random.randrange(2), 0.04)
            daemon.wait(10)
            ends.add(daemon.returncode)
            # Its keeper completes what it had begun, if it had one already; else the next start does.
            self.assertIsNotNone(host.wait_for(lambda: not keepers_of(self.node.runtime), 5.0), "a keeper stays")
            if self.node.saved():
                self.assertEqual(call(LULLD, "--restore").returncode, 0, self.node.said())
            self.assert_undone()
        print("lulld ended with", sorted(ends))

    def test_f36_a_run_restores_once(self):
        for _ in range(max(1, ROUNDS // 4)):
            run = self.node.spawn(LULL, "run", "--no-daemon", "--quiet", "--tolerance", "5%", "--report",
                                  self.node.directory, "--", JOB, "0", "2000", "30", "120", "0")
            self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 60.0), self.node.said())
            run.terminate()
            self.send(run, 3, 0.05)
            self.assertEqual(run.wait(10), 128 + signal.SIGTERM, self.node.said())
            self.assert_undone()

    def test_f36_lull_restore_is_resumed(self):
        for command in ((LULL, "restore"), (LULLD, "--restore")):
            for _ in range(ROUNDS):
                self.leave_low()
                with subprocess.Popen(command, stderr=subprocess.DEVNULL) as restore:
                    self.send(restore, 1, 0.03)
                    restore.wait(10)
                self.assertEqual(truth(0) == "free" or bool(self.node.saved()), True, "low without a record")
                self.assertEqual(call(*command).returncode, 0)
                self.assert_undone()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1], verbosity=2)
