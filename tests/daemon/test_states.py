#!/usr/bin/env python3
"""lulld when a GPU or its driver changes under it, on an emulated node of two GPUs.

Run as: lull emulate SPEC -- test_states.py LULLD TOOL LULL DRIVER SHORT_MINUTE. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL, DRIVER, SHORT_MINUTE = sys.argv[1:6]
NODELETE = 0x8  # in DT_FLAGS_1


def call(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def truth(gpu):
    return call(TOOL, "truth", str(gpu)).stdout.strip()


def gpus():
    return json.loads(call(LULL, "status", "--json").stdout)["gpus"]


def states():
    return [gpu["state"] for gpu in gpus()]


def copy_driver(path, is_unloadable=False):
    """Copies the emulated driver, at will without the mark that keeps it loaded after dlclose(), which the vendor's
    lacks."""
    with open(DRIVER, "rb") as file:
        library = bytearray(file.read())
    headers, size, count = struct.unpack_from("<Q14xHH", library, 32)
    for header in range(headers, headers + size * count * is_unloadable, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", library, header)
        if kind != 2:  # PT_DYNAMIC
            continue
        for entry in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", library, entry)
            if tag == 0x6ffffffb:
                struct.pack_into("<QQ", library, entry, tag, value & ~NODELETE)
    with open(path + ".new", "wb") as file:
        file.write(library)
    os.rename(path + ".new", path)


class States(unittest.TestCase):
    driver_is_there = True
    is_unloadable = False

    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory.name, "run")
        self.driver = os.path.join(self.directory.name, "driver.so")
        os.environ["LULL_NVML"] = self.driver
        os.environ["LULL_VENDOR"] = "nvidia"  # there are emulated libraries of the others as well
        self.processes = []
        self.addCleanup(self.end)
        if self.driver_is_there:
            copy_driver(self.driver, self.is_unloadable)
        self.log = open(os.path.join(self.directory.name, "log"), "w+")
        self.addCleanup(self.log.close)
        self.daemon = self.start()

    def start(self, **options):
        return host.start_lulld(self.spawn, LULLD, stderr=self.log, **options)

    def end(self):
        host.stop_all(self.processes)

    def stop(self, status=0):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(30), status, self.said())

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def said(self):
        with open(self.log.name) as log:
            return log.read()

    def hold(self, gpu, status="status=0"):
        client = self.spawn(TOOL, "hold", "daemon", gpus()[gpu]["uuid"], "900")
        self.assertIn(status, client.stdout.readline(), self.said())
        return client

    def await_states(self, *wanted, limit_s=20.0):
        taken_s = host.wait_for(lambda: states() == list(wanted), limit_s, 0.02)
        self.assertIsNotNone(taken_s, f"{states()} instead of {wanted}\n{self.said()}")
        return taken_s

    def await_truth(self, gpu, wanted, limit_s=20.0):
        wait = host.wait_restored if wanted == "free" else host.wait_for
        taken_s = wait(lambda: truth(gpu) == wanted, limit_s, 0.02)
        self.assertIsNotNone(taken_s, f"GPU {gpu} is not {wanted}\n{self.said()}")
        return taken_s

    def refused(self, gpu):
        """The sentence with which a lease is refused."""
        answer = call(TOOL, "hold", "daemon", gpus()[gpu]["uuid"], "900")
        self.assertNotEqual(answer.returncode, 0)
        return answer.stderr

    def open_files(self):
        """What the daemon has open of the driver."""
        with open(f"/proc/{self.daemon.pid}/maps") as maps:
            found = [line for line in maps if self.driver in line]
        folder = f"/proc/{self.daemon.pid}/fd"
        links = [os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)]
        node = os.environ["LULL_EMULATED_NODE"]
        return found + [link for link in links if node in link or self.driver in link]


class Gpus(States):
    def test_f07_a_lost_gpu_costs_itself_alone(self):
        victim, other = self.hold(0), self.hold(1)
        call(TOOL, "fault", "0:lost_ms=4000x1")
        noticed_s = self.await_states("LOST", "UP")
        self.assertEqual(victim.wait(20), 1)  # its lease was revoked
        self.assertIn("GPU 0: lease revoked: the GPU is lost", self.said())
        self.assertIn("(LOST)", self.refused(0))
        self.assertEqual(truth(1), "locked")
        self.assertIsNone(other.poll())
        back_s = self.await_states("UP", "UP", limit_s=60.0)
        self.await_truth(0, "free")
        asked = self.said().count("NVML 15")
        print(f"lost: noticed after {noticed_s:.2f} s, found again {back_s:.2f} s later, {asked} failures logged")
        self.assertLessEqual(asked, 3)  # the loss, and the first failure of the raising
        self.hold(0)
        self.stop()

    def test_f08_an_xid_is_counted(self):
        client = self.hold(0)
        call(TOOL, "fault", "0:xid=31x2")
        self.assertIsNotNone(host.wait_for(lambda: gpus()[0]["xids"] == 2, 20.0), self.said())
        call(TOOL, "fault", "0:xid=62x1")
        self.assertIsNotNone(host.wait_for(lambda: gpus()[0]["xids"] == 3, 20.0), self.said())
        self.assertEqual(gpus()[0]["last_xid"], 62)
        self.assertEqual((gpus()[1]["xids"], gpus()[1]["last_xid"]), (0, None))
        self.assertIn("3 XIDs, the last was 62", call(LULL, "status").stdout)
        self.assertEqual(states(), ["UP", "UP"])
        self.assertIsNone(client.poll())
        self.stop()

    def test_f12_a_reloaded_driver_is_opened_again(self):
        alive, dead = self.hold(0), self.hold(1)
        call(TOOL, "fault", "0:reload_ms=1500x1")
        self.await_states("LOST", "LOST")
        dead.kill()
        self.assertIn("driver", self.refused(0))
        away_s = self.await_states("UP", "UP", limit_s=60.0)
        again_s = self.await_truth(0, "locked")
        print(f"reload: away for {away_s:.2f} s more; the living lease's clock is back {again_s:.2f} s later")
        self.assertEqual(truth(1), "free")
        self.assertIsNone(alive.poll())
        self.assertIn("the driver is there again", self.said())
        self.stop()

    def test_f14_mig_ends_a_lease(self):
        client = self.hold(0)
        call(TOOL, "fault", "0:mig=2x1")
        self.assertEqual(client.wait(20), 1)
        self.await_truth(0, "free")
        self.assertIn("lease revoked: its MIG partitions were changed", self.said())
        self.assertIn("only advice", self.refused(0))
        self.assertTrue(gpus()[0]["mig"])
        self.assertIn("only gives advice", call(TOOL, "hold", "daemon", "MIG-1234", "900").stderr)
        call(TOOL, "fault", "0:mig=0x1")
        self.assertIsNotNone(host.wait_for(lambda: not gpus()[0]["mig"], 20.0))
        self.hold(0)
        self.stop()

    def test_f39_status_is_answered_while_a_gpu_hangs(self):
        client = self.hold(0)
        call(TOOL, "fault", "0:read_hang_ms=600000x1")
        self.await_states("SUSPECT", "UP")
        self.assertIn("(SUSPECT)", self.refused(0))
        slowest_s, ages = 0.0, []
        for _ in range(20):
            begin = time.monotonic()
            ages.append(gpus()[0]["age_s"])
            slowest_s = max(slowest_s, time.monotonic() - begin)
            time.sleep(0.1)
        print(f"status beside a hung GPU: at most {slowest_s * 1e3:.0f} ms, with the start of a process")
        self.assertLess(slowest_s, 0.5 * host.slowness())
        self.assertTrue(all(later > age for age, later in zip(ages, ages[1:])), ages)
        self.assertIsNone(client.poll())
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(30), 1)


class Quiesced(States):
    is_unloadable = True

    def setUp(self):
        # An emulated driver that is unloaded forgets its node, which the sanitizer takes for the daemon's leak.
        usual = os.environ.get("ASAN_OPTIONS", "")
        os.environ["ASAN_OPTIONS"] = usual + ":detect_leaks=0"
        self.addCleanup(os.environ.__setitem__, "ASAN_OPTIONS", usual)
        super().setUp()

    def test_f13_a_quiesced_driver_is_closed(self):
        clients = [self.hold(0), self.hold(1)]
        self.assertNotEqual(self.open_files(), [])
        begin = time.monotonic()
        quiesce = call(LULL, "quiesce")
        taken_s = time.monotonic() - begin
        self.assertEqual(quiesce.returncode, 0, quiesce.stderr + self.said())
        self.assertEqual(self.open_files(), [])
        self.assertEqual(states(), ["QUIESCED", "QUIESCED"])
        self.assertEqual([truth(0), truth(1)], ["free", "free"])
        self.assertEqual([client.wait(20) for client in clients], [1, 1])
        self.assertIn("quiesced by the administrator", self.refused(0))
        self.assertLess(taken_s, 1.0 * host.slowness())
        begin = time.monotonic()
        resume = call(LULL, "resume")
        print(f"quiesced after {taken_s:.3f} s, resumed after {time.monotonic() - begin:.3f} s")
        self.assertEqual(resume.returncode, 0, resume.stderr + self.said())
        self.assertEqual(states(), ["UP", "UP"])
        self.hold(0)
        self.stop()

    def test_f13_one_gpu_is_quiesced(self):
        self.hold(0)
        other = self.hold(1)
        self.assertEqual(call(LULL, "quiesce", gpus()[0]["uuid"]).returncode, 0)
        self.assertEqual(states(), ["QUIESCED", "UP"])
        self.assertEqual([truth(0), truth(1)], ["free", "locked"])
        self.assertIsNone(other.poll())
        self.assertEqual(call(LULL, "quiesce", "2").returncode, 2)
        self.assertEqual(call(LULL, "resume", "0").returncode, 0)
        self.hold(0)
        self.stop()


class PowerLoss(States):
    def kill_all(self, client):
        """Ends lulld, its keeper and the client at once."""
        with open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children") as children:
            keepers = [int(pid) for pid in children.read().split()]
        self.assertEqual(len(keepers), 1)
        os.kill(keepers[0], signal.SIGSTOP)
        os.kill(self.daemon.pid, signal.SIGKILL)
        os.kill(keepers[0], signal.SIGKILL)
        client.kill()
        self.daemon.wait(20)

    def date_back(self):
        """Changes the boot that the one record names, and its checksum, as journal.c has them."""
        folder = os.path.join(os.environ["LULL_RUNTIME_DIR"], "saved")
        (name,) = os.listdir(folder)
        with open(os.path.join(folder, name), "rb") as file:
            record = bytearray(file.read())
        record[16] ^= 1
        checksum = 14695981039346656037
        for byte in record[:344]:
            checksum = (checksum ^ byte) * 1099511628211 % 2 ** 64
        record[344:352] = struct.pack("<Q", checksum)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(record)
        return folder

    def test_f06_a_host_that_has_lost_power_has_nothing_to_undo(self):
        client = self.hold(0)
        self.kill_all(client)
        self.assertEqual(truth(0), "locked")
        folder = self.date_back()
        call(TOOL, "fault", "0:reload_ms=1x1")  # the clocks vanish with the power
        call(LULL, "gpus")
        self.assertEqual(truth(0), "free")
        self.daemon = self.start()
        self.assertIn("of an earlier boot, which has undone it; dropped", self.said())
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(gpus()[0]["writes"], 0)
        self.hold(0)
        self.stop()


class Absent(States):
    driver_is_there = False

    def test_f11_a_service_without_a_driver_ends_after_a_minute(self):
        # systemd resolves the device groups of a unit when it starts it, so it has to start it again. A daemon that
        # is not restarted continues, as does one whose driver comes in time.
        minute = dict(os.environ, LD_PRELOAD=SHORT_MINUTE)
        service = dict(minute, NOTIFY_SOCKET=os.path.join(self.directory.name, "nobody"))
        self.stop()
        daemon = self.start(env=service)
        self.assertIsNotNone(host.wait_for(lambda: daemon.poll() is not None, 10.0, 0.05), self.said())
        self.assertEqual(daemon.returncode, 4, self.said())
        self.assertIn("no driver for a minute: exiting", self.said())
        self.daemon = self.start(env=minute)
        time.sleep(2.2)
        self.assertIsNone(self.daemon.poll())
        self.stop()
        self.daemon = self.start(env=service)
        copy_driver(self.driver)
        self.assertIsNotNone(host.wait_for(lambda: call(LULL, "status").returncode == 0, 90.0, 0.05), self.said())
        time.sleep(2.2)
        self.assertIsNone(self.daemon.poll())
        self.stop()

    def test_f11_the_driver_comes_after_lulld(self):
        status = call(LULL, "status")
        self.assertEqual(status.returncode, 4, status.stderr)
        # The file is named as soon as it has been looked for from within.
        self.assertIsNotNone(host.wait_for(lambda: self.driver in call(LULL, "status").stderr, 10.0, 0.05))
        listed = call(LULL, "gpus")
        self.assertEqual(listed.returncode, 4, listed.stderr)
        self.assertIn(self.driver, listed.stderr)
        copy_driver(self.driver)
        there_s = host.wait_for(lambda: call(LULL, "status").returncode == 0, 90.0, 0.05)
        self.assertIsNotNone(there_s, self.said())
        print(f"the driver is found after {there_s:.2f} s")
        self.hold(1)
        self.stop()
        self.assertEqual(truth(1), "free")


unittest.main(argv=sys.argv[:1], verbosity=2)
