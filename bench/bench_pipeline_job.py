#!/usr/bin/env python3
"""Runs pipelines of EnvPipe's sizes in real time on the emulated node (players, not simulation): energy saved and
slowdown per planner, against iterations at the highest clocks in the same run, beside what was planned, as a Markdown table with
what the authors of EnvPipe and Perseus published for their jobs.

A row is a run. Rows that the same LULL has left in DIRECTORY/pipeline_job.json are printed from there; --only
NODE:PLANNER runs those again.

Usage: bench_pipeline_job.py LULL DIRECTORY [--only NODE[:PLANNER]]... [--again]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile


@dataclasses.dataclass
class Job:
    """A pipeline on one node, so that all calls queue; the times of a stage are in ms at the highest clock."""
    model: str
    stages: int
    replicas: int
    microbatches: int
    heat_w: float
    iterations: int
    switching: tuple  # (DOWN,UP of lull plan --switch-ms; --feed-forward; --driver-ms), as lull run learns them

    def ranks(self):
        return self.stages * self.replicas

    def play_options(self):
        # Stages are those of GPT-3's profile on A100s: the last one has the model's head and is 7 % slower.
        return ["--stages", self.stages, "--microbatches", self.microbatches, "--replicas", self.replicas,
                "--forward-ms", 40, "--backward-ms", 80, "--stage-weights", "1," * (self.stages - 1) + "1.07",
                "--latency-ms", 0.5]


# EnvPipe's two shapes: 4 GPUs of one node, 16 as PP8 x DP2 (there two nodes of 8, with a driver each; here one node, so
# that twice as many calls queue). There are enough iterations for the guard's verdict where it is clear.
JOBS = {
    "4xV100": Job("V100-SXM2-16GB", 4, 1, 8, 200, 30, ("25,35", 10, 8)),
    "4xA100": Job("A100-SXM4-40GB", 4, 1, 8, 300, 30, ("16,25", 9, 7)),
    "16xV100": Job("V100-SXM2-16GB", 8, 2, 16, 200, 24, ("25,35", 10, 8)),
    "16xA100": Job("A100-SXM4-40GB", 8, 2, 16, 300, 24, ("20,25", 9, 7)),
}

# How the plan of each planner is made.
PLANNERS = {
    "frontier": lambda job: ["--slowdown", "0%", "--switch-ms", job.switching[0], "--feed-forward", job.switching[1],
                             "--driver-ms", job.switching[2]],
}

PUBLISHED = """
Published, measured on the authors' own jobs:

| | GPUs | EnvPipe saves | slower | Perseus saves | slower |
|---|---|---|---|---|---|
| EnvPipe (ATC'23), best of its jobs | 4 V100 | up to 25.2 % | under 1 % | | |
| | 16 V100, PP8 x DP2 or PP4 x DP4 | up to 28.4 % | under 1 % | | |
| Perseus (SOSP'24), five jobs | 4 A100, PP4 | 3.7 to 8.9 % | 0 to 4.1 % | 3.2 to 13.2 % | 0.1 to 2.3 % |
| Perseus, five jobs | 8 A40, PP8 | 16.5 to 21.7 % | 0 to 9.7 % | 15.7 to 28.5 % | 0 to 0.5 % |
"""


def run(command, **keywords):
    return subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, **keywords).stdout


def make_plan(lull, directory, job, planner):
    """Makes the profile by a sweep in virtual time, runs lull plan, and returns what the plan says of itself."""
    profile = os.path.join(directory, "profile.csv")
    blocking = json.loads(run([lull, "play", "--json", "--schedule", "1f1b", *job.play_options(), "--measure", profile,
                               "--model", job.model, "--heat-w", job.heat_w, "--stride", "1"]))["blocking_w"]
    plan = os.path.join(directory, "plan.json")
    said = json.loads(run([lull, "plan", "--json", "--profile", profile, "--schedule", "1f1b", "--stages", job.stages,
                           "--microbatches", job.microbatches, "--replicas", job.replicas, "--blocking-w", blocking,
                           "--latency-ms", 0.5, "--output", plan, *PLANNERS[planner](job)], stderr=subprocess.DEVNULL))
    return plan, said


def play(lull, job, planner):
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        plan, said = make_plan(lull, directory, job, planner)
        run([lull, "emulate", "--seed", "0", "--warm", job.heat_w, f"{job.ranks()}x{job.model}", "--", lull, "run",
             "--no-daemon", "--quiet", "--report", directory, "--plan", plan, "--", lull, "play", "--schedule",
             "1f1b", *job.play_options(), "--iterations", job.iterations],
            env=dict(os.environ, LULL_RUNTIME_DIR=directory))
        with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
            whole = json.load(file)
    result = whole["pipeline"]
    del result["stages"]
    point = said["frontier"][0]
    result["bound_saving_ratio"] = 1 - point["bound_j"] / said["all_max"]["energy_j"]
    planned = max(result["planned"]["iterations"], 1)
    result["switches_per_planned"] = sum(gpu["switches"] for gpu in whole["gpus"]) / planned
    result["events_lost"] = sum(gpu["events_lost"] for gpu in whole["gpus"])
    result["iterations"] = job.iterations
    result["made_by"] = digest(lull)
    return result


def digest(program):
    with open(program, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def is_kept(results, node, planner, lull):
    return results.get(node, {}).get(planner, {}).get("made_by") == digest(lull)


def percent(ratio):
    return "-" if ratio is None else f"{ratio * 100:.2f} %"


def print_row(node, planner, result):
    predicted = result["predicted"]
    slowdown = result["slowdown"]
    cells = [node, planner, percent(result["saving_ratio"]), percent(predicted["saving_ratio"]),
             percent(result["bound_saving_ratio"]), percent(slowdown["slowdown_ratio"]),
             percent(slowdown["slowdown_upper_ratio"]), percent(predicted["slowdown_ratio"]),
             f"{result['reference']['iteration_ms']:.1f}",
             f"{result['planned']['iterations']} + {result['reference']['iterations']}",
             f"{result['switches_per_planned']:.0f}", result["state"]]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lull")
    parser.add_argument("directory")
    parser.add_argument("--only", action="append", metavar="NODE[:PLANNER]", help="run these rows, print no others")
    parser.add_argument("--again", action="store_true", help="run all rows, whatever is there")
    arguments = parser.parse_args()
    path = os.path.join(arguments.directory, "pipeline_job.json")
    rows = [(node, planner) for node in JOBS for planner in PLANNERS]
    only = [row for row in rows for wanted in arguments.only or [] if wanted in (row[0], ":".join(row))]
    if arguments.only and not only:
        parser.error("--only: there are " + ", ".join(map(":".join, rows)))
    results = {}
    if os.path.exists(path) and not arguments.again:
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
    print("| node | planner | saved | planned | bound | slower | at most | planned | ms | iterations | switches | outcome |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|")
    for node, planner in only or rows:
        if only or not is_kept(results, node, planner, arguments.lull):
            results.setdefault(node, {})[planner] = play(os.path.abspath(arguments.lull), JOBS[node], planner)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=2)
        print_row(node, planner, results[node][planner])
    print(PUBLISHED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
