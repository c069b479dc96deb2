# SPDX-License-Identifier: Apache-2.0
"""lull meter --windows and lull limit hold: what they answer, line by line. Runs on an emulated node of two A100.

usage: test_answers.py LULL"""
import json
import os
import random
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Lines:
    def __init__(self, *words, **variables):
        self.process = subprocess.Popen([LULL, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=dict(os.environ, **variables))
        self.greeting = self.read()

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode() + b"\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        """The exit status and the messages."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        err = self.process.stderr.read().decode()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return self.process.wait(), err


def gpus():
    return json.loads(subprocess.run([LULL, "gpus", "--json"], stdout=subprocess.PIPE, check=True).stdout)["gpus"]


class Meter(unittest.TestCase):
    def start(self, **variables):
        meter = Lines("meter", "--windows", **variables)
        self.addCleanup(meter.process.kill)
        return meter

    def test_windows(self):
        meter = self.start()
        self.assertEqual([gpu["index"] for gpu in meter.greeting["gpus"]], [0, 1])
        before, begin = [gpu["energy_j"] for gpu in gpus()], time.monotonic()
        self.assertEqual(meter.ask("begin"), {"window": 0})
        self.assertEqual(meter.ask("begin"), {"window": 1})
        time.sleep(2.3)
        outer = meter.ask("end 0")
        self.assertTrue(2.3 <= outer["seconds"] <= time.monotonic() - begin, outer)
        after = [gpu["energy_j"] for gpu in gpus()]
        for gpu, first, last in zip(outer["gpus"], before, after):
            # Between two readings of the counter, which is up to 0.1 s old, by a program that is started for each.
            self.assertLessEqual(gpu["energy_j"], (last - first) + gpu["uncertainty_j"])
            self.assertGreaterEqual(gpu["energy_j"], 2.3 * 40)
            self.assertLess(gpu["uncertainty_j"], 0.1 * gpu["energy_j"])
            self.assertIsNone(gpu["reason"])
        inner = meter.ask("end 1")
        self.assertGreater(inner["gpus"][0]["energy_j"], outer["gpus"][0]["energy_j"])
        self.assertEqual(meter.end(), (0, ""))

    def test_a_window_ends_once(self):
        meter = self.start()
        number = meter.ask("begin")["window"]
        self.assertEqual(meter.ask(f"cancel {number}"), {"window": number})
        for line in (f"cancel {number}", f"end {number}", "end 77", "end 9223372036854775807"):
            self.assertEqual(meter.ask(line), {"error": "no such window is open"})
        self.assertEqual(meter.end()[0], 0)

    def test_too_many_windows(self):
        meter = self.start()
        answers = [meter.ask("begin") for _ in range(1025)]
        self.assertEqual([answer.get("window") for answer in answers], [*range(1024), None])
        meter.ask("cancel 5")
        self.assertEqual(meter.ask("begin"), {"window": 1024})
        self.assertEqual(meter.end()[0], 0)

    def test_any_text_is_answered_and_disturbs_no_window(self):
        seed = int(os.environ.get("LULL_TEST_SEED", random.randrange(1 << 32)))
        print(f"LULL_TEST_SEED={seed}", file=sys.stderr)
        chance = random.Random(seed)
        meter = self.start()
        meter.ask("begin")
        known = [b"end", b"end ", b"end -1", b"end 0x0", b"end 1 ", b" begin", b"begin ", b"cancel", b"end 99999999999999999999",
                 b"end 0\0", b"begin\0begin"]
        for line in known + [bytes(chance.randrange(256) for _ in range(chance.randrange(250))) for _ in range(200)]:
            answer = meter.ask(line.replace(b"\n", b"") + b"\n")
            self.assertEqual(list(answer), ["error"], line)
        self.assertEqual(meter.ask("end 0")["window"], 0)
        meter.process.stdin.write(b"x" * 1000)
        status, err = meter.end()
        self.assertEqual(status, 2)
        self.assertIn("more than 256 bytes", err)

    def test_several_lines_at_once(self):
        meter = self.start()
        meter.process.stdin.write(b"begin\nbegin\nca")
        meter.process.stdin.flush()
        self.assertEqual([meter.read(), meter.read()], [{"window": 0}, {"window": 1}])
        self.assertEqual(meter.ask("ncel 1"), {"window": 1})
        self.assertEqual(meter.end()[0], 0)

    def test_no_gpu(self):
        meter = self.start(CUDA_VISIBLE_DEVICES="")
        self.assertIsNone(meter.greeting)
        status, err = meter.end()
        self.assertEqual(status, 4)
        self.assertIn("CUDA_VISIBLE_DEVICES", err)


class Hold(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("not root")
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)

    def start(self, *words):
        return Lines("limit", "hold", "--no-daemon", "--runtime-dir", self.directory.name, *words)

    def test_limits(self):
        holder = self.start("--gpus", "1")
        self.assertEqual([(gpu["power_limit_min_w"], gpu["power_limit_max_w"], gpu["power_limit_w"])
                          for gpu in holder.greeting["gpus"]], [(100, 400, 400)])
        self.assertEqual(holder.ask("250"), {"limits_w": [250]})
        self.assertEqual([gpu["power_limit_w"] for gpu in gpus()], [400, 250])
        self.assertEqual(holder.ask("600"), {"limits_w": [400]})  # not above the previous one
        self.assertEqual(holder.ask("10"), {"limits_w": [100]})
        self.assertEqual(holder.ask("0"), {"limits_w": [400]})
        for line in ("", "-1", "nan", "inf", "1e9", "250 W", "x", "0x20", " 200", "200\0 W"):
            self.assertEqual(list(holder.ask(line)), ["error"], line)
        holder.ask("150")
        self.assertEqual(holder.end()[0], 0)
        self.assertEqual([gpu["power_limit_w"] for gpu in gpus()], [400, 400])

    def test_a_killed_holder_leaves_nothing_behind(self):
        holder = self.start()
        self.assertEqual(holder.ask("200"), {"limits_w": [200, 200]})
        holder.process.kill()
        holder.end()
        self.assertIsNotNone(host.wait_for(lambda: all(gpu["power_limit_w"] == 400 for gpu in gpus()), 5))

    def test_gpus(self):
        for words in ("2", "0,2", "x", "0,,1", "-1", "0x1"):
            holder = self.start("--gpus", words)
            self.assertIsNone(holder.greeting)
            status, err = holder.end()
            self.assertEqual(status, 2, err)
            self.assertIn("--gpus", err)

    def test_through_lulld(self):
        def spawn(*words, **options):
            return subprocess.Popen(words, env=dict(os.environ, LULL_RUNTIME_DIR=self.directory.name),
                                    stderr=subprocess.DEVNULL, **options)

        daemon = host.start_lulld(spawn, LULLD)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        words = ("limit", "hold", "--runtime-dir", self.directory.name)
        holder = Lines(*words, "--gpus", "0")
        self.assertEqual(holder.ask("200"), {"limits_w": [200]})
        other = Lines(*words, "--gpus", "0,1")  # one of them is leased
        self.assertIsNone(other.greeting)
        self.assertIn("leased", other.end()[1])
        holder.process.kill()
        holder.end()
        self.assertIsNotNone(host.wait_for(lambda: gpus()[0]["power_limit_w"] == 400, 5))
        holder = Lines(*words)
        self.assertEqual(holder.ask("150"), {"limits_w": [150, 150]})
        self.assertEqual(holder.end()[0], 0)
        self.assertIsNotNone(host.wait_for(lambda: all(gpu["power_limit_w"] == 400 for gpu in gpus()), 5))

    def test_without_lulld(self):
        done = subprocess.run([LULL, "limit", "hold", "--runtime-dir", self.directory.name], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("lulld", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
