#!/usr/bin/env python3
"""lulld beside a GPU whose driver calls do not return (F10), on an emulated node of two GPUs.

Run as: lull emulate SPEC -- test_hang.py LULLD TOOL LULL. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def truth(gpu):
    return call(TOOL, "truth", str(gpu)).stdout.strip()


def states():
    return [gpu["state"] for gpu in json.loads(call(LULL, "status", "--json").stdout)["gpus"]]


class HungGpu(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lulld-hang-")
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory, "run")
        self.processes = []
        uuids = [gpu["uuid"] for gpu in json.loads(call(LULL, "gpus", "--json").stdout)["gpus"]]
        self.daemon = host.start_lulld(self.spawn, LULLD)
        self.clients = [self.spawn(TOOL, "hold", "daemon", uuid, "900") for uuid in uuids]
        for client in self.clients:
            self.assertIn("status=0", client.stdout.readline())

    def tearDown(self):
        host.stop_all(self.processes)
        self.assertEqual(call(LULL, "restore").returncode, 0)
        self.assertEqual([truth(0), truth(1)], ["free", "free"])
        host.remove(self.directory)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def check(self, fault):
        """GPU 0 hangs for good; the daemon must serve GPU 1, answer, heed the administrator and end."""
        call(TOOL, "fault", fault)
        self.clients[0].kill()
        time.sleep(0.02)  # the call for GPU 0 has begun, or begins beside that for GPU 1
        self.clients[1].kill()
        free_s = host.wait_restored(lambda: truth(1) == "free", 5.0)
        self.assertIsNotNone(free_s, "GPU 1 is not raised beside a hung GPU 0")
        self.assertIsNotNone(host.wait_for(lambda: states() == ["SUSPECT", "UP"], 20.0), states())
        begin = time.monotonic()
        restore = call(LULL, "restore")
        restore_s = time.monotonic() - begin
        self.assertEqual(restore.returncode, 1, restore.stderr)
        self.assertIn("not every GPU could be restored", restore.stderr)
        begin = time.monotonic()
        self.daemon.terminate()
        self.daemon.wait(30)
        print(f"{fault}: GPU 1 free after {free_s * 1e3:.0f} ms (with the time of a look at it); "
              f"restore answers after {restore_s:.2f} s, stop after {time.monotonic() - begin:.2f} s")
        self.assertEqual(self.daemon.returncode, 1)

    def test_f10_a_set_that_hangs(self):
        self.check("0:hang_ms=600000x1")

    def test_f10_a_reading_that_hangs(self):
        self.check("0:read_hang_ms=600000x1")


unittest.main(argv=sys.argv[:1], verbosity=2)
