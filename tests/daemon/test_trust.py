#!/usr/bin/env python3
"""What users cost lulld and each other: faults F60 (descriptors whose close sleeps), F61 (crowds of connections) and F63
(clients and daemons of other versions); F65 (descriptors that are missing).

Run as: lull emulate SPEC -- test_trust.py LULLD TOOL LULL, as test_daemon.py, whose cases it extends.
SPDX-License-Identifier: Apache-2.0
"""

import encodings.idna  # noqa: F401 (not loaded later, by another user)
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import test_daemon
from test_daemon import Case, host, lull, truth

HELLO, WELCOME, LEASE, STATUS, RESTORE, REPLY, PROVE = 1, 2, 3, 7, 9, 10, 25
PROTOCOL = 6
UNSUPPORTED = -93


def message(kind, body=b"", version=PROTOCOL):
    return struct.pack("<4sHHII", b"LULL", version, kind, len(body), 1) + body


def read(packet):
    """(version, type, body) of a packet."""
    _, version, kind, _, _ = struct.unpack("<4sHHII", packet[:16])
    return version, kind, packet[16:]


def connect(name="lulld.sock"):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.path.join(os.environ["LULL_RUNTIME_DIR"], name))
    connection.settimeout(10)
    return connection


def greet():
    connection = connect()
    connection.send(message(HELLO, struct.pack("<I", os.getpid())))
    assert read(connection.recv(512))[1] == WELCOME
    return connection


def lingering():
    """A TCP socket whose last close sleeps for ten minutes: data waits for a peer that does not read."""
    listener = socket.create_server(("127.0.0.1", 0))
    writer = socket.create_connection(listener.getsockname())
    reader, _ = listener.accept()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    writer.setblocking(False)
    try:
        while True:
            writer.send(bytes(65536))
    except BlockingIOError:
        pass
    return writer, reader


def words_of(path):
    with open(path, encoding="ascii") as file:
        return file.read().split()


def children(pid):
    return [child for task in os.listdir(f"/proc/{pid}/task") for child in words_of(f"/proc/{pid}/task/{task}/children")]


class User:
    """A process of another user, which does something and then waits; done() is its result, a line."""

    def __init__(self, uid, do):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            try:
                said = str(do())
            except Exception as error:  # pylint: disable=broad-except
                said = repr(error)
            os.write(writer, (said + "\n").encode())
            signal.pause()
        os.close(writer)
        self.said = os.fdopen(reader)

    def done(self):
        ready, _, _ = select.select([self.said], [], [], 60)
        return self.said.readline().strip() if ready else "nothing within a minute"

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.said.close()


class Trust(Case):
    def start(self, policy):
        path = os.path.join(self.directory, "policy.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)
        return self.start_daemon("--policy", path, stderr=self.log)

    def user(self, uid, do):
        user = User(uid, do)
        self.addCleanup(user.end)
        return user

    def logged(self):
        self.log.seek(0)
        return self.log.read()


class Descriptors(Trust):
    def setUp(self):
        super().setUp()
        self.policy = f"[gpu {self.uuids[0]}]\ndevice = /dev/full\n"

    @staticmethod
    def pass_lingering(count):
        """Proofs with the last copy of a lingering socket."""
        kept = []
        for _ in range(count):
            connection = greet()
            writer, reader = lingering()
            socket.send_fds(connection, [message(PROVE)], [writer.fileno()])
            threading.Thread(target=writer.close, daemon=True).start()
            kept += [connection, reader]
        return len(kept)

    def prove(self):
        """What comes of a lease after an honest proof."""
        connection = greet()
        device = os.open("/dev/full", os.O_RDWR)
        socket.send_fds(connection, [message(PROVE)], [device])
        return struct.unpack("<i", read(connection.recv(512))[2][:4])[0]

    def test_f60_lingering_sockets_hold_no_thread(self):
        daemon = self.start(self.policy)
        before = len(os.listdir(f"/proc/{daemon.pid}/task"))
        for uid in (20001, 20002):
            self.assertEqual(self.user(uid, lambda: self.pass_lingering(20)).done(), "40")
        self.assertLess(len(os.listdir(f"/proc/{daemon.pid}/task")) - before, 4)  # some may have begun late
        began = time.monotonic()
        self.assertEqual(self.user(20003, self.prove).done(), "0")
        self.assertLess(time.monotonic() - began, 10)
        daemon.terminate()
        self.assertEqual(daemon.wait(10), 0)

    def test_f60_proofs_of_one_user_wait_for_each_other(self):
        self.start(self.policy)
        users = [self.user(20004, self.prove) for _ in range(12)]
        self.assertEqual([user.done() for user in users], ["0"] * 12)

    def test_f60_the_keeper_restores_without_a_process_to_fork(self):
        daemon = self.start_daemon()
        self.hold()
        self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 2))
        (keeper,) = children(daemon.pid)
        group = "/sys/fs/cgroup/pids/lull-trust-test"
        try:
            os.mkdir(group)
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")
        self.addCleanup(os.rmdir, group)
        for pid in (daemon.pid, keeper, *children(keeper)):
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        with open(os.path.join(group, "pids.max"), "w", encoding="ascii") as file:
            file.write("1")  # nothing may be forked any more
        daemon.send_signal(signal.SIGSTOP)
        self.assertIsNotNone(test_daemon.wait_free(0, 8.0), "the keeper has not restored the GPU")
        with open(os.path.join(group, "pids.max"), "w", encoding="ascii") as file:
            file.write("max")
        daemon.send_signal(signal.SIGCONT)
        daemon.kill()
        daemon.wait()
        host.wait_for(lambda: not words_of(os.path.join(group, "cgroup.procs")), 10)


class Crowds(Trust):
    @staticmethod
    def connect_for(processes, seconds):
        """Processes that connect, close and connect again."""
        children = []
        for _ in range(processes):
            child = os.fork()
            if child == 0:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    try:
                        connect().close()
                    except OSError:
                        pass
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return "over"

    @staticmethod
    def be_honest():
        """The longest of some greetings, in seconds."""
        longest = 0.0
        for _ in range(5):
            began = time.monotonic()
            greet().close()
            longest = max(longest, time.monotonic() - began)
        return longest

    def test_f61_a_crowd_keeps_nobody_else_from_lulld(self):
        self.start("[everybody]\ngpus = all\n")
        crowd = self.user(20001, lambda: self.connect_for(200, 6))
        time.sleep(1)
        self.assertLess(float(self.user(20002, self.be_honest).done()), 2.0)
        self.assertEqual(lull("restore").returncode, 0)
        self.assertEqual(crowd.done(), "over")
        lines = [line for line in self.logged().splitlines() if "too many connections" in line]
        self.assertIn("uid=20001", lines[0])
        self.assertLess(len(lines), 5, lines)

    @staticmethod
    def ask_on(count, seconds):
        """Asks without end on so many connections, with questions waiting on each of them; returns the answers."""
        question = message(STATUS, struct.pack("<I", 0))
        waiting = {greet(): 0 for _ in range(count)}
        for connection in waiting:
            connection.setblocking(False)
        answers = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for connection in waiting:
                for _ in range(4 - waiting[connection]):  # lulld closes a client with ten unread answers
                    connection.send(question)
                    waiting[connection] += 1
                try:
                    while connection.recv(512):
                        answers += 1
                        waiting[connection] -= 1
                except BlockingIOError:
                    pass
        return answers

    def test_f48_clients_that_ask_without_end_share_what_lulld_answers(self):
        self.start("[everybody]\ngpus = all\n")
        crowd = self.user(20005, lambda: self.ask_on(20, 3))
        honest = self.user(20006, lambda: self.ask_on(1, 0.05))
        self.assertGreater(int(honest.done()), 1)
        self.assertLess(int(crowd.done()), 200 + 3 * 2000 + 4000)  # 20 connections with 1000 per second would be 64000
        self.assertEqual(lull("status").returncode, 0)

    def test_f61_who_connects_too_often_is_refused_in_words(self):
        self.start("[everybody]\ngpus = all\n")

        def greet_often():
            refusals = []
            for _ in range(400):
                connection = connect()
                try:
                    connection.send(message(HELLO, struct.pack("<I", 0)))
                except OSError:
                    pass  # refused before
                _, kind, body = read(connection.recv(512))
                if kind == REPLY:
                    refusals.append(struct.unpack("<i", body[:4])[0])
                connection.close()
            return set(refusals) == {-16} and len(refusals) > 50

        self.assertEqual(self.user(20003, greet_often).done(), "True")
        self.assertEqual(self.user(20004, lambda: greet().close()).done(), "None")


class Scarce(Trust):
    def test_f65_closed_standard_descriptors(self):
        """What is written to standard error goes to no file of lulld."""
        run = os.environ["LULL_RUNTIME_DIR"]
        daemon = self.spawn("sh", "-c", f"exec '{test_daemon.LULLD}' -r '{run}' --allow-all <&- >&- 2>&-")
        self.assertIsNotNone(host.wait_for(lambda: os.path.exists(os.path.join(run, "lulld.sock")), 10, 0.05))
        files = [os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in range(3)]
        self.assertEqual(files, ["/dev/null"] * 3)
        with greet() as connection:
            connection.send(b"nonsense" * 8)  # a line of the log
        self.assertEqual(lull("status").returncode, 0)
        for folder, _, names in os.walk(run):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        self.assertNotIn(b"malformed", file.read(), path)

    def test_f65_too_few_descriptors_are_refused_in_words(self):
        for limit in ("12", "16", "24", "63"):
            done = subprocess.run(["sh", "-c", f"ulimit -n {limit}; exec '{test_daemon.LULLD}' --allow-all"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("limit of open files", done.stderr)
        self.spawn("sh", "-c", f"ulimit -Sn 12; exec '{test_daemon.LULLD}' --allow-all")
        self.assertIsNotNone(host.wait_for(lambda: lull("status").returncode == 0, 10, 0.1))
        self.hold()
        self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 2))


class OldDaemon(threading.Thread):
    """A daemon of another version: it closes the connection of who speaks another one."""

    def __init__(self, directory, version):
        super().__init__(daemon=True)
        self.version = version
        self.restored = 0
        os.makedirs(directory)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(os.path.join(directory, "lulld-root.sock"))
        self.listener.listen(8)
        self.start()

    def serve(self, connection):
        while True:
            packet = connection.recv(512)
            if not packet or read(packet)[0] != self.version:
                return
            if read(packet)[1] == HELLO:
                connection.send(message(WELCOME, struct.pack("<III", 1, 3000, 500), self.version))
            elif read(packet)[1] == RESTORE:
                self.restored += 1
                sequence = packet[12:16]
                reply = message(REPLY, struct.pack("<i240s", 0, b""), self.version)
                connection.send(reply[:12] + sequence + reply[16:])

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                try:
                    self.serve(connection)
                except OSError:
                    pass


class Versions(Trust):
    def ask(self, connection, kind, body, version):
        connection.send(message(kind, body, version))
        answered, kind, body = read(connection.recv(512))
        self.assertEqual((answered, kind), (version, REPLY))
        return struct.unpack("<i", body[:4])[0], body[4:].split(b"\0")[0].decode()

    def test_f63_another_version_is_answered_in_words(self):
        self.start("[everybody]\ngpus = all\n")
        self.hold()
        for version in (1, PROTOCOL - 1, PROTOCOL + 1, 900):
            hello = struct.pack("<I", os.getpid()) + bytes(8 * (version > PROTOCOL))  # later ones may append
            with connect("lulld-root.sock") as connection:
                code, text = self.ask(connection, HELLO, hello, version)
                self.assertEqual(code, UNSUPPORTED)
                self.assertIn(f"version {PROTOCOL} ", text)
                self.assertIn(f"version {version}:", text)
                self.assertEqual(self.ask(connection, STATUS, bytes(9), version)[0], UNSUPPORTED)
        self.assertEqual(lull("status").returncode, 0)
        self.assertEqual(truth(0), "locked")

    def test_f63_restore_is_served_in_any_version(self):
        self.start("[everybody]\ngpus = all\n")
        for version in (PROTOCOL - 1, PROTOCOL + 1):
            self.hold()
            self.assertIsNotNone(host.wait_for(lambda: truth(0) == "locked", 2))
            with connect("lulld-root.sock") as connection:
                self.ask(connection, HELLO, bytes(4), version)
                self.assertEqual(self.ask(connection, RESTORE, b"", version)[0], 0)
            self.assertEqual(truth(0), "free")

    def test_f63_no_user_restores_in_another_version(self):
        self.start("[everybody]\ngpus = all\n")

        def restore():
            with connect() as connection:
                self.ask(connection, HELLO, bytes(4), 4)
                return self.ask(connection, RESTORE, b"", 4)[0]

        self.assertEqual(self.user(20001, restore).done(), "-1")

    def test_f63_an_older_daemon_restores(self):
        daemon = OldDaemon(os.environ["LULL_RUNTIME_DIR"], 3)
        said = lull("status")
        self.assertEqual(said.returncode, 1)
        self.assertIn("another release", said.stderr)
        self.assertIn("systemctl restart lulld", said.stderr)
        said = lull("restore")
        self.assertEqual((said.returncode, daemon.restored), (0, 1), said.stderr)

    def test_f63_a_later_daemon_names_its_version(self):
        directory = os.environ["LULL_RUNTIME_DIR"]
        os.makedirs(directory)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(directory, "lulld-root.sock"))
        listener.listen(8)
        for reply in (message(WELCOME, bytes(40), 7), message(REPLY, struct.pack("<i240s", UNSUPPORTED, b"says so"), 7)):
            status = subprocess.Popen([test_daemon.LULL, "status"], stderr=subprocess.PIPE, text=True)
            with listener.accept()[0] as connection:
                connection.recv(512)
                connection.send(reply)
                said = status.communicate(timeout=20)[1]
            self.assertEqual(status.returncode, 1)
            self.assertIn("version 7" if read(reply)[1] == WELCOME else "says so", said)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may be several users")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
