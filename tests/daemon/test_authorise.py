#!/usr/bin/env python3
"""Who may control which GPU: faults F27 to F31 and F37 on an emulated node.

Run as: lull emulate SPEC -- test_authorise.py LULLD TOOL LULL. SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import encodings.idna  # noqa: F401, for sockets of a user who cannot read the library
import errno
import json
import os
import resource
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import attacker  # noqa: E402
import host  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]
REFUSED = 3  # enum lull_exit
ALICE, BOB = 12001, 12002


def as_user(uid, gid=12000, groups=()):
    host.require_open(TOOL)
    return {"user": uid, "group": gid, "extra_groups": list(groups)}


def call(program, *arguments, **options):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


def lull(*arguments, **options):
    return call(LULL, *arguments, **options)


def truth(gpu):
    return call(TOOL, "truth", str(gpu)).stdout.strip()


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lulld-test-")
        os.chmod(self.directory, 0o755)
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory, "run")
        self.policy = os.environ["LULL_POLICY"] = os.path.join(self.directory, "policy.conf")
        self.processes = []
        gpus = json.loads(lull("gpus", "--json").stdout)["gpus"]
        self.uuids = [gpu["uuid"] for gpu in gpus]
        self.addresses = [gpu["pci_bus_id"] for gpu in gpus]

    def tearDown(self):
        host.stop_all(self.processes)
        lull("restore")
        host.remove(self.directory)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def write_policy(self, text):
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.policy, 0o644)

    def start(self, text=None, *options, log=None):
        if text is not None:
            self.write_policy(text)
            options = ("--policy", self.policy, *options)
        return host.start_lulld(self.spawn, LULLD, *options, stderr=log)

    def ask(self, uid, gpu=0, groups=(), before=()):
        """One client's requests, and the exit status of it."""
        return call(*before, TOOL, "rules", "daemon", self.uuids[gpu], **as_user(uid, groups=groups))

    def hold(self, uid, gpu=0):
        """A client that keeps a GPU lowered."""
        client = self.spawn(TOOL, "hold", "daemon", self.uuids[gpu], "900", **as_user(uid))
        self.assertIn("lowered", client.stdout.readline())
        self.assertEqual(truth(gpu), "locked")
        return client

    def assert_revoked(self, client, gpu=0):
        self.assertEqual(client.wait(10), 1)
        self.assertEqual(truth(gpu), "free")

    def lease(self):
        return json.loads(lull("status", "--json").stdout)["gpus"][0]["lease"]


class Rights(Case):
    def test_f27_an_open_socket_gives_no_right(self):
        log_path = os.path.join(self.directory, "log")
        with open(log_path, "w", encoding="utf-8") as log:
            self.start(None, "--socket-mode", "0666", log=log)
            refused = self.ask(ALICE)
        self.assertEqual(refused.returncode, REFUSED, refused.stderr)
        self.assertIn("neither a job nor the policy", refused.stderr)
        self.assertEqual((truth(0), self.lease()), ("free", None))
        with open(log_path, encoding="utf-8") as log:
            line = [line for line in log if "lease refused" in line]
        self.assertEqual(len(line), 1)
        self.assertIn(f"uid={ALICE} pid=", line[0])
        self.assertIn(self.uuids[0], line[0])

    def test_f27_a_first_policy_opens_the_socket(self):
        self.start()
        self.assertNotEqual(self.ask(ALICE).returncode, 0)
        self.write_policy(f"[user {ALICE}]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertEqual(self.ask(ALICE).returncode, 0)
        self.assertEqual(self.ask(BOB).returncode, REFUSED)

    def test_f27_a_reload_keeps_a_mode_that_was_given(self):
        self.start(None, "--socket-mode", "0600")
        self.write_policy("[everybody]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertNotEqual(self.ask(ALICE).returncode, 0)

    def test_f27_one_line_for_each_refusal_but_no_flood(self):
        log_path = os.path.join(self.directory, "log")
        with open(log_path, "w", encoding="utf-8") as log:
            self.start("", log=log)
            for _ in range(30):
                self.assertEqual(self.ask(ALICE).returncode, REFUSED)
        with open(log_path, encoding="utf-8") as log:
            lines = sum("lease refused" in line for line in log)
        self.assertGreater(lines, 0)
        self.assertLessEqual(lines, 30)

    def test_f27_the_group_of_the_socket_has_all(self):
        self.start(None, "--socket-group", "daemon")
        self.assertEqual(self.ask(ALICE, groups=[1]).returncode, 0)
        self.assertEqual(self.ask(BOB).returncode, REFUSED)

    def test_f27_rules_of_a_policy(self):
        self.start(f"[user {ALICE}]\ngpus = {self.uuids[0]}\n[group 1]\ngpus = {self.addresses[1]}\n")
        self.assertEqual(self.ask(ALICE, 0).returncode, 0)
        self.assertEqual(self.ask(ALICE, 1).returncode, REFUSED)
        self.assertEqual(self.ask(BOB, 1, groups=[1]).returncode, 0)
        self.assertEqual(self.ask(BOB, 0, groups=[1]).returncode, REFUSED)
        self.assertEqual(call(TOOL, "rules", "daemon", self.uuids[1]).returncode, 0)  # root

    def test_f27_a_policy_that_others_can_write_is_refused(self):
        self.write_policy("[everybody]\ngpus = all\n")
        os.chmod(self.policy, 0o666)
        daemon = call(LULLD, "--policy", self.policy)
        self.assertEqual(daemon.returncode, REFUSED)
        self.assertIn("others than root", daemon.stderr)
        self.assertEqual(call(LULLD, "--policy", self.policy + "x").returncode, 1)

    def test_f27_administrators_are_a_group(self):
        self.start("[lulld]\nadministrators = 1\n[everybody]\ngpus = all\n")
        client = self.hold(ALICE)
        for command in (["restore"], ["revoke", "--gpu", "0"], ["reload"], ["job", "remove", "7"]):
            self.assertEqual(lull(*command, **as_user(BOB)).returncode, REFUSED, command)
        add = ["job", "add", "7", "--user", str(BOB), "--gpus", self.uuids[0]]
        self.assertEqual(lull(*add, **as_user(BOB, groups=[1])).returncode, REFUSED)
        self.assertEqual(lull("reload", **as_user(BOB, groups=[1])).returncode, 0)
        self.assertIsNone(client.poll())
        revoked = lull("revoke", "--gpu", "0", **as_user(BOB, groups=[1]))
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        self.assert_revoked(client)


class Containers(Case):
    def test_f28_a_process_without_a_number_is_refused(self):
        unshare = shutil.which("unshare")
        options = [unshare or "unshare", "--user", "--pid", "--fork"]
        if unshare is None or call(*options, "true", **as_user(ALICE)).returncode != 0:
            self.skipTest("this host does not permit unshare --user --pid")
        self.start("[everybody]\ngpus = all\n")
        inside = self.ask(ALICE, before=options)
        # The daemon sees every process of its own descendants' namespaces, and knows its user.
        self.assertEqual(inside.returncode, 0, inside.stderr)

    def test_f28_users_that_are_not_known_here(self):
        self.start("[everybody]\ngpus = all\n")
        refused = self.ask(65534)
        self.assertEqual(refused.returncode, REFUSED)
        self.assertIn("container", refused.stderr)
        self.write_policy("[lulld]\ncontainers = yes\n[everybody]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertEqual(self.ask(65534).returncode, 0)

    def test_f28_a_daemon_that_cannot_see_its_client(self):
        unshare = shutil.which("unshare")
        if unshare is None or call(unshare, "--pid", "--fork", "true").returncode != 0:
            self.skipTest("this host does not permit unshare --pid")
        # To a daemon in a PID namespace of its own, this test's processes have the number 0.
        self.write_policy("[everybody]\ngpus = all\n")
        host.start_lulld(self.spawn, unshare, "--pid", "--fork", "--kill-child", LULLD, "--policy",
                         self.policy)
        refused = self.ask(ALICE)
        self.assertEqual(refused.returncode, REFUSED, refused.stderr)
        self.assertIn("container", refused.stderr)


class Proofs(Case):
    """Whoever has really opened a GPU's device controls it; /dev/full stands for that of GPU 0."""

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock"))
        return connection

    def exchange(self, connection, kind, body=b"", fds=()):
        """Sends a message of wire/message.h; returns the answer's type and first number."""
        packet = attacker.message(kind, body)
        socket.send_fds(connection, [packet], fds)
        answer = connection.recv(512)
        return struct.unpack_from("<H", answer, 6)[0], struct.unpack_from("<i", answer, 16)[0]

    def lease(self, connection, gpu=0):
        return self.exchange(connection, 3, struct.pack("<96sIIII", self.uuids[gpu].encode(), 600, 1200, 0, 0))

    def as_alice(self, work):
        """Runs work(connection) in a process of Alice's; what fails there fails here."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgroups([])
                os.setgid(12000)
                os.setuid(ALICE)
                with self.connect() as connection:
                    self.exchange(connection, 1, struct.pack("<I", 0))
                    work(connection)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def start_with_devices(self):
        self.start(f"[gpu {self.uuids[0]}]\ndevice = /dev/full\n")

    def test_f27_a_device_that_was_opened(self):
        def work(connection):
            self.assertEqual(self.lease(connection), (10, -errno.ENOKEY))
            self.assertEqual(self.exchange(connection, 25, fds=[os.open("/dev/full", os.O_RDWR)]), (10, 0))
            self.assertEqual(self.lease(connection)[0], 4)
            self.assertEqual(self.lease(connection, 1), (10, -errno.EACCES))

        self.start_with_devices()
        self.as_alice(work)
        self.assertEqual(self.ask(ALICE).returncode, REFUSED)  # another process has shown nothing

    def test_f27_a_path_is_not_an_opened_device(self):
        def work(connection):
            for name, flags in (("/dev/full", os.O_PATH), ("/dev/full", os.O_RDONLY), ("/dev/full", os.O_WRONLY),
                                ("/dev/null", os.O_RDWR), (self.directory, os.O_RDONLY)):
                self.assertEqual(self.exchange(connection, 25, fds=[os.open(name, flags)]), (10, -errno.EACCES))
            self.assertEqual(self.lease(connection), (10, -errno.ENOKEY))

        self.start_with_devices()
        self.as_alice(work)

    def test_f27_a_job_outranks_a_device(self):
        def work(connection):
            self.assertEqual(self.exchange(connection, 25, fds=[os.open("/dev/full", os.O_RDWR)]), (10, 0))
            self.assertEqual(self.lease(connection), (10, -errno.EACCES))

        self.start_with_devices()
        self.assertEqual(lull("job", "add", "7", "--user", str(BOB), "--gpus", "0").returncode, 0)
        self.as_alice(work)

    def test_f27_descriptors_leave_nothing_behind(self):
        def work(connection):
            readers = []
            for _ in range(3):
                listener = socket.create_server(("127.0.0.1", 0))
                writer = socket.create_connection(listener.getsockname())
                readers.append(listener.accept()[0])
                writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3))
                writer.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        writer.send(bytes(65536))
                packet = attacker.message(25)
                socket.send_fds(connection, [packet], [writer.fileno()])
                writer.close()  # lulld has the last copy, and closing it takes three seconds
            time.sleep(0.1)  # the first is being closed
            begin = time.monotonic()
            for _ in range(20):
                with self.connect() as other:
                    self.exchange(other, 1, struct.pack("<I", 0))
            took_s = time.monotonic() - begin
            self.assertTrue(took_s < 1.0 or took_s < host.slowness(), took_s)  # F42

        self.start_with_devices()
        daemon = self.processes[0].pid
        before = len(os.listdir(f"/proc/{daemon}/fd"))
        self.as_alice(work)
        self.assertIsNotNone(host.wait_for(lambda: len(os.listdir(f"/proc/{daemon}/fd")) <= before, 20.0))

    def test_f42_without_devices_in_the_policy_none_is_taken(self):
        def work(connection):
            with self.assertRaises((PermissionError, struct.error, ConnectionError, BrokenPipeError)):
                self.exchange(connection, 25, fds=[os.open("/dev/full", os.O_RDWR)])

        self.start("[everybody]\ngpus = all\n")
        self.as_alice(work)


class Words(Case):
    def test_f27_who_is_not_let_in_learns_what_helps(self):
        self.start(None)
        refused = lull("status", **as_user(ALICE))
        self.assertEqual(refused.returncode, REFUSED)
        for words in ("Permission denied", "--socket-group", "/etc/lull/policy.conf"):
            self.assertIn(words, refused.stderr)

    def test_f27_without_a_daemon_both_ways_are_told(self):
        absent = lull("status", **as_user(ALICE))
        self.assertEqual(absent.returncode, 1)
        for words in ("systemctl start lulld", "--no-daemon"):
            self.assertIn(words, absent.stderr)

    def test_f29_only_a_whole_uuid_names_a_gpu(self):
        self.start("[everybody]\ngpus = all\n")
        for name in ("0", self.uuids[0][:-1], "MIG-" + self.uuids[0] + "/1/0", self.addresses[0]):
            self.assertEqual(call(TOOL, "rules", "daemon", name, **as_user(ALICE)).returncode, 4, name)


class Jobs(Case):
    def add(self, job, uid, *gpus, options=()):
        done = lull("job", "add", job, "--user", str(uid), "--gpus", ",".join(gpus), *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_f27_a_job_has_its_gpus_alone(self):
        self.start("")
        self.add("7", ALICE, "0")
        self.add("8", BOB, self.addresses[1])
        self.assertEqual(self.ask(ALICE, 0).returncode, 0)
        self.assertEqual(self.ask(ALICE, 1).returncode, REFUSED)
        self.assertEqual(self.ask(BOB, 1).returncode, 0)

    def test_f64_a_job_is_added_whole_or_not_at_all(self):
        daemon = self.start("[everybody]\ngpus = all\n")
        done = lull("job", "add", "7", "--user", str(ALICE), "--gpus", "0,no-such-gpu")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(self.ask(BOB, 0).returncode, 0)
        self.add("9", ALICE, "1")
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # as on a full disk
        done = lull("job", "add", "8", "--user", str(ALICE), "--gpus", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertEqual(self.ask(BOB, 0).returncode, 0)
        self.assertEqual(self.ask(BOB, 1).returncode, REFUSED)
        self.add("8", ALICE, "0")
        self.assertEqual(self.ask(BOB, 0).returncode, REFUSED)

    def listed(self, **options):
        """The jobs that status shows: pairs of id and UUID, how many are hidden, and the text."""
        document = json.loads(lull("status", "--json", **options).stdout)
        return ([(job["id"], job["gpu_uuid"]) for job in document["jobs"]], document["hidden_job_gpus"],
                lull("status", **options).stdout)

    def test_status_shows_jobs_to_those_who_may_see_them(self):
        self.start("[lulld]\nadministrators = 1\n")
        self.assertEqual(self.listed()[:2], ([], 0))
        self.add("7", ALICE, "0", "1", options=["--min-sm-mhz", "600", "--cgroup", "/slurm/job_7"])
        self.add("8", BOB, "1")
        first, second = sorted(self.uuids)
        everything = [("7", first), ("7", second), ("8", self.uuids[1])]
        for options in ({}, as_user(BOB, groups=[1])):  # root, and an administrator
            pairs, hidden, text = self.listed(**options)
            self.assertEqual((pairs, hidden), (everything, 0))
            self.assertIn(f"job 7 of user {ALICE}: {first}, not below 600 MHz, control group /slurm/job_7\n", text)
            self.assertIn(f"job 8 of user {BOB}: {self.uuids[1]}\n", text)
        pairs, hidden, text = self.listed(**as_user(BOB))
        self.assertEqual((pairs, hidden), ([("8", self.uuids[1])], 2))
        self.assertNotIn("job 7", text)
        self.assertIn("2 GPUs belong to jobs of other users", text)
        self.assertEqual(lull("job", "remove", "7").returncode, 0)
        self.assertEqual(self.listed()[:2], ([("8", self.uuids[1])], 0))

    def test_f27_a_process_outside_the_control_group(self):
        self.start("")
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = file.readline().strip().split(":", 2)[2]
        if own == "/":
            own = None  # everything is below it, so only the refusal can be seen
        self.add("7", ALICE, "0", options=["--cgroup", "/lull-test/elsewhere"])
        refused = self.ask(ALICE, 0)
        self.assertEqual(refused.returncode, REFUSED)
        self.assertIn("control group", refused.stderr)
        if own is not None:
            self.add("7", ALICE, "0", options=["--cgroup", own])
            self.assertEqual(self.ask(ALICE, 0).returncode, 0)

    def test_f27_jobs_outlive_a_restart(self):
        daemon = self.start("")
        self.add("7", ALICE, "0")
        self.add("8", BOB, "1")
        daemon.terminate()
        self.assertEqual(daemon.wait(10), 0)
        self.assertEqual(lull("job", "remove", "8").returncode, 0)  # an Epilog while none runs
        self.start("")
        self.assertEqual(self.ask(ALICE, 0).returncode, 0)
        self.assertEqual(self.ask(BOB, 1).returncode, REFUSED)

    def test_f30_an_epilog_with_a_sleeping_client(self):
        self.start("")
        self.add("7", ALICE, "0", "1")
        client = self.hold(ALICE, 1)
        self.assertEqual(lull("job", "remove", "7").returncode, 0)
        self.assertEqual(truth(1), "free")  # when the command returns
        self.assert_revoked(client, 1)
        self.assertEqual(self.ask(ALICE, 1).returncode, REFUSED)
        self.assertEqual(lull("job", "remove", "7").returncode, 0)  # harmless twice

    def test_f30_revoke_by_gpu_job_and_user(self):
        self.start("[everybody]\ngpus = all\n")
        for options in (["--gpu", "0"], ["--gpu", self.addresses[0]], ["--user", str(ALICE)]):
            client, other = self.hold(ALICE, 0), self.hold(BOB, 1)
            self.assertEqual(lull("revoke", *options).returncode, 0)
            self.assert_revoked(client, 0)
            self.assertEqual((other.poll(), truth(1)), (None, "locked"))
            other.kill()
            self.assertIsNotNone(host.wait_restored(lambda: truth(1) == "free", 2.0))
        self.add("7", ALICE, "0")
        client = self.hold(ALICE)
        self.assertEqual(lull("revoke", "--job", "7").returncode, 0)
        self.assert_revoked(client)
        for wrong in (["--gpu", "9"], ["--gpu", "GPU-no"], ["--job", "9"]):
            self.assertIn(lull("revoke", *wrong).returncode, (1, 4), wrong)
        self.assertEqual(lull("revoke").returncode, 2)
        self.assertEqual(lull("revoke", "--user", "no such user").returncode, 2)

    def test_f31_two_jobs_on_one_gpu(self):
        self.start("")
        self.add("7", ALICE, "0")
        client = self.hold(ALICE)
        self.add("8", BOB, "0", options=["--min-sm-mhz", "800"])
        self.assert_revoked(client)
        for uid in (ALICE, BOB):
            refused = self.ask(uid)
            self.assertEqual(refused.returncode, REFUSED)
            self.assertIn("shared", refused.stderr)
        self.write_policy(f"[lulld]\nshared = yes\n[user {ALICE}]\ngpus = all\nmin-sm-mhz = 700\n"
                          "[gpu all]\nmax-sm-mhz = 1000\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.hold(ALICE)
        lease = self.lease()
        self.assertEqual((lease["band_min_mhz"], lease["band_max_mhz"]), (800, 1000))


    def compute(self, uid, gpu=0):
        """A process of a user that computes on a GPU."""
        process = self.spawn(TOOL, "busy", str(gpu), **as_user(uid))
        self.assertEqual(process.stdout.readline(), "busy\n")

    def test_f31_another_user_computes_on_the_gpu(self):
        self.start("[everybody]\ngpus = all\n")
        self.compute(ALICE)
        client = self.hold(ALICE)
        self.compute(BOB)
        self.assert_revoked(client)
        refused = self.ask(ALICE)
        self.assertEqual(refused.returncode, REFUSED)
        self.assertIn(f"uid {BOB}", refused.stderr)
        self.assertEqual(self.ask(ALICE, 1).returncode, 0)
        self.write_policy(f"[lulld]\nshared = yes\n[user {BOB}]\ngpus = all\nmin-sm-mhz = 800\n[everybody]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.hold(ALICE)
        self.assertEqual(self.lease()["band_min_mhz"], 800)


class Reload(Case):
    def test_f37_an_error_changes_nothing(self):
        self.start(f"[user {ALICE}]\ngpus = all\n")
        client = self.hold(ALICE)
        self.write_policy("[lulld]\nshared = no\n[user 1]\ngpu = all\n")
        failed = lull("reload")
        self.assertEqual(failed.returncode, 2)
        self.assertIn(f"{self.policy}:4: gpu: no such key", failed.stderr)
        self.write_policy("")
        os.chmod(self.policy, 0o622)
        self.assertEqual(lull("reload").returncode, REFUSED)
        os.unlink(self.policy)
        self.assertEqual(lull("reload").returncode, 1)
        self.assertIsNone(client.poll())
        self.assertEqual(truth(0), "locked")

    def test_f37_what_a_policy_forbids_is_taken_back(self):
        self.start(f"[user {ALICE}]\ngpus = all\n[user {BOB}]\ngpus = all\n")
        client, other = self.hold(ALICE), self.hold(BOB, 1)
        self.write_policy(f"[user {BOB}]\ngpus = all\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assert_revoked(client)
        self.assertEqual((other.poll(), truth(1)), (None, "locked"))
        self.assertEqual(self.ask(ALICE).returncode, REFUSED)

    def test_f37_a_lower_cap_narrows_leases(self):
        rule = f"[user {ALICE}]\ngpus = all\n"
        self.start(rule)
        client = self.hold(ALICE)
        self.write_policy(rule + "[gpu all]\nmin-sm-mhz = 900\nmax-sm-mhz = 1000\n")
        self.assertEqual(lull("reload").returncode, 0)
        self.assert_revoked(client)
        self.hold(ALICE)
        self.assertEqual((self.lease()["band_min_mhz"], self.lease()["band_max_mhz"]), (900, 1000))
        self.assertEqual(lull("reload").returncode, 0)  # it fits now, and stays
        self.assertEqual(truth(0), "locked")

    def test_a_policy_between_two_clocks_refuses(self):
        """Whatever clock were set would be outside: the GPU has 900 and 915 MHz."""
        self.start(f"[user {ALICE}]\ngpus = all\n[gpu all]\nmin-sm-mhz = 901\nmax-sm-mhz = 909\n")
        self.assertEqual(self.ask(ALICE).returncode, REFUSED)

    def test_viewers_see_runs_from_the_next_one_on(self):
        """The group is told to governors, whose runs open to it; without it they are private."""
        shown = r"""
import os, time
for _ in range(600):
    mine = [f for f in os.listdir("/dev/shm") if f.startswith(f"lull-live-{os.getppid()}-")]
    if mine:
        break
    time.sleep(0.1)
print(oct(os.stat("/dev/shm/" + mine[0]).st_mode & 0o777), "system.posix_acl_access" in os.listxattr("/dev/shm/" + mine[0]))
"""
        self.start("[lulld]\nviewers = 12345\n")

        def run():
                return call(os.path.abspath(LULL), "run", "--", sys.executable, "-c", shown, cwd=self.directory).stdout.strip()

        self.assertEqual(run(), "0o640 True")
        self.write_policy("")
        self.assertEqual(lull("reload").returncode, 0)
        self.assertEqual(run(), "0o600 False")

    def test_f37_the_example_is_a_policy(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        with open(os.path.join(root, "packaging", "policy.conf"), encoding="utf-8") as file:
            text = file.read()
        self.start(text)
        self.assertEqual(self.ask(ALICE).returncode, REFUSED)
        with_all = re.sub(r"(?m)^#(?=\S)", "", text)  # what it only proposes; its names are of no host
        self.write_policy(re.sub(r"\b(gpu-admins|lull-viewers|ml|alice)\b", "1", with_all))
        reloaded = lull("reload")
        self.assertEqual(reloaded.returncode, 0, reloaded.stderr)

    def check(self, *options):
        return call(LULLD, "--check", "--policy", self.policy, *options)

    def test_check_prints_all_errors(self):
        self.write_policy("[user 1]\ngpu = all\n[lulld]\nshared = 1\n")
        checked = self.check()
        self.assertEqual((checked.returncode, checked.stdout), (1, ""))
        places = [line.partition(": ")[0] for line in checked.stderr.splitlines()]
        self.assertEqual(places, [f"{self.policy}:2", f"{self.policy}:1", f"{self.policy}:4", self.policy])
        self.assertIn(f"{self.policy}:4: shared: must be yes or no, not \"1\"\n", checked.stderr)
        self.assertIn(": errors: 3; ", checked.stderr)

    def test_check_of_a_good_and_of_no_policy(self):
        self.write_policy("[user 1]\ngpus = all\n[gpu all]\nmin-sm-mhz = 600\n")
        checked = self.check()
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertIn(f"{self.policy}: no errors; sections about users, groups and GPUs: 2", checked.stdout)
        os.chmod(self.policy, 0o622)
        checked = self.check()
        self.assertEqual(checked.returncode, 1)
        self.assertIn("chmod go-w", checked.stderr)
        os.unlink(self.policy)
        self.assertEqual(self.check().returncode, 1)
        checked = call(LULLD, "--check")  # the default policy may be missing
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertEqual(os.listdir(os.environ["LULL_RUNTIME_DIR"]) if os.path.exists(os.environ["LULL_RUNTIME_DIR"]) else [], [])

    def test_f37_lulld_does_not_start_with_an_error(self):
        self.write_policy("[nonsense]\n")
        daemon = call(LULLD, "--policy", self.policy)
        self.assertEqual(daemon.returncode, 2)
        self.assertIn(f"{self.policy}:1: [", daemon.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
