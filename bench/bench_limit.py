#!/usr/bin/env python3
"""Power-limit choice on the running job, in real time on emulated nodes: the example trainer with two ranks under
`lull run --power-limit auto`, beside an exhaustive sweep of fixed limits that reads the counters itself. Models run side
by side; their jobs sleep most of the time.

Usage: bench_limit.py BUILD DIRECTORY [MODEL...]
SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import emulated_run

MODELS = {"A100-SXM4-40GB": 360, "V100-PCIE-32GB": 185, "A40": 255, "H100-SXM5": 560}  # W while it trains
AIMS = ["cost", "energy", "edp", "slowdown=5%"]
RANKS, SWEEP_STEPS, STEPS, STEP_W = 2, 80, 620, 25


def trainer(build, steps):
    options = ["--steps", steps, "--gpu-ms", 200, "--link-gbs", 0.125, "--channels", 4, "--hidden", 64, "--profile",
               "training"]
    return ["mpirun.openmpi", "-n", str(RANKS), emulated_run.program(build, "examples/train_mpi"), *map(str, options)]


def emulate(build, model, command, environment=None):
    done = subprocess.run([emulated_run.program(build, "src/cli/lull"), "emulate", "--seed", "1", "--warm",
                           str(MODELS[model]), f"{RANKS}x{model}", "--", *command], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=dict(emulated_run.mpi_environment(), **(environment or {})))
    return done.stdout


class Gpus:
    """The node's GPUs through its driver, without Lull."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.devices = [ctypes.c_void_p() for _ in range(RANKS)]
        assert self.nvml.nvmlInit_v2() == 0
        for index, device in enumerate(self.devices):
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0

    def range_w(self):
        low, high = ctypes.c_uint(), ctypes.c_uint()
        assert self.nvml.nvmlDeviceGetPowerManagementLimitConstraints(self.devices[0], ctypes.byref(low),
                                                                      ctypes.byref(high)) == 0
        return low.value // 1000, high.value // 1000

    def set_w(self, limit_w):
        for device in self.devices:
            assert self.nvml.nvmlDeviceSetPowerManagementLimit(device, limit_w * 1000) == 0

    def energy_j(self):
        total = 0.0
        for device in self.devices:
            energy = ctypes.c_ulonglong()
            assert self.nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)) == 0
            total += energy.value / 1e3
        return total


def measure_steps(build, gpus):
    """(J, s) per step, from the first line that the trainer prints to the last: starting up does not count."""
    job = subprocess.Popen(trainer(build, SWEEP_STEPS), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    seen = []
    for line in job.stdout:
        match = re.match(r"step (\d+) loss", line)
        if match:
            seen.append((int(match.group(1)), gpus.energy_j(), time.monotonic()))
    if job.wait() != 0 or len(seen) < 3:
        sys.exit("the trainer failed")
    # The GPUs are warm, but their limiters begin anew with the job.
    first, last = seen[len(seen) // 3], seen[-1]
    return tuple((last[i] - first[i]) / (last[0] - first[0]) for i in (1, 2))


def sweep_inside(build):
    """On the node: each limit held for a whole job, long enough to settle; (limit, J, s) per step."""
    gpus = Gpus()
    low, high = gpus.range_w()
    rows = []
    for limit_w in list(range(high, low, -STEP_W)) + [low]:
        gpus.set_w(limit_w)
        rows.append((limit_w, *measure_steps(build, gpus)))
    print(json.dumps(rows))


def value(aim, row, rows):
    """What an aim makes of a row; infinite where it is not allowed."""
    _, energy_j, time_s = row
    if aim == "cost":
        return 0.5 * energy_j + 0.5 * rows[0][0] * RANKS * time_s
    if aim == "edp":
        return energy_j * time_s
    if aim.startswith("slowdown") and time_s > 1.05 * rows[0][2]:
        return float("inf")
    return energy_j


def profile(build, model, aim, directory):
    """The job under lull run; its report and what it wrote."""
    report = os.path.join(directory, f"limit-{model}-{aim.rstrip('%')}")
    with tempfile.TemporaryDirectory(prefix="lull-") as state:
        output = emulate(build, model, [emulated_run.program(build, "src/cli/lull"), "run", "--no-daemon", "--quiet",
                                        "--report", report, "--power-limit", "auto", "--choose", aim, "--"]
                         + trainer(build, STEPS), {"LULL_STATE_DIR": state, "LULL_RUNTIME_DIR": state})
    with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
        return json.load(file), output


def print_row(model, aim, report, rows, same):
    limit = report["power_limit"]
    if limit["state"] != "held":
        print(f"{model:>16} {aim:>12}: {limit['state']}: {report['notes']}", flush=True)
        return
    best = min(rows, key=lambda row: value(aim, row, rows))
    held = min(rows, key=lambda row: abs(row[0] - limit["held_w"]))
    settings = len(limit["profile"]["settings"])
    print(f"{model:>16} {aim:>12}: {held[0]} W, exhaustively {best[0]} W "
          f"({(value(aim, held, rows) / value(aim, best, rows) - 1) * 100:+.2f} %), {settings} of {len(rows)} limits in "
          f"{limit['profiling_s']:.0f} s (at most 120); output {'unchanged' if same else 'DIFFERENT'}", flush=True)


def measure(build, model, directory):
    here = os.path.abspath(__file__)
    rows = json.loads(emulate(build, model, [sys.executable, here, "--sweep", build]).splitlines()[-1])
    plain = emulate(build, model, trainer(build, STEPS))
    for aim in AIMS:
        report, output = profile(build, model, aim, directory)
        print_row(model, aim, report, rows,
                  emulated_run.losses(output) == emulated_run.losses(plain) != [])


def main():
    if sys.argv[1] == "--sweep":
        return sweep_inside(sys.argv[2])
    build, directory, models = sys.argv[1], sys.argv[2], sys.argv[3:] or list(MODELS)
    with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
        for result in [pool.submit(measure, build, model, directory) for model in models]:
            result.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
