#!/usr/bin/env python3
"""End-to-end tests of lulld on an emulated node.

Faults F01-F04, F11, F15, F16, F21, F23, F27 and F40.
Run as: lull emulate SPEC -- test_daemon.py LULLD TOOL LULL. The only bound on time is that a GPU whose
owner died is free again within one second. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]
STALE = -5005
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def call(program, *arguments, **options):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, **options)


def tool(*arguments, **options):
    return call(TOOL, *arguments, **options)


def lull(*arguments, **options):
    return call(LULL, *arguments, **options)


def fields(text):
    """Lines `name key=value ...` as {name: {key: number}}."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: {k: int(v) for k, v in (w.split("=") for w in words[1:])} for words in lines}


def truth(gpu):
    return tool("truth", str(gpu)).stdout.strip()


def wait_free(gpu, limit_s=1.0):
    """Seconds until the emulated GPU is no longer locked; None if it stays locked."""
    return host.wait_restored(lambda: truth(gpu) == "free", limit_s)


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(5)
    connection.connect(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock"))
    return connection


def message(kind, body=b"", sequence=1):
    """A packet to lulld: kind is a number of wire/message.h."""
    return struct.pack("<4sHHII", b"LULL", 6, kind, len(body), sequence) + body


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lulld-test-")
        os.chmod(self.directory, 0o755)
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory, "run")
        self.processes = []
        gpus = json.loads(lull("gpus", "--json").stdout)["gpus"]
        self.uuids = [gpu["uuid"] for gpu in gpus]

    def tearDown(self):
        host.stop_all(self.processes)
        lull("restore")
        self.assertEqual(truth(0), "free")
        host.remove(self.directory)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def start_daemon(self, *options, **process_options):
        return host.start_lulld(self.spawn, LULLD, *options, **process_options)

    def start_busy(self):
        """Work on GPU 0; an idle GPU's clock says little about what it was asked for."""
        self.spawn(TOOL, "busy", "0")

        def is_busy():
            return json.loads(lull("gpus", "--json").stdout)["gpus"][0]["sm_clock_mhz"] > 1200

        self.assertIsNotNone(host.wait_for(is_busy, 4.0), "GPU 0 does not work")

    def hold(self, *options, mode="daemon", **process_options):
        """A client that keeps GPU 0 lowered, and what came of its first request."""
        client = self.spawn(TOOL, "hold", mode, self.uuids[0], "900", *options, **process_options)
        result = fields(client.stdout.readline())["lowered"]
        return client, result

    def kill_with_keeper(self, daemon):
        """Kills lulld and its keeper (tests/keeper), so that no process is left to undo anything. A process that stands
        still starts no other keeper."""
        daemon.send_signal(signal.SIGSTOP)
        for task in os.listdir(f"/proc/{daemon.pid}/task"):
            for child in open(f"/proc/{daemon.pid}/task/{task}/children").read().split():
                os.kill(int(child), signal.SIGKILL)
        daemon.kill()
        daemon.wait()

    def saved(self):
        return os.listdir(os.path.join(os.environ["LULL_RUNTIME_DIR"], "saved"))

    def assert_freed(self):
        self.assertIsNotNone(wait_free(0), "GPU 0 is still locked after 1 s")


class Deaths(Case):
    def test_killed_client(self):
        daemon = self.start_daemon()
        client, result = self.hold()
        self.assertEqual(result["status"], 0)
        self.assertEqual(truth(0), "locked")
        self.assertEqual(len(self.saved()), 1)
        client.kill()
        self.assert_freed()
        self.assertIsNone(daemon.poll())
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 2.0), self.saved())
        state = json.loads(lull("status", "--json").stdout)["gpus"][0]
        self.assertEqual((state["lease"], state["applied_sm_mhz"]), (None, None))

    def test_killed_client_with_a_living_child(self):
        self.start_daemon()
        client, _ = self.hold("fork")
        children = open(f"/proc/{client.pid}/task/{client.pid}/children").read().split()
        client.kill()
        self.assert_freed()
        for child in children:
            os.kill(int(child), signal.SIGKILL)

    def test_stopped_client(self):
        self.start_daemon()
        client, _ = self.hold()
        client.send_signal(signal.SIGSTOP)
        self.assertIsNotNone(wait_free(0, 6), "neither heartbeat nor expiry raised GPU 0")
        client.send_signal(signal.SIGCONT)
        self.assertEqual(client.wait(10), 1)  # its lease was taken back

    def test_killed_daemon_is_undone_by_the_next(self):
        daemon = self.start_daemon()
        client, _ = self.hold()
        self.kill_with_keeper(daemon)
        self.assertEqual(client.wait(10), 1)
        self.assertEqual(truth(0), "locked")
        begin = time.monotonic()
        self.start_daemon()
        self.assertEqual(truth(0), "free")  # before it listens
        took_s = time.monotonic() - begin
        self.assertTrue(took_s < 1.0 or took_s < host.slowness(), took_s)
        self.assertEqual(self.saved(), [])

    def test_killed_daemon_is_undone_by_restore(self):
        for command in ([LULLD, "--restore"], [LULL, "restore"]):
            daemon = self.start_daemon()
            self.start_busy()
            self.hold()
            self.kill_with_keeper(daemon)
            self.assertEqual(truth(0), "locked")
            undo = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual(undo.returncode, 0)
            self.assertEqual(truth(0), "free")
            self.assertEqual(self.saved(), [])

    def test_terminated_daemon(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = self.start_daemon()
            self.hold()
            daemon.send_signal(number)
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(10), 0)
            self.assertEqual(truth(0), "free")
            self.assertEqual(self.saved(), [])

    def test_killed_local_run(self):
        client, result = self.hold(mode="local")
        self.assertEqual(result["status"], 0)
        client.kill()
        client.wait()
        self.assertEqual(truth(0), "locked")
        self.assertEqual(lull("restore").returncode, 0)
        self.assertEqual(truth(0), "free")

    def test_administrator_takes_back(self):
        self.start_daemon()
        client, _ = self.hold()
        self.assertEqual(lull("restore").returncode, 0)
        self.assertEqual(truth(0), "free")
        self.assertEqual(client.wait(10), 1)


class Rules(Case):
    def check_rules(self, mode):
        outcome = tool("rules", mode, self.uuids[0])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        seen = fields(outcome.stdout)
        self.assertEqual(seen["stale"]["status"], STALE)
        self.assertEqual((seen["clamped"]["status"], seen["clamped"]["sm_mhz"]), (0, 600))
        self.assertGreater(seen["clamped"]["call_ns"], 0)
        self.assertEqual(seen["clamped"]["observed_mhz"], 600)
        self.assertEqual((seen["same"]["status"], seen["same"]["call_ns"]), (0, 0))
        self.assertEqual((seen["raised"]["status"], seen["raised"]["sm_mhz"]), (0, 0))
        self.assertGreaterEqual(seen["raised"]["settle_ns"], 0)
        self.assertEqual((seen["latest"]["status"], seen["latest"]["sm_mhz"]), (0, 1050))
        self.assertEqual((seen["expired"]["status"], seen["expired"]["sm_mhz"]), (STALE, 0))
        self.assertEqual(truth(0), "free")
        self.assertEqual(self.saved(), [])

    def test_rules_of_the_daemon(self):
        self.start_busy()
        self.start_daemon()
        self.check_rules("daemon")

    def test_rules_of_a_local_run(self):
        self.start_busy()
        self.check_rules("local")

    def test_disobedient_gpu_is_noticed(self):
        self.start_daemon()
        self.start_busy()
        time.sleep(0.3)
        tool("fault", "0:no_effect=1x1")
        _, result = self.hold()
        self.assertEqual((result["status"], result["settle_ns"]), (0, -2))

    def test_failed_raising_is_repeated(self):
        self.start_daemon()
        client, _ = self.hold()
        tool("fault", "0:set_code=10x3")
        client.kill()
        self.assert_freed()

    def test_without_journal_nothing_is_written(self):
        self.start_daemon()
        saved = os.path.join(os.environ["LULL_RUNTIME_DIR"], "saved")
        os.makedirs(os.path.join(saved, "gpu-" + self.uuids[0], "x"))
        _, result = self.hold()
        self.assertLess(result["status"], 0)
        self.assertEqual(truth(0), "free")


class Refusals(Case):
    def test_second_daemon(self):
        self.start_daemon()
        second = subprocess.run([LULLD], capture_output=True, text=True, timeout=10, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another lulld", second.stderr)
        local = tool("rules", "local", self.uuids[0])
        self.assertEqual(local.returncode, 1)
        self.assertIn("another lulld", local.stderr)
        self.assertEqual(lull("status").returncode, 0)  # the first one's socket is untouched

    def test_leased_gpu(self):
        self.start_daemon()
        self.hold()
        second = tool("rules", "daemon", self.uuids[0])
        self.assertEqual(second.returncode, 1)
        self.assertIn("leased by another", second.stderr)
        self.assertEqual(tool("rules", "daemon", "GPU-unknown").returncode, 4)

    def socket_mode(self):
        return os.stat(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock")).st_mode & 0o7777

    def test_user_without_permission(self):
        host.require_open(LULL)
        self.start_daemon()
        self.assertEqual(self.socket_mode(), 0o660)
        self.assertEqual(tool("rules", "daemon", self.uuids[0], **NOBODY).returncode, 3)
        self.assertEqual(lull("restore", **NOBODY).returncode, 3)

    def test_user_who_is_let_in(self):
        host.require_open(LULL)
        self.start_daemon("--allow-all")
        self.assertEqual(self.socket_mode(), 0o666)
        self.assertEqual(tool("rules", "daemon", self.uuids[0], **NOBODY).returncode, 0)
        self.assertEqual(lull("restore", **NOBODY).returncode, 3)

    def test_no_driver(self):
        environment = dict(os.environ, LULL_NVML="/nonexistent/libnvidia-ml.so.1",
                           LULL_AMD_SMI="/nonexistent/libamd_smi.so.26",
                           LULL_LEVEL_ZERO="/nonexistent/libze_loader.so.1")
        gpus = lull("gpus", env=environment)
        self.assertEqual((gpus.returncode, gpus.stdout), (4, ""))
        self.assertIn("install the driver", gpus.stderr)
        # lulld waits for the driver (test_states.py), but what is to be restored cannot be.
        daemon = subprocess.run(
            [LULLD, "--restore"], env=environment, capture_output=True, timeout=10, check=False)
        self.assertEqual(daemon.returncode, 4)

    def test_usage(self):
        self.assertEqual(lull("gpus", "--nonsense").returncode, 2)
        # With a library that is no driver each right line ends with 4, so that nothing has to be started.
        environment = dict(os.environ, LULL_VENDOR="nvidia", LULL_NVML="libm.so.6")
        right = (["--socket-mode", "0777"], ["--socket-mode", "0"], ["--socket-group", "root"], ["--allow-all"],
                 ["--restore"], ["--ready-fd", "1048576"], ["--ready-fd", "0"], ["-r", self.directory + "/other"])
        wrong = (["--socket-mode", "9"], ["--socket-mode", "1000"], ["--socket-mode", ""], ["--socket-mode", "7x"],
                 ["--socket-group", "no such group"], ["--ready-fd", "-1"], ["--ready-fd", "1048577"],
                 ["--ready-fd", "x"], ["argument"], *([*options, "--nonsense"] for options in right))
        for status, rows in ((4, right), (2, wrong)):
            for options in rows:
                lulld = subprocess.run([LULLD, *options], env=environment, capture_output=True, check=False)
                self.assertEqual(lulld.returncode, status, (options, lulld.stderr))


class Wire(Case):
    def test_malformed_messages_close_only_their_connection(self):
        daemon = self.start_daemon()
        for packet in (b"x", b"LULL" * 100, message(77), message(5), message(8)):
            with connect() as connection:
                connection.send(packet)
                try:
                    self.assertEqual(connection.recv(512), b"")
                except ConnectionResetError:
                    pass
        with connect() as connection:
            connection.send(message(1, struct.pack("<I", 0)))
            self.assertEqual(connection.recv(512)[6], 2)
        self.assertIsNone(daemon.poll())

    def test_passed_descriptors_do_not_pile_up(self):
        """The kernel refuses them (Linux 6.16), or the daemon closes who sends them."""
        daemon = self.start_daemon()
        before = self.count_fds(daemon)
        for _ in range(20):
            with connect() as connection:
                try:
                    socket.send_fds(connection, [message(1, struct.pack("<I", 0))], [connection.fileno()] * 3)
                    self.assertEqual(connection.recv(512), b"")
                except (PermissionError, ConnectionResetError):
                    pass
        self.assertIsNotNone(host.wait_for(lambda: self.count_fds(daemon) <= before, 2.0))
        self.assertEqual(lull("status").returncode, 0)

    def test_forked_child_may_not_ask(self):
        self.start_daemon()
        with connect() as connection:
            connection.send(message(1, struct.pack("<I", 0)))
            connection.recv(512)
            child = os.fork()
            if child == 0:
                connection.send(message(9, sequence=7))
                os._exit(0)
            os.waitpid(child, 0)
            answer = connection.recv(512)
            kind, sequence = struct.unpack_from("<HxxxxI", answer, 6)
            self.assertEqual((kind, sequence, struct.unpack_from("<i", answer, 16)[0]), (10, 7, -1))

    @staticmethod
    def count_fds(daemon):
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    def test_many_clients_leave_nothing_behind(self):
        daemon = self.start_daemon()
        for _ in range(3):
            tool("rules", "daemon", self.uuids[0])
        time.sleep(0.3)  # the daemon notices who is gone
        count = self.count_fds(daemon)
        for _ in range(5):
            tool("rules", "daemon", self.uuids[0])
            lull("status")
        self.assertIsNotNone(host.wait_for(lambda: self.count_fds(daemon) <= count, 1.0))


class Limits(Case):
    """Power limits: never above what the administrator had set, which comes back whatever happens."""

    def setUp(self):
        super().setUp()
        self.assertEqual(tool("admin", self.uuids[0], "350").returncode, 0)

    def limit_w(self):
        return json.loads(lull("gpus", "--json").stdout)["gpus"][0]["power_limit_w"]

    def ask(self, mode="daemon"):
        client = self.spawn(TOOL, "limits", mode, self.uuids[0])
        results = fields("".join(client.stdout.readline() for _ in range(5)))
        self.assertEqual({name: result["limit_mw"] / 1000 for name, result in results.items()},
                         {"first": 300, "above": 350, "below": 150, "before": 350, "last": 250})
        self.assertEqual({result["status"] for result in results.values()}, {0})
        self.assertEqual(self.limit_w(), 250)
        return client

    def assert_restored(self):
        host.wait_for(lambda: self.limit_w() != 250, 10.0)
        self.assertEqual(self.limit_w(), 350)
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 10.0), self.saved())

    def test_killed_client(self):
        self.start_daemon()
        client = self.ask()
        self.assertIn("power limit 250 W", lull("status").stdout)
        client.kill()
        self.assert_restored()

    def test_killed_daemon(self):
        daemon = self.start_daemon()
        self.ask()
        self.kill_with_keeper(daemon)
        self.assertEqual(self.limit_w(), 250)
        self.start_daemon()
        self.assert_restored()

    def test_stopped_daemon(self):
        daemon = self.start_daemon()
        self.ask()
        daemon.terminate()
        daemon.wait()
        self.assert_restored()

    def test_killed_without_daemon(self):
        client = self.ask(mode="local")
        client.kill()
        client.wait()
        self.assertEqual(self.limit_w(), 250)
        self.assertEqual(lull("restore").returncode, 0)
        self.assert_restored()

    def test_somebody_elses_limit_stays(self):
        self.start_daemon()
        client = self.ask()
        self.assertEqual(tool("admin", self.uuids[0], "320").returncode, 0)
        client.kill()
        self.assertIsNotNone(host.wait_for(lambda: not self.saved(), 10.0), self.saved())
        self.assertEqual(self.limit_w(), 320)

    def test_a_lease_without_limits_sets_none(self):
        self.start_daemon()
        result = fields(tool("unleased", "daemon", self.uuids[0]).stdout)["refused"]
        self.assertEqual((result["status"], self.limit_w()), (-5001, 350))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
