#!/usr/bin/env python3
"""`lull restore` and the start of lulld on an emulated node: faults F45, F46 and F50.

Run as: lull emulate SPEC -- test_restore.py LULLD TOOL LULL. An administrator is played by calls of the
driver's library. SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Administrator:
    """What `nvidia-smi -lgc` and `-pl` do."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        assert self.nvml.nvmlInit_v2() == 0
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def lock(self, mhz):
        assert self.nvml.nvmlDeviceSetGpuLockedClocks(self.device, mhz, mhz) == 0

    def reset(self):
        assert self.nvml.nvmlDeviceResetGpuLockedClocks(self.device) == 0

    def set_limit(self, watts):
        assert self.nvml.nvmlDeviceSetPowerManagementLimit(self.device, watts * 1000) == 0

    def limit(self):
        limit_mw = ctypes.c_uint()
        assert self.nvml.nvmlDeviceGetPowerManagementLimit(self.device, ctypes.byref(limit_mw)) == 0
        return limit_mw.value // 1000

    def clock(self):
        mhz = ctypes.c_uint()
        assert self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(mhz)) == 0
        return mhz.value


ADMINISTRATOR = Administrator()


def is_locked():
    return call(TOOL, "truth", "0").stdout.strip() == "locked"


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-restore-")
        self.runtime = os.path.join(self.directory, "run")
        os.environ["LULL_RUNTIME_DIR"] = self.runtime
        self.processes = []
        self.uuid = json.loads(call(LULL, "gpus", "--json").stdout)["gpus"][0]["uuid"]

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()
        ADMINISTRATOR.reset()
        ADMINISTRATOR.set_limit(400)
        host.remove(self.directory)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def start_daemon(self, *options):
        return host.start_lulld(self.spawn, LULLD, *options)

    def start_busy(self):
        work = self.spawn(TOOL, "busy", "0")
        self.assertIsNotNone(host.wait_for(lambda: ADMINISTRATOR.clock() > 1200, 4.0))
        return work

    def die_low(self):
        """A process that is killed while GPU 0 is locked at 900 MHz."""
        client = self.spawn(TOOL, "hold", "local", self.uuid, "900")
        lowered = client.stdout.readline()
        client.kill()
        client.wait()
        self.assertTrue(is_locked(), lowered)

    def wait_clock(self, mhz):
        self.assertIsNotNone(host.wait_for(lambda: ADMINISTRATOR.clock() == mhz, 4.0))

    def files(self, name):
        return os.listdir(os.path.join(self.runtime, name))


class Restore(Case):
    def test_f45_what_others_lock_between_crash_and_restart_stays(self):
        self.start_busy()
        self.die_low()
        self.wait_clock(900)
        time.sleep(0.2)  # what comes within 0.1 s of Lull's own writing cannot be told from it
        ADMINISTRATOR.lock(600)
        self.wait_clock(600)
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("another program", outcome.stderr)
        self.assertTrue(is_locked())
        self.assertEqual(ADMINISTRATOR.clock(), 600)
        self.assertEqual(self.files("saved"), [])

    def test_f45_the_own_lock_is_undone_on_a_busy_gpu(self):
        self.start_busy()
        self.die_low()
        self.wait_clock(900)
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("1 GPUs are restored", outcome.stderr)
        self.assertFalse(is_locked())
        self.assertEqual(self.files("saved") + self.files("unconfirmed"), [])

    def test_f46_an_idle_reset_without_effect_is_unconfirmed_and_repeated(self):
        self.die_low()
        call(TOOL, "fault", "0:no_effect=1x1")
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("unconfirmed", outcome.stderr)
        self.assertIn("0 GPUs are restored", outcome.stderr)
        self.assertTrue(is_locked())
        self.assertEqual(len(self.files("unconfirmed")), 1)
        daemon = self.start_daemon()
        self.spawn(TOOL, "busy", "0")
        self.assertIsNotNone(host.wait_restored(lambda: not is_locked(), 10.0), "still locked when busy")
        self.assertIsNotNone(host.wait_for(
            lambda: self.files("saved") + self.files("unconfirmed") == [], 10.0))
        daemon.terminate()
        self.assertEqual(daemon.wait(10), 0)

    def test_lulld_names_the_error_of_the_driver_that_refuses(self):
        """The lease has failed often before it ends, and its end is answered all the same."""
        self.start_busy()
        self.start_daemon()
        client = self.spawn(TOOL, "hold", "daemon", self.uuid, "900")
        client.stdout.readline()
        self.wait_clock(900)
        call(TOOL, "fault", "0:set_code=999x12")
        client.kill()
        time.sleep(0.3)
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        self.assertIn("GPU 0: cannot reset the SM clock: unknown error of the driver (NVML 999)", outcome.stderr)
        self.assertNotIn("does not answer", outcome.stderr)
        self.assertIsNotNone(host.wait_restored(lambda: not is_locked(), 20.0), "still locked")

    def test_f46_a_damaged_journal_is_no_success(self):
        self.start_busy()
        self.die_low()
        ADMINISTRATOR.set_limit(150)
        path = os.path.join(self.runtime, "saved", "gpu-" + self.uuid)
        with open(path, "r+b") as file:
            file.truncate(100)
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("150 W", outcome.stderr)
        self.assertFalse(is_locked())
        self.assertEqual(ADMINISTRATOR.limit(), 150)
        self.assertEqual(self.files("saved"), ["gpu-" + self.uuid + ".aside"])
        outcome = call(LULL, "restore", "--force")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(ADMINISTRATOR.limit(), 400)

    def test_f38_a_journal_of_another_version(self):
        self.start_busy()
        self.die_low()
        path = os.path.join(self.runtime, "saved", "gpu-" + self.uuid)
        with open(path, "r+b") as file:
            file.seek(8)
            version = file.read(4)
            file.seek(8)
            file.write(bytes([version[0] + 1]) + version[1:])
        outcome = call(LULL, "restore")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)  # the power limit is the default: nothing is lost
        self.assertIn("another version", outcome.stderr)
        self.assertIn("1 GPUs are restored\n", outcome.stderr)  # it is busy, so the reset is seen
        self.assertFalse(is_locked())  # by a reset, since the state before is unknown
        self.assertEqual(self.files("saved"), ["gpu-" + self.uuid + ".aside"])

    def test_f50_a_lost_runtime_directory(self):
        self.start_busy()
        self.die_low()
        ADMINISTRATOR.set_limit(150)
        shutil.rmtree(self.runtime)
        self.assertEqual(call(LULL, "restore").returncode, 0)
        self.assertTrue(is_locked())  # nothing says what to undo
        self.start_daemon("--reset-at-start")
        self.assertFalse(is_locked())
        self.assertEqual(ADMINISTRATOR.limit(), 400)
        refused = call(LULL, "restore", "--force")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--reset-at-start", refused.stderr)

    def test_f50_another_directory_does_not_make_a_second_writer(self):
        self.start_daemon()
        other = os.path.join(self.directory, "other")
        second = call(LULLD, "-r", other)
        self.assertEqual(second.returncode, 1)
        self.assertIn("drives this GPU already", second.stderr)
        restore = call(LULL, "restore", "--force", "--runtime-dir", other)
        self.assertEqual(restore.returncode, 1)
        self.assertIn("drives this GPU already", restore.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
