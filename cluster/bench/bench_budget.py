#!/usr/bin/env python3
"""A power budget in real time: 32 emulated GPUs under a cap that steps down and up ten times, then ten events of a
grid. What is drawn is what the emulated node knows, not what the GPUs' meters say, which is what Lull goes by.
What could be done at best is the linear program over the clocks that were measured at the begin: each GPU mixes them at
will, most clock of all GPUs within the cap; it is solved by its dual.

Run as: lull emulate 32xA100-SXM4-40GB -- cluster/bench/bench_budget.py LULLD TOOL LULL [STEP_SECONDS].
SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests"))
import host  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]
STEP_S = float(sys.argv[4]) if len(sys.argv) > 4 else 15.0
WINDOW = 4  # looks
CLOCKS = (210, 510, 705, 795, 900, 990, 1095, 1200, 1305, 1410)
STEPS = [0.8, 1.1, 0.65, 0.9, 0.55, 1.2, 0.7, 0.85, 0.6, 0.95, 0.75, 1.1, 0.5, 0.8, 0.6, 0.9, 0.7, 1.0, 0.65, 0.85]


class Meter(threading.Thread):
    """What all GPUs really draw and how fast they run, 20 times a second, as the emulated node knows it; power is the mean of
    the 0.2 s before. No meter of a GPU is in it: those move in steps of 100 ms."""

    def __init__(self, lines):
        super().__init__(daemon=True)
        self.lines = lines
        self.looks = []  # time, J of each GPU, MHz of each GPU
        self.samples = []  # time, W of all, MHz of all

    def run(self):
        for line in self.lines:
            time_s, *values = map(float, line.split())
            self.looks.append((time_s, values[0::2], values[1::2]))
            if len(self.looks) > WINDOW:
                before_s, before_j, _ = self.looks[-1 - WINDOW]
                self.samples.append((time_s, (sum(values[0::2]) - sum(before_j)) / (time_s - before_s), sum(values[1::2])))

    def since(self, begin):
        """The samples of times that had wholly begun by then."""
        return [sample for sample in list(self.samples) if sample[0] - 0.05 * WINDOW >= begin]

    def between(self, begin, end):
        """W and MHz of each GPU, on average."""
        looks = [look for look in list(self.looks) if begin <= look[0] <= end]
        taken_s = looks[-1][0] - looks[0][0]
        return [((b - a) / taken_s, sum(look[2][gpu] for look in looks) / len(looks))
                for gpu, (a, b) in enumerate(zip(looks[0][1], looks[-1][1]))]


class Bench:
    def __init__(self):
        self.directory = host.Directory()
        self.processes = []
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory.name, "run")
        self.path = os.path.join(self.directory.name, "budget.conf")
        self.grid = os.path.join(self.directory.name, "grid.json")
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.nvml.nvmlInit_v2() == 0
        count = ctypes.c_uint()
        assert self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        self.gpus = [ctypes.c_void_p() for _ in range(count.value)]
        for index, gpu in enumerate(self.gpus):
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(gpu)) == 0
        self.count = len(self.gpus)
        host.start_lulld(self.spawn, LULLD, stderr=subprocess.DEVNULL)
        for gpu in range(self.count):
            self.spawn(TOOL, "busy", str(gpu), "2000").stdout.readline()
        self.meter = Meter(self.spawn(TOOL, "draw").stdout)
        self.meter.start()

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def write(self, path, text):
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def budget(self, limit_w, more=""):
        self.write(self.path, f"[budget]\nlimit-w = {limit_w:.1f}\ngrid-file = {self.grid}\n{more}")

    def clocks_mhz(self):
        return self.meter.looks[-1][2]

    def curves(self):
        """MHz and W of each GPU at several clocks, the mean of a cold and a warm one; the limiter may hold it below the clock that
        was asked for."""
        up, down = (dict(self.curve(clocks)) for clocks in (CLOCKS, CLOCKS[::-1]))
        for gpu in self.gpus:
            assert self.nvml.nvmlDeviceResetGpuLockedClocks(gpu) == 0
        return [[tuple((a + b) / 2 for a, b in zip(up[mhz][gpu], down[mhz][gpu])) for mhz in CLOCKS] for gpu in range(self.count)]

    def curve(self, clocks):
        for mhz in clocks:
            for gpu in self.gpus:
                assert self.nvml.nvmlDeviceSetGpuLockedClocks(gpu, mhz, mhz) == 0
            time.sleep(1.5)
            now = time.monotonic()
            yield mhz, [(reached_mhz, w) for w, reached_mhz in self.meter.between(now - 1.0, now)]

    def end(self):
        host.stop_all(self.processes)
        self.directory.cleanup()


def linear_program(curves, cap_w):
    def dual(price):
        return price * cap_w + sum(max(mhz - price * w for mhz, w in curve) for curve in curves)

    low, high = 0.0, 100.0
    for _ in range(80):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if dual(a) < dual(b) else (a, high)
    return dual(low)


def steps(bench, curves, free_w):
    done = possible = 0.0
    worst_s = worst_ratio = 0.0
    for ratio in STEPS:
        cap_w = ratio * free_w
        begin = time.monotonic()
        bench.budget(cap_w)
        time.sleep(STEP_S)
        samples = bench.meter.since(begin)
        over = [(t, w / cap_w) for t, w, _ in samples if w > 1.01 * cap_w]
        over_s = sum(b[0] - a[0] for a, b in zip(samples, samples[1:]) if b[1] > 1.01 * cap_w)
        late = max((r for t, r in over if t > begin + 2.0), default=0.0)
        done += sum(mhz for _, _, mhz in samples) / len(samples)
        possible += linear_program(curves, cap_w)
        worst_s, worst_ratio = max(worst_s, over_s), max(worst_ratio, late)
        print(f"cap {100 * ratio:3.0f} %: above 101 % of it for {over_s:.1f} s, later than 2 s up to {100 * late:.1f} %; "
              f"clocks {100 * sum(m for _, _, m in samples) / len(samples) / linear_program(curves, cap_w):.1f} % of the "
              "linear program", flush=True)
    print(f"steps: worst {worst_s:.1f} s above 101 %, {100 * worst_ratio:.1f} % later than 2 s; "
          f"{100 * done / possible:.1f} % of the linear program")


def events(bench, free_w):
    source = random.Random(4)
    slowest_s = 0.0
    bench.budget(10 * free_w, "hold-s = 20\n[job willing]\ngpus = localhost:0-7\nleast = 0.65\n[node localhost]\n")
    time.sleep(6)
    for number in range(10):
        depth, length_s = source.uniform(0.1, 0.4), source.uniform(12, 20)
        target_w = (1 - depth) * free_w
        begin = time.monotonic()
        bench.write(bench.grid, json.dumps({"target_w": target_w, "duration_s": 3600}))
        time.sleep(length_s)
        samples = bench.meter.since(begin)
        met_s = next((t - begin for t, w, _ in samples if w <= target_w), None)
        late = max(w / target_w for t, w, _ in samples if t > begin + 10)
        lowest = min(min(look[2][:8]) for look in bench.meter.looks if look[0] > begin)
        os.remove(bench.grid)
        end = time.monotonic()
        time.sleep(8)
        restored = min(bench.clocks_mhz())
        print(f"event {number}: -{100 * depth:.0f} % for {length_s:.0f} s: met after {met_s:.1f} s, later than 10 s at most "
              f"{100 * late:.1f} % of it; the willing at {lowest:.0f} MHz or more, all at {restored:.0f} MHz "
              f"{time.monotonic() - end:.0f} s after its end", flush=True)
        slowest_s = max(slowest_s, met_s)
    print(f"events: the slowest was met after {slowest_s:.1f} s")


def main():
    bench = Bench()
    try:
        time.sleep(10)
        curves = bench.curves()
        time.sleep(5)
        begin = time.monotonic()
        time.sleep(3)
        samples = bench.meter.since(begin)
        free_w = sum(w for _, w, _ in samples) / len(samples)
        print(f"{bench.count} GPUs, {free_w:.0f} W without a cap")
        bench.budget(10 * free_w)
        bench.spawn(LULL, "budget", "--quiet", bench.path)
        time.sleep(3)
        steps(bench, curves, free_w)
        events(bench, free_w)
    finally:
        bench.end()


if __name__ == "__main__":
    main()
