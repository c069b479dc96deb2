#!/usr/bin/env python3
"""Judges the choice of power limits on the running job, in real time on emulated nodes: the example trainer with two
ranks runs under `lull run --power-limit auto`, and the result stands beside what lull-oracle finds in virtual time, settled at every limit (it knows the
physics of the emulated GPUs, and shares no code with the search). What the host adds to an iteration is measured on
unmanaged runs beforehand. Jobs run one after the other, because a node has its own processors: MPI spins while one rank
waits for the other. It takes about forty minutes.

Usage: bench_limit.py BUILD DIRECTORY [MODEL...]
SPDX-License-Identifier: Apache-2.0
"""
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

# What a GPU draws while it trains, in W, by the oracle: a GPU that starts colder leaks less at the first limit tried.
MODELS = {"A100-SXM4-40GB": 371, "H100-SXM5": 590, "V100-PCIE-32GB": 192, "A40": 272}
AIMS = ["cost", "energy", "edp", "slowdown=5%"]
RANKS, PLAIN_RUNS, PLAIN_STEPS, STEPS, STEP_W, GPU_MS, SEED = 2, 3, 80, 580, 25, 200, 1


def trainer(build, steps):
    options = ["--steps", steps, "--gpu-ms", GPU_MS, "--link-gbs", 0.125, "--channels", 4, "--hidden", 64, "--profile",
               "training"]
    return ["mpirun.openmpi", "-n", str(RANKS), emulated_run.program(build, "examples/train_mpi"), *map(str, options)]


def emulate(build, model, command, environment=None, options=()):
    done = subprocess.run([emulated_run.program(build, "src/cli/lull"), "emulate", "--seed", str(SEED), "--warm",
                           str(MODELS[model]), *options, f"{RANKS}x{model}", "--", *command], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=dict(emulated_run.mpi_environment(), **(environment or {})))
    return done.stdout


class Gpus:
    """Reaches the node's GPUs through its driver, without Lull."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.devices = [ctypes.c_void_p() for _ in range(RANKS)]
        assert self.nvml.nvmlInit_v2() == 0
        for index, device in enumerate(self.devices):
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0

    def energy_j(self):
        total = 0.0
        for device in self.devices:
            energy = ctypes.c_ulonglong()
            assert self.nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)) == 0
            total += energy.value / 1e3
        return total


def plain_inside(build):
    """Runs the job unmanaged; returns (J, s) per step from the second half of the lines that the trainer prints."""
    gpus = Gpus()
    job = subprocess.Popen(trainer(build, PLAIN_STEPS), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    seen = []
    for line in job.stdout:
        match = re.match(r"step (\d+) loss", line)
        if match:
            seen.append((int(match.group(1)), gpus.energy_j(), time.monotonic()))
    if job.wait() != 0 or len(seen) < 3:
        sys.exit("the trainer failed")
    first, last = seen[len(seen) // 2], seen[-1]
    print(json.dumps([(last[i] - first[i]) / (last[0] - first[0]) for i in (1, 2)]))


def ask_oracle(build, model, wait_ms):
    """Returns (limit, J, s) per step, from the highest limit down."""
    done = subprocess.run([emulated_run.program(build, "src/emulator/lull-oracle"), "--limit-step-w", str(STEP_W), "--model",
                           model, "--gpus", str(RANKS), "--seed", str(SEED), "--compute-ms", str(GPU_MS), "--profile",
                           "training", "--wait-ms", str(wait_ms)], check=True, stdout=subprocess.PIPE, text=True)
    return [(row["limit_w"], row["energy_per_iteration_j"], row["iteration_ms"] / 1e3)
            for row in json.loads(done.stdout)["limits"]]


def find_truth(build, model):
    """Returns the oracle's rows, with this machine's share of the host in an iteration, and how they compare."""
    here = os.path.abspath(__file__)
    # What disturbs the machine makes iterations longer, never shorter.
    energy_j, time_s = min((json.loads(emulate(build, model, [sys.executable, here, "--plain", build]).splitlines()[-1])
                            for _ in range(PLAIN_RUNS)), key=lambda run: run[1])
    alone_s = ask_oracle(build, model, 0.0)[0][2]
    rows = ask_oracle(build, model, max((time_s - alone_s) * 1e3, 0.0))
    print(f"{model:>16} unmanaged: {time_s * 1e3:.1f} ms and {energy_j:.1f} J an iteration, {(time_s - alone_s) * 1e3:.1f} ms "
          f"of it the host; the oracle says {rows[0][1]:.1f} J", flush=True)
    return rows


def value(aim, row, rows):
    """Returns the value of a row for an aim; infinite where the row is not allowed."""
    _, energy_j, time_s = row
    if aim == "cost":
        return 0.5 * energy_j + 0.5 * rows[0][0] * RANKS * time_s
    if aim == "edp":
        return energy_j * time_s
    if aim.startswith("slowdown") and time_s > 1.05 * rows[0][2]:
        return float("inf")
    return energy_j


def profile(build, model, aim, directory):
    """Runs the job under lull run; returns its report and what it wrote."""
    report = os.path.join(directory, f"limit-{model}-{aim.rstrip('%')}")
    with tempfile.TemporaryDirectory(prefix="lull-") as state:
        output = emulate(build, model, [emulated_run.program(build, "src/cli/lull"), "run", "--no-daemon", "--quiet",
                                        "--report", report, "--power-limit", "auto", "--choose", aim, "--"]
                         + trainer(build, STEPS), {"LULL_STATE_DIR": state, "LULL_RUNTIME_DIR": state})
    with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
        return json.load(file), output


def is_near(aim, held, rows):
    """Tells whether a limit is within one step of a best one, or as good (to 0.1 %) as the better of its neighbours."""
    values = [value(aim, row, rows) for row in rows]
    # Every limit above what the job draws is the same; one that is too slow by a hair is still one step away.
    bests = [i for i, one in enumerate(values) if one <= 1.0001 * min(values)]
    best = values.index(min(values))
    beside = min(values[i] for i in (best - 1, best + 1) if 0 <= i < len(rows))
    return min(abs(held - i) for i in bests) <= 1 or values[held] <= 1.001 * beside


def judge(model, aim, report, rows, same):
    """Prints a row and returns whether everything is as promised."""
    limit = report["power_limit"]
    if limit["state"] != "held":
        print(f"{model:>16} {aim:>12}: {limit['state']}: {report['notes']}", flush=True)
        return False
    best = min(rows, key=lambda row: value(aim, row, rows))
    held = min(range(len(rows)), key=lambda i: abs(rows[i][0] - limit["held_w"]))
    # Where a value is not allowed, energy says how much worse it is, since the value itself is infinite.
    over = (rows[held][1] / best[1] if aim.startswith("slowdown") else
            value(aim, rows[held], rows) / value(aim, best, rows)) - 1
    settings = limit["profile"]["settings"]
    truth = {row[0]: row for row in rows}
    known = [setting for setting in settings if setting["limit_w"] in truth and setting["sm_mhz"] is None]
    energy = max(abs(setting["energy_per_iteration_j"] / truth[setting["limit_w"]][1] - 1) for setting in known)
    near = is_near(aim, held, rows)
    print(f"{model:>16} {aim:>12}: {rows[held][0]:g} W, exhaustively {best[0]:g} W ({over * 100:+.2f} %, "
          f"{'near' if near else 'NOT NEAR'}), {len(settings)} of {len(rows)} limits in {limit['profiling_s']:.0f} s (at most "
          f"120), energies within {energy * 100:.1f} % of the oracle's; output {'unchanged' if same else 'DIFFERENT'}",
          flush=True)
    return near and same and limit["profiling_s"] < 120


def measure(build, model, aim, rows, plain, directory):
    report, output = profile(build, model, aim, directory)
    return judge(model, aim, report, rows, emulated_run.losses(output) == plain != [])


def main():
    if sys.argv[1] == "--plain":
        return plain_inside(sys.argv[2])
    build, directory, models = sys.argv[1], sys.argv[2], sys.argv[3:] or list(MODELS)
    # The losses must be equal, since they do not depend on the clock.
    plain = emulated_run.losses(emulate(build, models[0], trainer(build, STEPS), options=["--time-scale", "50"]))
    good = 0
    for model in models:
        rows = find_truth(build, model)
        good += sum(measure(build, model, aim, rows, plain, directory) for aim in AIMS)
    print(f"{good} of {len(models) * len(AIMS)} as promised: within one step or as good, in less than 120 s, output unchanged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
