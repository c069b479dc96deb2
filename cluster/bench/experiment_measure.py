"""Measures what `make experiment` knows of its jobs: how long each kind takes to start, how much longer it takes at lower
clocks, and what a GPU draws meanwhile, by the emulated GPUs' own counters. Prints JSON; progress goes to standard error.

usage: lull emulate NODE -- experiment_measure.py PLAYER TRAINER PYTHON|- KIND...
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import statistics
import subprocess
import sys
import threading
import time

import experiment_mix as mix
from experiment_jobs import command, steps

# Work at full clocks, by program.
WORK_S = {"player": 8, "trainer": 8, "ddp": 4}
# So long the counters are left to settle before and after, and so long a program that computes on the host starts alone.
MARGIN_S, ALONE_S = 0.5, 1.0


class Gpus:
    """NVML, which here is the emulated one."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: error {result}")

    def handle(self, gpu):
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(gpu), ctypes.byref(handle))
        return handle

    def lock(self, gpu, mhz):
        if mhz == 0:
            self.call("nvmlDeviceResetGpuLockedClocks", self.handle(gpu))
        else:
            self.call("nvmlDeviceSetGpuLockedClocks", self.handle(gpu), ctypes.c_uint(mhz), ctypes.c_uint(mhz))

    def energy_j(self, gpu):
        value = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle(gpu), ctypes.byref(value))
        return value.value / 1e3


class Run:
    """A job on GPUs of its own at a clock: when it was started, began its first step and ended, and the energy of its window."""

    def __init__(self, gpus, kind, first_gpu, mhz):
        self.nvml, self.kind, self.mhz = gpus, kind, mhz
        self.work_s = WORK_S[mix.KINDS[kind].program]
        self.gpus = range(first_gpu, first_gpu + mix.RANKS[mix.KINDS[kind].program])
        for gpu in self.gpus:
            gpus.lock(gpu, mhz)

    def energy_j(self):
        return sum(self.nvml.energy_j(gpu) for gpu in self.gpus)

    def start(self, programs):
        self.before_j = self.energy_j()
        self.started = self.stepped = time.monotonic()
        self.process = subprocess.Popen(command(programs, self.kind, self.work_s, self.gpus), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        """A program that takes a while to start says when its first step has ended."""
        first = None
        for line in self.process.stdout:
            if line.startswith("step 0"):
                first = time.monotonic()
        self.process.wait()
        self.ended = time.monotonic()
        if first is not None:
            self.stepped = first - (self.ended - first) / (steps(self.work_s) - 1)

    def finish(self):
        self.window_j, self.window_s = self.energy_j() - self.before_j, time.monotonic() - self.started
        for gpu in self.gpus:
            self.nvml.lock(gpu, 0)
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.kind} ended with {self.process.returncode}")

    def point(self, idle):
        busy_s = self.ended - self.stepped
        energy_j = self.window_j / len(self.gpus) - idle * (self.window_s - busy_s)
        return {"sm_mhz": self.mhz, "ratio": busy_s / self.work_s, "gpu_w": energy_j / busy_s}


def run_all(gpus, programs, kinds, clocks):
    """Runs kinds at clocks, all at once; those that compute on the host begin one after the other."""
    runs = []
    for kind in kinds:
        for mhz in clocks:
            runs.append(Run(gpus, kind, sum(len(run.gpus) for run in runs), mhz))
    time.sleep(MARGIN_S)
    for run in runs:
        run.start(programs)
        if mix.KINDS[run.kind].program != "player":
            time.sleep(ALONE_S)
    for run in runs:
        run.thread.join()
    time.sleep(MARGIN_S)
    for run in runs:
        run.finish()
    return runs


def idle_w(gpus):
    """What a GPU without a job draws."""
    before, begin = gpus.energy_j(0), time.monotonic()
    time.sleep(3)
    return (gpus.energy_j(0) - before) / (time.monotonic() - begin)


def main():
    programs = dict(zip(("player", "trainer", "python"), sys.argv[1:4]))
    kinds = sys.argv[4:]
    gpus = Gpus()
    idle = idle_w(gpus)
    runs = run_all(gpus, programs, [kind for kind in kinds if kind != "ddp"], mix.CLOCKS_MHZ)
    # PyTorch needs all of a small host while it starts.
    for mhz in mix.CLOCKS_MHZ if "ddp" in kinds else ():
        runs += run_all(gpus, programs, ["ddp"], [mhz])
    told = {}
    for kind in kinds:
        own = [run for run in runs if run.kind == kind]
        told[kind] = {"start_s": statistics.median(run.stepped - run.started for run in own), "points": [run.point(idle) for run in own]}
    json.dump({"idle_w": idle, "kinds": told}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
