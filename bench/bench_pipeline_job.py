#!/usr/bin/env python3
"""Pipelines in real time on the emulated node (players, not simulation), with settings like EnvPipe's: energy saved and
slowdown per planner, against iterations at the highest clocks in the same run, beside what was planned and what the
authors of EnvPipe and Perseus published for their jobs.

Usage: bench_pipeline_job.py LULL DIRECTORY [--iterations N] [--node NAME]... [--planner NAME]...
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile


@dataclasses.dataclass
class Job:
    """A pipeline on a node; times of a stage at the highest clock, ms. One node for all: their calls queue."""
    model: str
    stages: int
    replicas: int
    microbatches: int
    forward_ms: float
    backward_ms: float
    weights: str
    heat_w: float

    def ranks(self):
        return self.stages * self.replicas

    def play_options(self):
        return ["--stages", self.stages, "--microbatches", self.microbatches, "--replicas", self.replicas,
                "--forward-ms", self.forward_ms, "--backward-ms", self.backward_ms, "--stage-weights", self.weights,
                "--latency-ms", 0.5]


# Stages as in GPT-3's profile on A100s: the last one is 7 % slower (it has the head of the model).
JOBS = {
    "4xV100": Job("V100-SXM2-16GB", 4, 1, 16, 40, 80, "1,1,1,1.07", 200),
    "4xA100": Job("A100-SXM4-40GB", 4, 1, 16, 40, 80, "1,1,1,1.07", 300),
    "16xV100-PP8xDP2": Job("V100-SXM2-16GB", 8, 2, 16, 40, 80, "1,1,1,1,1,1,1,1.07", 200),
    "16xV100-PP4xDP4": Job("V100-SXM2-16GB", 4, 4, 16, 40, 80, "1,1,1,1.07", 200),
}

# Schedule of the job and how its plan is made. One micro-batch more in memory than 1F1B: how many EnvPipe would take
# without a limit depends on the profile, and the job must run the very order that is planned for.
PLANNERS = {
    "uniform": ("1f1b", ["--planner", "envpipe:uniform"]),
    "envpipe": ("1f1b", ["--planner", "envpipe"]),
    "envpipe-hoisted": ("envpipe:1", ["--planner", "envpipe"]),
    "frontier": ("1f1b", ["--slowdown", "0%"]),
    "frontier-hoisted": ("envpipe:1", ["--slowdown", "0%"]),
    "frontier-dwell": ("1f1b", ["--slowdown", "0%", "--min-dwell-ms", "60"]),
    "frontier-1%": ("1f1b", ["--slowdown", "1%"]),
}

PUBLISHED = """published: EnvPipe saves up to 25.2 % (4 V100) and 28.4 % (16 V100), slower by less than 1 %; Perseus,
its own measurements on 4 and 8 GPUs: A100 3.2 to 13.2 % at 0.1 to 2.3 % (EnvPipe there 3.7 to 8.9 % at 0 to 4.1 %),
A40 15.7 to 28.5 % at 0 to 0.5 % (EnvPipe 16.5 to 21.7 % at 0 to 9.7 %)"""


def run(command, **keywords):
    return subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, **keywords).stdout


def make_plan(lull, directory, job, planner):
    """Profile by a sweep in virtual time, then lull plan; what the plan says of itself."""
    schedule, options = PLANNERS[planner]
    profile = os.path.join(directory, "profile.csv")
    blocking = json.loads(run([lull, "play", "--json", "--pipeline", schedule, *job.play_options(), "--measure", profile,
                               "--model", job.model, "--heat-w", job.heat_w, "--stride", "1"]))["blocking_w"]
    plan = os.path.join(directory, "plan.json")
    said = json.loads(run([lull, "plan", "--json", "--profile", profile, "--schedule", schedule, "--stages", job.stages,
                           "--microbatches", job.microbatches, "--replicas", job.replicas, "--blocking-w", blocking,
                           "--latency-ms", 0.5, "--output", plan, *options], stderr=subprocess.DEVNULL))
    return schedule, plan, said


def play(lull, directory, job, planner, iterations):
    schedule, plan, said = make_plan(lull, directory, job, planner)
    report = os.path.join(directory, "report")
    run([lull, "emulate", "--seed", "0", "--warm", job.heat_w, f"{job.ranks()}x{job.model}", "--", lull, "run",
         "--no-daemon", "--quiet", "--report", report, "--plan", plan, "--", lull, "play", "--pipeline", schedule,
         *job.play_options(), "--iterations", iterations],
        env=dict(os.environ, LULL_RUNTIME_DIR=directory))
    with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
        whole = json.load(file)
    result = whole["pipeline"]
    point = said["frontier"][0]
    result["bound_saving_ratio"] = 1 - point["bound_j"] / said["all_max"]["energy_j"]
    result["switches_per_iteration"] = sum(gpu["switches"] for gpu in whole["gpus"]) / iterations
    result["events_lost"] = sum(gpu["events_lost"] for gpu in whole["gpus"])
    return result


def percent(ratio):
    return "-" if ratio is None else f"{ratio * 100:.2f} %"


def print_row(planner, result):
    predicted = result["predicted"]
    slowdown = result["slowdown"]
    print(f"  {planner:>17} {percent(result['saving_ratio']):>8} {percent(predicted['saving_ratio']):>8} "
          f"{percent(result['bound_saving_ratio']):>8} {percent(slowdown['slowdown_ratio']):>9} "
          f"{percent(slowdown['slowdown_upper_ratio']):>9} {percent(predicted['slowdown_ratio']):>9} "
          f"{result['reference']['iteration_ms']:>9.1f} {result['switches_per_iteration']:>8.1f}  {result['state']}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lull")
    parser.add_argument("directory")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--node", action="append", choices=JOBS)
    parser.add_argument("--planner", action="append", choices=PLANNERS)
    arguments = parser.parse_args()
    results = {}
    for node in arguments.node or JOBS:
        job = JOBS[node]
        print(f"{node}: {job.stages} stages, {job.replicas} copies, {job.microbatches} micro-batches\n"
              f"  {'planner':>17} {'saved':>8} {'planned':>8} {'bound':>8} {'slowdown':>9} {'at most':>9} {'planned':>9} "
              f"{'ms':>9} {'switches':>8}", flush=True)
        for planner in arguments.planner or PLANNERS:
            with tempfile.TemporaryDirectory(prefix="lull-") as directory:
                result = play(os.path.abspath(arguments.lull), directory, job, planner, arguments.iterations)
            results.setdefault(node, {})[planner] = result
            print_row(planner, result)
    print(PUBLISHED)
    with open(os.path.join(arguments.directory, "pipeline_job.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
