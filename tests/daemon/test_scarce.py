#!/usr/bin/env python3
"""lulld where something runs out: F21 (disk), F24 (descriptors), F25 (a thousand clients).

Run as: lull emulate SPEC -- test_scarce.py LULLD TOOL LULL, of which test_daemon.py has the rest.
SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import os
import resource
import signal
import socket
import statistics
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_daemon import LULLD, TOOL, Case, fields, host, lull, message, truth  # noqa: E402

GREET, STATUS = 1, 9
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


class Disk(Case):
    """A GPU is written to only with its journal on disk; what is leased already goes on."""

    def keepers(self, daemon):
        children = []
        for task in os.listdir(f"/proc/{daemon.pid}/task"):
            with open(f"/proc/{daemon.pid}/task/{task}/children", encoding="utf-8") as file:
                children += [int(child) for child in file.read().split()]
        return children

    def lower(self, gpu):
        """What came of lowering a GPU with a client of its own."""
        client = self.spawn(TOOL, "hold", "daemon", self.uuids[gpu], "900")
        said = client.stdout.readline()
        return client, fields(said)["lowered"]["status"] if said else None

    def check_without_room(self, daemon, client, fill, free):
        self.assertEqual(truth(0), "locked")
        fill()
        refused, status = self.lower(1)
        self.assertNotEqual(status, 0)
        self.assertEqual(truth(1), "free")
        refused.kill()
        self.assertIsNone(daemon.poll())
        self.assertEqual(truth(0), "locked")  # the lease that was there goes on
        self.assertEqual(lull("status").returncode, 0)
        client.kill()
        self.assert_freed()
        free()
        self.assertIsNotNone(host.wait_for(lambda: self.lower(1)[1] == 0, 10.0, 0.2), "GPU 1 cannot be lowered any more")
        self.assertEqual(truth(1), "locked")

    def test_f21_a_full_quota(self):
        daemon = self.start_daemon()
        client, result = self.hold()
        self.assertEqual(result["status"], 0)
        limited = [daemon.pid, *self.keepers(daemon)]

        def limit(size):
            for pid in limited:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        self.check_without_room(daemon, client, lambda: limit(0), lambda: limit(resource.RLIM_INFINITY))

    def test_f21_a_full_disk(self):
        libc = ctypes.CDLL(None, use_errno=True)
        run = os.environ["LULL_RUNTIME_DIR"].encode()
        os.mkdir(run, 0o755)
        # Everything is seen by this process and its children alone.
        if (libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0 or
                libc.mount(b"tmpfs", run, b"tmpfs", 0, b"size=64k,mode=755") != 0):
            self.skipTest(f"no file system may be mounted here: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.umount2, run, 2)
        daemon = self.start_daemon()
        client, result = self.hold()
        self.assertEqual(result["status"], 0)
        filler = os.path.join(run.decode(), "filler")

        def fill():
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

        self.check_without_room(daemon, client, fill, lambda: os.remove(filler))


class Crowd:
    """Connections of other users, each user's in a process of its own."""

    def __init__(self, users, connections):
        self.children = []
        for user in range(users):
            told, tell = os.pipe()
            heard, say = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(tell)
                os.close(heard)
                self.be_user(20000 + user, connections, told, say)
            os.close(told)
            os.close(say)
            self.children.append((child, tell, heard))

    @staticmethod
    def be_user(uid, count, told, say):
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        open_connections = []
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connection.settimeout(5)
                connection.connect(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock"))
                connection.send(message(GREET, struct.pack("<I", 0)))
                if connection.recv(512)[6:7] == b"\2":  # WELCOME; who is refused gets a REPLY
                    open_connections.append(connection)
                    continue
            except OSError:
                pass
            connection.close()
        os.write(say, json.dumps({"open": len(open_connections)}).encode())
        os.read(told, 1)
        times = []
        for sequence in range(5):
            for connection in open_connections:
                began = time.monotonic()
                try:
                    connection.send(message(STATUS, sequence=sequence + 2))
                    connection.recv(512)
                except OSError:
                    continue
                times.append(time.monotonic() - began)
                time.sleep(0.002)
        os.write(say, json.dumps({"times": len(times), "p99": statistics.quantiles(times, n=100)[98] if len(times) > 1
                                  else None}).encode())
        os.read(told, 1)
        os._exit(0)

    def hear(self):
        return [json.loads(os.read(heard, 4096)) for _, _, heard in self.children]

    def go_on(self):
        for _, tell, _ in self.children:
            os.write(tell, b"\n")

    def end(self):
        for child, tell, heard in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(tell)
            os.close(heard)
        self.children = []


class Clients(Case):
    def cpu_ticks(self, daemon):
        with open(f"/proc/{daemon.pid}/stat", encoding="utf-8") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))

    def check_crowd(self, daemon):
        """Who has a lease keeps it, and the daemon does not spin on what it cannot accept."""
        crowd = Crowd(3, 60)
        self.addCleanup(crowd.end)
        opened = sum(user["open"] for user in crowd.hear())
        before = self.cpu_ticks(daemon)
        time.sleep(2.0)
        self.assertLess(self.cpu_ticks(daemon) - before, 0.5 * os.sysconf("SC_CLK_TCK"))
        self.assertEqual(truth(0), "locked")
        return crowd, opened

    def test_f24_few_descriptors_from_the_start(self):
        # 28 are in use before any client comes.
        daemon = self.start_daemon("--allow-all", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (72, 72)))
        _, result = self.hold()
        self.assertEqual(result["status"], 0)
        before = self.count_fds(daemon)
        crowd, opened = self.check_crowd(daemon)
        self.assertLess(opened, 72)
        self.assertEqual(lull("status").returncode, 0)  # root's descriptors are kept for it
        self.assertEqual(lull("restore").returncode, 0)
        self.assert_freed()
        crowd.end()
        self.assertIsNotNone(host.wait_for(lambda: self.count_fds(daemon) <= before, 5.0))
        self.assertIsNone(daemon.poll())

    def test_f24_no_descriptor_is_left(self):
        daemon = self.start_daemon("--allow-all")
        client, result = self.hold()
        self.assertEqual(result["status"], 0)
        before = self.count_fds(daemon)
        # As `ulimit -n 32` would have it: three more than are in use.
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (before + 3, before + 3))
        crowd, opened = self.check_crowd(daemon)
        self.assertLess(opened, 4)
        client.kill()
        self.assert_freed()
        crowd.end()
        self.assertIsNotNone(host.wait_for(lambda: self.count_fds(daemon) <= before, 5.0))
        self.assertIsNone(daemon.poll())
        self.assertIsNotNone(host.wait_for(lambda: lull("status").returncode == 0, 5.0, 0.2))

    def test_f25_a_thousand_clients(self):
        daemon = self.start_daemon("--allow-all")
        _, result = self.hold()
        self.assertEqual(result["status"], 0)
        before = self.count_fds(daemon)
        crowd = Crowd(20, 50)
        self.addCleanup(crowd.end)
        self.assertEqual(sum(user["open"] for user in crowd.hear()), 1000)
        crowd.go_on()
        began = time.monotonic()
        self.assertEqual(lull("status").returncode, 0)
        status_s = time.monotonic() - began
        heard = crowd.hear()
        self.assertEqual(sum(user["times"] for user in heard), 5000)
        p99_ms = statistics.median(user["p99"] for user in heard) * 1e3
        with open(f"/proc/{daemon.pid}/status", encoding="utf-8") as file:
            (resident_kib,) = (int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
        print(f"1000 clients, 5000 questions: p99 {p99_ms:.2f} ms, {resident_kib / 1024:.1f} MB resident, "
              f"lull status {status_s * 1e3:.0f} ms")
        self.assertLess(p99_ms, 20.0 * host.slowness())  # 21 processes on few processors
        self.assertLess(resident_kib, 50 * 1024)
        self.assertEqual(truth(0), "locked")
        # One user with more than the allowed connections is refused without the others noticing.
        greedy = Crowd(1, 200)
        self.addCleanup(greedy.end)
        self.assertEqual(greedy.hear()[0]["open"], 14)  # uid 20000 has 50 of 64 already
        self.assertEqual(truth(0), "locked")
        greedy.end()
        crowd.end()
        self.assertIsNotNone(host.wait_for(lambda: self.count_fds(daemon) <= before, 10.0))

    @staticmethod
    def count_fds(daemon):
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks, and be several users")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
