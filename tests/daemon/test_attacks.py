#!/usr/bin/env python3
"""Attacks on lulld by clients and signals: faults F42, F43 and F48.

Run as: lull emulate SPEC -- test_attacks.py LULLD TOOL LULL, as test_daemon.py, whose cases it extends.
SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
import unittest

import test_daemon
from test_daemon import Case, truth

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402


class Signals(Case):
    """F43: whatever signal ends the daemon, no GPU stays low."""

    def lower(self):
        """A client that keeps GPU 0 lowered; on a busy host its first request may come too late."""
        self.hold()
        self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 2))

    def test_f43_signals_that_end_the_daemon_restore(self):
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
                       signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGXCPU):
            with self.subTest(signal=number):
                daemon = self.start_daemon()
                self.lower()
                daemon.send_signal(number)
                self.assertIsNotNone(test_daemon.wait_free(0, 0.1), "still locked after 100 ms")
                self.assertEqual(daemon.wait(10), 0)
                self.assertEqual(self.saved(), [])

    def test_f43_signals_that_say_nothing_are_ignored(self):
        daemon = self.start_daemon()
        self.lower()
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


PTRACE_SEIZE, PTRACE_DETACH, PTRACE_INTERRUPT = 0x4206, 17, 0x4207


class StuckThread:
    """Stops the main thread of a process alone, as a call that sleeps in the kernel does."""

    def __init__(self, pid):
        self.pid = pid
        self.ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.ptrace.argtypes = [ctypes.c_long] * 4

    def __enter__(self):
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if self.ptrace(request, self.pid, 0, 0) != 0:
                raise unittest.SkipTest(f"ptrace: {os.strerror(ctypes.get_errno())}")
        os.waitpid(self.pid, 0x40000000)  # __WALL
        return self

    def __exit__(self, *_):
        self.ptrace(PTRACE_DETACH, self.pid, 0, 0)


ATTACKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacker.py")


class Attacks(Case):
    """F42 and F48: what others do costs an honest client no lease, and root no restore."""

    def attack(self, kind, gpu=1):
        if kind == "stairs":
            host.require_open(test_daemon.TOOL)
            return self.spawn(test_daemon.TOOL, kind, self.uuids[gpu], **test_daemon.NOBODY)
        attacker = self.spawn(sys.executable, ATTACKER, kind, self.uuids[gpu])
        self.assertEqual(attacker.stdout.readline(), "attacking\n")
        return attacker

    @staticmethod
    def owner():
        lease = json.loads(test_daemon.lull("status", "--json").stdout)["gpus"][0]["lease"]
        return lease and lease["pid"]

    def test_f42_the_dead_are_restored_while_the_loop_is_stuck(self):
        daemon = self.start_daemon()
        self.assertEqual(test_daemon.tool("admin", self.uuids[1], "350").returncode, 0)
        limited = self.spawn(test_daemon.TOOL, "limits", "daemon", self.uuids[1])
        for _ in range(5):
            limited.stdout.readline()
        client, _ = self.hold()

        def limit_w():
            return json.loads(test_daemon.lull("gpus", "--json").stdout)["gpus"][1]["power_limit_w"]

        self.assertEqual(limit_w(), 250)
        with StuckThread(daemon.pid):
            client.kill()
            limited.kill()
            self.assert_freed()
            self.assertIsNotNone(host.wait_for(lambda: limit_w() == 350, 2.0), limit_w())
        self.assertEqual(test_daemon.lull("status").returncode, 0)
        self.assertIsNone(self.owner())

    def test_f42_the_silent_are_restored_while_the_loop_is_stuck(self):
        daemon = self.start_daemon()
        client, _ = self.hold()
        with StuckThread(daemon.pid):
            client.send_signal(signal.SIGSTOP)
            self.assertIsNotNone(test_daemon.wait_free(0, 7.0))
        self.assertIsNotNone(host.wait_for(lambda: self.owner() is None, 2.0))

    def test_f42_heartbeats_are_read_after_a_stall(self):
        daemon = self.start_daemon()
        client, _ = self.hold()
        daemon.send_signal(signal.SIGSTOP)
        time.sleep(5.0)  # longer than a lease lives
        daemon.send_signal(signal.SIGCONT)
        for _ in range(10):
            self.assertEqual(self.owner(), client.pid)
            time.sleep(0.1)
        self.assertIsNone(client.poll())

    def check(self, kind, victim=1):
        """One attack: the honest client's lease lives longer than without heartbeats, a death is undone, root can
        restore, and the daemon has not worked much."""
        log = tempfile.TemporaryFile("w+")
        self.addCleanup(log.close)
        begin = time.monotonic()
        daemon = self.start_daemon("--allow-all", stderr=log)
        client, _ = self.hold()
        attacker = self.attack(kind, victim)
        until = time.monotonic() + 4.5
        while time.monotonic() < until:
            self.assertEqual(self.owner(), client.pid)
            time.sleep(0.3)
        self.assertIsNone(client.poll())
        client.kill()
        self.assert_freed()
        for _ in range(20):
            undone = test_daemon.lull("restore")
            self.assertEqual(undone.returncode, 0, undone.stderr)
        self.assertIsNone(attacker.poll(), "the attack ended by itself")
        attacker.kill()
        self.assertIsNone(daemon.poll())

    def test_f42_lingering_sockets(self):
        self.check("linger")

    def test_f48_connections(self):
        self.check("connects")

    def test_f48_refused_leases(self):
        self.check("refused", victim=0)

    def test_f48_clients_that_never_greet(self):
        self.check("silent")

    def test_f48_malformed_messages(self):
        self.check("malformed")

    def test_f48_questions(self):
        self.check("questions")

    def test_f48_doorbell(self):
        self.check("ring")

    def test_f48_doorbell_after_release(self):
        self.check("ring_released")

    def test_f48_stairs(self):
        self.check("stairs")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
