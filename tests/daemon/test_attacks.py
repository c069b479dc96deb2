#!/usr/bin/env python3
"""Attacks on lulld by clients and signals: faults F42, F43 and F48.

Run as: lull emulate SPEC -- test_attacks.py LULLD TOOL LULL, as test_daemon.py, whose cases it extends.
SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import subprocess
import sys
import unittest

import test_daemon
from test_daemon import Case, truth

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402


class Signals(Case):
    """F43: whatever signal ends the daemon, no GPU stays low."""

    def test_f43_signals_that_end_the_daemon_restore(self):
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
                       signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGXCPU):
            with self.subTest(signal=number):
                daemon = self.start_daemon()
                self.hold()
                self.assertEqual(truth(0), "locked")
                daemon.send_signal(number)
                self.assertIsNotNone(test_daemon.wait_free(0, 0.1), "still locked after 100 ms")
                self.assertEqual(daemon.wait(10), 0)
                self.assertEqual(self.saved(), [])

    def test_f43_signals_that_say_nothing_are_ignored(self):
        daemon = self.start_daemon()
        self.hold()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            daemon.send_signal(number)
        self.assertEqual(test_daemon.lull("status").returncode, 0)
        self.assertEqual(truth(0), "locked")

    def test_f43_nohup_outlives_its_terminal(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            daemon = self.start_daemon()
        finally:
            signal.signal(signal.SIGHUP, before)
        daemon.send_signal(signal.SIGHUP)
        self.assertEqual(test_daemon.lull("status").returncode, 0)
        self.assertIsNone(daemon.poll())

    def test_f43_malformed_message_without_a_reader_of_the_log(self):
        reader, writer = os.pipe()
        daemon = self.start_daemon(stderr=writer)
        os.close(writer)
        os.close(reader)
        self.hold()
        with test_daemon.connect() as connection:
            connection.send(b"nonsense")
            try:
                connection.recv(512)
            except ConnectionResetError:
                pass
        self.assertEqual(test_daemon.lull("status").returncode, 0)
        self.assertIsNone(daemon.poll())
        self.assertEqual(truth(0), "locked")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
