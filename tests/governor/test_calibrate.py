#!/usr/bin/env python3
"""lull calibrate on an emulated node: what it finds is what the node was made with, and nothing stays lowered.

Run as: lull emulate --seed 0 2xA100-SXM4-40GB -- test_calibrate.py LULL LULLD TOOL SOURCE_ROOT. Times are compared
with the model's own; the upper bounds are wide, since these machines are shared.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, TOOL = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SOURCE_ROOT = sys.argv.pop(1)
MODEL = "A100-SXM4-40GB"


def truth():
    with open(os.path.join(SOURCE_ROOT, "data/gpu_models.json"), encoding="utf-8") as file:
        return json.load(file)["gpus"][MODEL]["latency"]


class Calibrate(unittest.TestCase):
    def setUp(self):
        holder = host.Directory()
        self.addCleanup(holder.cleanup)
        self.directory = holder.name
        self.environment = dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.directory, "run"),
                                LULL_STATE_DIR=os.path.join(self.directory, "state"))

    def tearDown(self):
        for gpu in range(2):
            seen = subprocess.run([TOOL, "truth", str(gpu)], capture_output=True, text=True, check=True)
            self.assertEqual(seen.stdout.strip(), "free")

    def command(self, *arguments):
        return [LULL, "calibrate", *arguments]

    def calibrate(self, *arguments):
        return subprocess.run(self.command(*arguments), env=self.environment, capture_output=True, text=True,
                              check=False, timeout=100)

    def stored(self):
        """The one file of the state directory, which stands apart from what is learnt on hardware."""
        self.assertEqual(os.listdir(self.environment["LULL_STATE_DIR"]), ["emulated"])
        directory = os.path.join(self.environment["LULL_STATE_DIR"], "emulated")
        (name,) = os.listdir(directory)
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            return json.load(file)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_daemon(self):
        return host.start_lulld(self.spawn, LULLD)

    def check_switches(self, switches, rounds):
        expected = truth()
        self.assertEqual((switches["count"], switches["never_settled"]), (rounds, 0))
        self.assertEqual((len(switches["call_ms"]), len(switches["settle_ms"])), (rounds, rounds))
        self.assertGreaterEqual(min(switches["call_ms"]), expected["api_clip_ms"][0] - 0.1)
        self.assertLess(switches["call"]["p50_ms"], 3 * expected["api_ms_median"])
        self.assertGreater(switches["settle"]["p50_ms"], 0.4 * expected["settle_ms_median"])
        self.assertLess(switches["settle"]["p50_ms"], 3 * expected["settle_ms_median"])
        for which in ("call", "settle"):
            quantiles = [switches[which][name] for name in ("p50_ms", "p90_ms", "p99_ms")]
            self.assertEqual(quantiles, sorted(quantiles))

    def test_one_gpu_with_a_command(self):
        done = self.calibrate("--no-daemon", "--json", "--gpu", "0", "--rounds", "8", "--", TOOL, "busy", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        (gpu,) = json.loads(done.stdout)["gpus"]
        self.assertEqual((gpu["index"], gpu["reference_sm_mhz"], gpu["together"]), (0, 1410, None))
        self.assertEqual([target["sm_mhz"] for target in gpu["targets"]], [1110, 810, 510, 210])
        for target in gpu["targets"]:
            for direction in ("down", "up"):
                self.check_switches(target[direction], 8)
        del gpu["index"]
        self.assertEqual(self.stored(), gpu)
        self.assertIn("stored in " + self.environment["LULL_STATE_DIR"] + "/emulated/", done.stderr)
        self.assertEqual(os.listdir(os.path.join(self.environment["LULL_RUNTIME_DIR"], "saved")), [])

    def test_two_gpus_through_the_daemon(self):
        for gpu in range(2):
            self.spawn(TOOL, "busy", str(gpu))
        daemon = self.start_daemon()
        time.sleep(0.3)  # until both are at work
        done = self.calibrate("--rounds", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1410 ->   210 MHz", done.stdout)
        self.assertIn("Time to request a clock of all 2 GPUs at once", done.stdout)
        record = self.stored()
        self.assertEqual(record["together"]["gpus"], 2)
        self.assertEqual(len(record["together"]["call_ms"]), 4)
        # The driver takes one call at a time.
        self.assertGreater(min(record["together"]["call_ms"]), 2 * truth()["api_clip_ms"][0] - 0.1)
        for target in record["targets"]:
            self.assertEqual((target["down"]["count"], target["up"]["count"]), (8, 8))
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0)

    def test_an_idle_gpu_is_not_measured(self):
        done = self.calibrate("--no-daemon", "--rounds", "2")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("idle", done.stderr)
        self.assertIn("lull calibrate -- COMMAND", done.stderr)
        self.assertFalse(os.path.exists(self.environment["LULL_STATE_DIR"]))

    def test_a_command_that_ends_early(self):
        done = self.calibrate("--no-daemon", "--gpu", "0", "--", "timeout", "1", TOOL, "busy", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("timeout has ended (status 124)", done.stderr)
        done = self.calibrate("--no-daemon", "--gpu", "0", "--", "no-such-command")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-command", done.stderr)

    @staticmethod
    def heeds(pid, number):
        """Whether a process has begun to do what it does on a signal."""
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigCgt:", "SigBlk:"))]
        return any(mask >> (number - 1) & 1 for mask in masks)

    def interrupt(self, *options, after=2, number=signal.SIGINT):
        """What is stored of GPU 0 when a calibration with many rounds is stopped."""
        process = subprocess.Popen(self.command("--no-daemon", "--rounds", "60", *options, "--", TOOL, "busy", "0"),
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIsNotNone(host.wait_for(lambda: self.heeds(process.pid, number), 20))
        time.sleep(after)
        process.send_signal(number)
        output, messages = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + number)
        self.assertIn("interrupted", messages)
        return output

    def test_interrupted_in_the_middle(self):
        output = self.interrupt("--gpu", "0", after=4)
        self.assertIn("1410 ->   210 MHz", output)
        first = self.stored()
        counts = {target[direction]["count"] for target in first["targets"] for direction in ("down", "up")}
        self.assertEqual(len(counts), 1, "a round was kept in part")
        self.assertIn(counts.pop(), range(1, 60))
        # One that was stopped earlier does not take its place.
        self.interrupt("--gpu", "0", after=0.1, number=signal.SIGTERM)
        self.assertEqual(self.stored(), first)

    def test_idle_gpus_are_left_out(self):
        done = self.calibrate("--no-daemon", "--json", "--rounds", "2", "--", TOOL, "busy", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual([gpu["index"] for gpu in document["gpus"]], [1])
        self.assertEqual([gpu["index"] for gpu in document["left_out"]], [0])
        self.assertIn("left out: GPU 0 is idle", done.stderr)
        self.assertIsNone(document["gpus"][0]["together"])

    def test_leased_gpus_are_left_out(self):
        daemon = self.start_daemon()
        uuids = [gpu["uuid"] for gpu in json.loads(subprocess.check_output([LULL, "gpus", "--json"]))["gpus"]]
        holder = self.spawn(TOOL, "hold", "daemon", uuids[0], "900")
        self.spawn(TOOL, "busy", "1")

        def is_held():
            return subprocess.check_output([TOOL, "truth", "0"], text=True).strip() == "locked"

        self.assertIsNotNone(host.wait_for(is_held, 10))
        done = self.calibrate("--rounds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out: GPU 0: leased by another client", done.stderr)
        self.assertNotIn("GPU 0  ", done.stdout)
        self.assertEqual(self.stored()["targets"][0]["down"]["count"], 2)
        holder.kill()
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0)

    def test_bad_usage(self):
        for arguments, status in ((["--rounds", "0"], 2), (["--rounds", "65"], 2), (["--gpu", "x"], 2),
                                  (["--gpu", "2"], 4)):
            self.assertEqual(self.calibrate(*arguments).returncode, status, arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
