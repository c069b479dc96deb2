#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example trainer as a recurring job on an emulated node: does lull batch run find the cheapest batch
size within 15 recurrences, undisturbed and while runs are killed and others go beside them?

usage: bench_batch_run.py LULL TRAINER DIRECTORY
"""
import json
import os
import random
import subprocess
import sys

SIZES = [8, 16, 32, 64, 128, 256]
RECURRENCES = 15


class Job:
    def __init__(self, lull, trainer, directory):
        self.lull, self.trainer = lull, trainer
        self.environment = dict(os.environ, LULL_STATE_DIR=directory, OPENBLAS_NUM_THREADS="1",
                                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.environment.pop("LULL_BATCH_STORE", None)

    def command(self, name, sizes, *options):
        return [self.lull, "batch", "run", "--quiet", "--job", name, "--sizes", ",".join(str(size) for size in sizes),
                *options, "--metric", "val_acc=([0-9.]+)", "--target", "0.95", "--", self.trainer, "--steps", "4000",
                "--epoch", "1024", "--hidden", "64", "--noise", "4", "--learning-rate", "0.01", "--batch", "{batch}",
                "--gpu-ms", "20", "--sample-ms", "0.2", "--profile", "training"]

    def start(self, command):
        """Runs a command on an emulated node of its own."""
        return subprocess.Popen([self.lull, "emulate", "--seed", "0", "1xA100-SXM4-40GB", "--", *command],
                                env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def recur(self, name, sizes, *options):
        self.start(self.command(name, sizes, *options)).wait()

    def show(self, name):
        """A job as it is known on emulated nodes."""
        return json.loads(subprocess.run([self.lull, "emulate", "1xA100-SXM4-40GB", "--", self.lull, "batch", "show", name, "--json"],
                                         env=self.environment, check=True, stdout=subprocess.PIPE).stdout)


def exhaustive(job):
    """Returns the cost of each size when it runs alone to the target."""
    costs = {}
    for size in SIZES:
        job.recur(f"only-{size}", [size], "--beta", "inf")
        run = job.show(f"only-{size}")["runs"][-1]
        costs[size] = run["cost_j"]
        print(f"{size:>6} {run['state']:>8} {run['epochs']:>3} epochs {run['time_s']:>6.2f} s {run['energy_j']:>8.1f} J "
              f"{run['cost_j']:>8.1f} J of cost", flush=True)
    return costs


def report(title, job, name, best):
    state = job.show(name)
    runs = state["runs"]
    states = {kind: sum(run["state"] == kind for run in runs) for kind in ("reached", "missed", "lost", "died")}
    print(f"{title}: best size {state['best_size']} (exhaustively {best}); {states}; sizes "
          + " ".join(str(run["size"]) for run in runs), flush=True)


def main(arguments):
    job = Job(*arguments)
    costs = exhaustive(job)
    best = min(costs, key=costs.get)
    for seed in ("1", "2", "3"):
        for _ in range(RECURRENCES):
            job.recur(f"plain-{seed}", SIZES, "--default-size", "256", "--seed", seed)
        report(f"undisturbed, seed {seed}", job, f"plain-{seed}", best)
    chance = random.Random(1)
    for _ in range(RECURRENCES):
        # Beside the run that counts goes one that is killed.
        command = job.command("killed", SIZES, "--default-size", "256", "--seed", "1")
        script = f'"$@" & pid=$!; sleep {chance.uniform(0.05, 2.0):.3f}; kill -9 $pid; wait'
        killed = job.start(["sh", "-c", script, "sh", *command])
        job.start(command).wait()
        killed.wait()
    report("one killed beside each", job, "killed", best)


if __name__ == "__main__":
    main(sys.argv[1:])
