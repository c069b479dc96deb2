#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The keeper restores what a killed, crashed or stopped ward leaves. Faults F04, F43 and F44.

Run as: lull emulate SPEC -- test_keeper.py LULLD TOOL LULL KEEPER JOB [CLASS].
"""
import json
import os
import signal
import sys
import time
import unittest

from node import BOUND_S, JOB, KEEPER, LULL, LULLD, TOOL, Node, call, children, keepers, kill_both, name_of, truth
import host

DEADLY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT, signal.SIGHUP, signal.SIGBUS)
STALL_S = 6.0  # faults.md: a stopped ward is undone within 6 s


def limit_w():
    return json.loads(call(LULL, "gpus", "--json").stdout)["gpus"][0]["power_limit_w"]


class Case(unittest.TestCase):
    def setUp(self):
        self.node = Node()

    def tearDown(self):
        self.node.close()
        self.assertEqual(truth(0), "free")

    def assert_undone(self, limit_s=BOUND_S):
        self.assertIsNotNone(self.node.wait_free([0], limit_s), f"GPU 0 is low after {limit_s} s:\n{self.node.said()}")

    def assert_gone(self, pid):
        self.assertIsNotNone(host.wait_for(lambda: not name_of(pid), 3.0), "the keeper stays")

    def hold_by_daemon(self):
        daemon = self.node.start_daemon()
        self.node.hold(0, "daemon")
        return daemon

    def hold_locally(self):
        return self.node.hold(0, "local")

    def start_run(self):
        """`lull run --no-daemon` with a job whose GPU it has lowered."""
        run = self.node.spawn(LULL, "run", "--no-daemon", "--quiet", "--tolerance", "5%", "--report",
                              self.node.directory, "--", JOB, "0", "2000", "30", "120", "0")
        self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 30.0), self.node.said())
        return run


class Deaths(Case):
    def check(self, hold, number):
        ward = hold()
        keeper = self.node.wait_keeper(ward.pid)
        self.assertEqual((truth(0), len(self.node.saved())), ("locked", 1))
        ward.send_signal(number)
        ward.wait(10)
        self.assert_undone()
        self.assertIsNotNone(host.wait_for(lambda: not self.node.saved(), 2.0), self.node.saved())
        self.assert_gone(keeper)

    def test_f04_f43_daemon_dies_by_a_signal(self):
        for number in DEADLY:
            with self.subTest(signal=number.name):
                self.check(self.hold_by_daemon, number)

    def test_f44_local_ward_dies_by_a_signal(self):
        for number in DEADLY:
            with self.subTest(signal=number.name):
                self.check(self.hold_locally, number)

    def test_f44_run_is_killed(self):
        run = self.start_run()
        (job,) = [child for child in children(run.pid) if name_of(child) != "lull-keeper"]
        run.kill()
        run.wait()
        self.assert_undone(BOUND_S + 0.05)  # a lowering that was on its way may have to be waited for
        self.assertNotEqual(name_of(job), "", "the job has died with its wrapper")
        os.kill(job, signal.SIGKILL)

    def test_f04_keeper_and_daemon_are_killed(self):
        daemon = self.hold_by_daemon()
        kill_both(daemon, self.node.wait_keeper(daemon.pid))
        time.sleep(0.3)
        self.assertEqual(truth(0), "locked")  # no process is left that could
        self.node.start_daemon()
        self.assertEqual(truth(0), "free")  # before it listens
        self.assertEqual(self.node.saved(), [])

    def test_f04_restore_by_the_unit(self):
        daemon = self.hold_by_daemon()
        kill_both(daemon, self.node.wait_keeper(daemon.pid))
        done = call(LULLD, "--restore")
        self.assertEqual((done.returncode, truth(0), self.node.saved()), (0, "free", []), done.stderr)

    def test_f05_restart_at_once_waits_for_the_keeper(self):
        daemon = self.hold_by_daemon()
        daemon.kill()
        daemon.wait()
        self.node.start_daemon()
        self.assertEqual((truth(0), self.node.saved()), ("free", []))

    def test_f04_two_gpus(self):
        daemon = self.node.start_daemon()
        for gpu in (0, 1):
            self.node.hold(gpu, "daemon")
        daemon.kill()
        self.assertIsNotNone(self.node.wait_free([0, 1]), self.node.said())


class Stalls(Case):
    def check(self, ward):
        keeper = self.node.wait_keeper(ward.pid)
        ward.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        self.assertEqual(truth(0), "locked")
        self.assert_undone(STALL_S)
        self.assertGreater(time.monotonic() - begin, 3.0)  # a pause of a busy host is no stall
        self.assertIsNotNone(host.wait_for(lambda: not self.node.saved(), 2.0), self.node.saved())
        self.assertEqual(name_of(keeper), "lull-keeper")
        return keeper

    def assert_no_lie(self):
        """Whatever is low has a journal (I2), at any time."""
        for _ in range(40):
            if truth(0) == "locked":
                self.assertEqual(len(self.node.saved()), 1)
            time.sleep(0.02)

    def test_f44_stopped_local_ward(self):
        ward = self.hold_locally()
        self.check(ward)
        ward.send_signal(signal.SIGCONT)
        # It holds its GPU low again by a new call, with a new record: a ward that believed its old lowering would
        # only have renewed it.
        self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 5.0), "the ward has not lowered anew")
        self.assert_no_lie()
        ward.kill()
        ward.wait()
        self.assert_undone()

    def test_f43_stopped_daemon(self):
        daemon = self.hold_by_daemon()
        self.check(daemon)
        daemon.send_signal(signal.SIGCONT)
        self.assert_no_lie()
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(10), 0)
        self.assertEqual((truth(0), self.node.saved()), ("free", []))

    def test_f44_stopped_ward_with_a_power_limit(self):
        before_w = limit_w()
        self.addCleanup(call, TOOL, "admin", self.node.uuids[0], str(before_w))
        call(TOOL, "admin", self.node.uuids[0], "350")
        ward = self.node.spawn(self.node.tool, "limits", "local", self.node.uuids[0])
        self.assertIsNotNone(host.wait_for(lambda: limit_w() == 250, 10.0), self.node.said())
        time.sleep(0.5)  # the last request is the one that stays
        self.assertEqual(limit_w(), 250)
        ward.send_signal(signal.SIGSTOP)
        self.assertIsNotNone(host.wait_for(lambda: limit_w() == 350, STALL_S), self.node.said())
        ward.send_signal(signal.SIGCONT)
        self.assertIsNotNone(host.wait_for(lambda: len(self.node.saved()) == 1, 2.0), "the ward did not notice")
        ward.kill()
        ward.wait()
        self.assertIsNotNone(host.wait_for(lambda: not self.node.saved(), 2.0), self.node.saved())

    def test_f44_stopped_run_and_killed_then(self):
        run = self.start_run()
        (job,) = [child for child in children(run.pid) if name_of(child) != "lull-keeper"]
        run.send_signal(signal.SIGSTOP)
        self.assert_undone(STALL_S)
        run.kill()
        run.wait()
        os.kill(job, signal.SIGKILL)
        self.assert_undone()

    def test_a_stop_without_a_lowering_is_left_alone(self):
        daemon = self.node.start_daemon()
        self.node.wait_keeper(daemon.pid)
        daemon.send_signal(signal.SIGSTOP)
        time.sleep(5.6)
        self.assertNotIn("hung", self.node.said())
        daemon.send_signal(signal.SIGCONT)


class Processes(Case):
    def test_killed_keeper_is_followed_by_another(self):
        daemon = self.hold_by_daemon()
        for _ in range(3):
            keeper = self.node.wait_keeper(daemon.pid)
            os.kill(keeper, signal.SIGKILL)
            self.assertIsNotNone(host.wait_for(lambda: keepers(daemon.pid) not in ([], [keeper]), 3.0))
        self.assertEqual(truth(0), "locked")
        message = "the keeper has died; another one was started"
        self.assertIsNotNone(host.wait_for(lambda: message in self.node.said(), 3.0), self.node.said())
        daemon.kill()
        daemon.wait()
        self.assert_undone()

    def test_keeper_ignores_every_signal_but_kill(self):
        daemon = self.node.start_daemon()
        keeper = self.node.wait_keeper(daemon.pid)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGUSR1,
                       signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE):
            os.kill(keeper, number)
        time.sleep(0.5)
        self.assertEqual(self.node.wait_keeper(daemon.pid), keeper)
        self.assertEqual((os.getsid(keeper), os.getpgid(keeper)), (keeper, keeper))

    def test_keeper_ends_with_its_ward_and_says_nothing(self):
        daemon = self.node.start_daemon()
        keeper = self.node.wait_keeper(daemon.pid)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(10), 0)
        self.assert_gone(keeper)
        self.assertNotIn("keeper", self.node.said())

    def test_keeper_is_small_and_has_nothing_open(self):
        daemon = self.hold_by_daemon()
        keeper = self.node.wait_keeper(daemon.pid)
        files = {fd: os.readlink(f"/proc/{keeper}/fd/{fd}") for fd in os.listdir(f"/proc/{keeper}/fd")}
        pipe = [fd for fd, file in files.items() if file.startswith("pipe:") and int(fd) > 4]
        thread = [fd for fd, file in files.items() if "pidfd" in file and int(fd) > 4]
        self.assertEqual(len(pipe), 1, files)  # to the child that waits
        self.assertLessEqual(len(thread), 1, files)  # the thread of lulld that ends first; none before Linux 6.9
        self.assertEqual(sorted(set(files) - set(pipe) - set(thread)), ["0", "1", "2", "3", "4"], files)
        self.assertTrue(files["3"].startswith("/memfd:lull-keeper"), files)
        with open(f"/proc/{keeper}/maps", encoding="utf-8") as file:
            maps = file.read()
        self.assertNotIn("nvidia-ml", maps)
        with open(KEEPER, "rb") as file:
            program = file.read()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("a sanitizer has memory of its own")
        with open(f"/proc/{keeper}/smaps_rollup", encoding="utf-8") as file:
            sizes = {line.split()[0]: int(line.split()[1]) for line in file.readlines()[1:]}
        own = sizes["Private_Clean:"] + sizes["Private_Dirty:"]
        print(f"keeper: rss={sizes['Rss:']} kB pss={sizes['Pss:']} kB private={own} kB", file=sys.stderr)
        self.assertLess(sizes["Pss:"], 1024)
        self.assertLess(own, 1024)

    def test_program_says_what_it_is(self):
        done = call(os.path.join(self.node.directory, "keeper", "lull-keeper"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("started by lulld and lull only", done.stderr)

    def test_ward_without_a_keeper_says_so_and_serves(self):
        os.unlink(os.path.join(self.node.directory, "keeper", "lull-keeper"))
        ward = self.hold_locally()
        self.assertEqual(keepers(ward.pid), [])
        self.assertIn("lull-keeper: not found next to this program", self.node.said())



if __name__ == "__main__":
    unittest.main(verbosity=2)
