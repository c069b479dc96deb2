#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull play on the emulated node. usage: test_play.py LULL"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

LULL = sys.argv.pop(1)


def run(*arguments, node=None, **keywords):
    command = [LULL, "emulate", "--seed", "0", node, "--"] if node else []
    return subprocess.run(command + [LULL, "play", *arguments], capture_output=True, text=True,
                          check=False, timeout=120, **keywords)


def play(*arguments, node="2xA100-SXM4-40GB"):
    done = run("--json", *arguments, node=node)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["ranks"]


def oracle(*arguments):
    done = run("--oracle", "--json", "--stride", "27", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Play(unittest.TestCase):
    def check_preset(self, name, iterations, node="2xA100-SXM4-40GB", *more):
        ranks = play("--preset", name, "--iterations", str(iterations), *more, node=node)
        period_ms = oracle("--preset", name, *more)["period_ms"]
        for rank in ranks:
            self.assertEqual(rank["iterations"], iterations)
            # It cannot be faster than in virtual time; how much slower depends on the machine.
            self.assertGreater(rank["span_ms"], 0.93 * period_ms * (iterations - 1))
            self.assertGreater(rank["energy_j"], 50 * rank["span_ms"] * 1e-3)
            self.assertLess(rank["energy_j"], 400 * rank["span_ms"] * 1e-3)
            self.assertEqual(rank["iterations_low"], 0)
            self.assertLessEqual(rank["iteration_p50_ms"], rank["iteration_p99_ms"])

    def test_presets_play(self):
        for name, iterations in (("resnet50-ddp", 8), ("bert-ddp", 4), ("gpt-fsdp", 3),
                                 ("moe-alltoall", 4), ("llm-inference", 2)):
            with self.subTest(name):
                self.check_preset(name, iterations)

    def test_a_pipeline_of_four_ranks_plays(self):
        self.check_preset("megatron-3d", 2, "4xA100-SXM4-40GB", "--ranks", "4")

    def test_pipelines_of_all_schedules_come_to_an_end(self):
        for schedule in ("gpipe", "1f1b", "envpipe", "interleaved:2", "zb-h1", "zbv"):
            with self.subTest(schedule):
                period_ms = oracle("--schedule", schedule, "--microbatches", "8")["period_ms"]
                self.assertGreater(period_ms, 8 * 60)
                self.assertLess(period_ms, 11 * 60 + 20)

    def test_a_pipeline_takes_what_its_task_graph_takes(self):
        # 1F1B: (M + S - 1)(F + B); the first and the last micro-batch go there and back; the optimizer.
        options = ("--schedule", "1f1b", "--stages", "3", "--microbatches", "4", "--forward-ms", "10",
                   "--backward-ms", "20", "--latency-ms", "0.5", "--optimizer-ms", "5")
        self.assertAlmostEqual(oracle(*options)["period_ms"], 6 * 30 + 8 * 0.5 + 5, places=3)
        ranks = play(*options, "--sections", "--iterations", "6", node="3xV100-SXM2-16GB")
        for rank in ranks:
            self.assertAlmostEqual(rank["iteration_p50_ms"], 189, delta=10)
            self.assertEqual(rank["compute_ops"], 6 * 9)

    def test_copies_of_a_pipeline_wait_for_each_other(self):
        ranks = play("--schedule", "1f1b", "--stages", "2", "--replicas", "2", "--microbatches", "2",
                     "--stage-weights", "1,1.5", "--iterations", "4", node="4xA100-SXM4-40GB")
        self.assertEqual([rank["iterations"] for rank in ranks], [4] * 4)

    def test_a_pipeline_can_be_measured_clock_by_clock(self):
        done = subprocess.run([LULL, "play", "--schedule", "1f1b", "--stages", "2", "--stage-weights", "1,1.1",
                               "--measure", "-", "--json"], capture_output=True, text=True, check=True, timeout=60)
        rows = [line.split(",") for line in done.stdout.splitlines() if line.count(",") == 4]
        self.assertEqual(rows[0], ["stage", "instruction", "frequency", "time", "energy"])
        times = {(int(row[0]), row[1], int(row[2])): float(row[3]) for row in rows[1:]}
        energies = {(int(row[0]), row[1], int(row[2])): float(row[4]) for row in rows[1:]}
        self.assertAlmostEqual(times[1, "backward", 1410], 0.044, places=8)
        self.assertGreater(times[0, "forward", 1050], 0.022)
        self.assertLess(energies[0, "forward", 1050], 0.8 * energies[0, "forward", 1410])
        self.assertGreater(json.loads(done.stdout.splitlines()[-1])["blocking_w"], 60)

    def test_seconds_set_the_length(self):
        ranks = play("--preset", "moe-alltoall", "--seconds", "1.5")
        self.assertEqual([rank["iterations"] for rank in ranks], [5, 5])

    def test_a_table_is_for_people(self):
        done = run("--preset", "resnet50-ddp", "--iterations", "2", node="2xA100")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3)

    def test_lowered_clocks_stretch_and_are_counted(self):
        lowered = subprocess.run(
            [LULL, "emulate", "--seed", "0", "2xA100-SXM4-40GB", "--", sys.executable, __file__, LULL,
             "--locked"], capture_output=True, text=True, check=True, timeout=120)
        locked = json.loads(lowered.stdout)["ranks"]
        usual = play("--preset", "moe-alltoall", "--iterations", "3")
        for slow, fast in zip(locked, usual):
            self.assertEqual(slow["iterations_low"], 3)
            self.assertGreater(slow["iteration_ms"], 1.1 * fast["iteration_ms"])

    def test_the_oracle_needs_no_node(self):
        answer = oracle("--preset", "moe-alltoall", "--call-settle-ms", "0,0")
        self.assertGreater(answer["ideal"]["saving_ratio"], 0.01)
        self.assertLessEqual(answer["ideal"]["slowdown_ratio"], 0.01)
        self.assertGreaterEqual(answer["real"]["saving_ratio"], 0)

    def test_errors_name_what_to_do(self):
        self.assertEqual(run("--preset", "moe-alltoall", env=clean_environment()).returncode, 4)
        self.assertIn("lull emulate", run("--preset", "moe-alltoall", env=clean_environment()).stderr)
        done = run("--preset", "moe-alltoall", node="A100")
        self.assertEqual(done.returncode, 4)
        self.assertIn("1 GPUs", done.stderr)
        self.assertEqual(run("--preset", "nonsense").returncode, 2)
        self.assertEqual(run("--preset", "megatron-3d", "--ranks", "3", node="4xA100").returncode, 2)
        for usage in ([], ["--preset", "bert-ddp", "--seconds", "0"], ["--call-settle-ms", "5"],
                      ["--preset", "bert-ddp", "--seconds", "1", "--iterations", "1"]):
            self.assertEqual(run(*usage).returncode, 2, usage)

    def test_a_rank_that_dies_ends_the_play(self):
        with subprocess.Popen([LULL, "emulate", "2xA100", "--", LULL, "play", "--preset", "moe-alltoall",
                               "--seconds", "60"], stderr=subprocess.PIPE, text=True) as running:
            rank = find_ranks(running.pid, 2)[0]
            os.kill(rank, signal.SIGKILL)
            _, errors = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 1)
            self.assertIn("signal 9", errors)


def clean_environment():
    return {name: value for name, value in os.environ.items() if name != "LULL_EMULATED_NODE"}


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def find_ranks(emulate, count):
    """The processes of the ranks: grandchildren of lull emulate."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ranks = [rank for player in children(emulate) for rank in children(player)]
        if len(ranks) == count:
            return ranks
        time.sleep(0.02)
    raise TimeoutError("no ranks")


def play_locked():
    """Inside the node: locks the clocks through the driver library, then plays."""
    import ctypes
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == 0
    for index in range(2):
        device = ctypes.c_void_p()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
        assert nvml.nvmlDeviceSetGpuLockedClocks(device, 210, 705) == 0
    os.execv(LULL, [LULL, "play", "--json", "--preset", "moe-alltoall", "--iterations", "3"])


if __name__ == "__main__":
    if "--locked" in sys.argv:
        play_locked()
    unittest.main()
