#!/usr/bin/env python3
"""Shows how large an offline problem lull-bound solves, and in which processor time, as Markdown tables beside what was
published for problems of those sizes (CLP 1.17, CBC 2.10 on another two-core machine; other random jobs).

Jobs are random and have deadlines; there are 2 types of 32 GPUs with 5 clocks each. Gangs have 1 to 8 GPUs and jobs
take 2 to 12 slots at the highest clock, in windows a few times as long. Leaving a job out costs ten times what running
it does.

Usage: bench_bound.py LULL_BOUND DIRECTORY
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import resource
import subprocess
import sys

SLOT_S = 300
CLOCKS = [(1.0, 1.0), (1.1, 0.86), (1.25, 0.75), (1.45, 0.68), (1.7, 0.66)]  # factors of time and of energy for each clock
TYPES = [("fast", 32, 1.0, 300.0), ("slow", 32, 1.6, 160.0)]  # name, GPUs, factor of time, W at the highest clock

# Each row is jobs, slots, gangs, windows in lengths of a job, and what was published.
LINEAR = [
    (100, 144, (1, 2, 4, 8), (2.0, 5.0), "13.7 k columns, 0.6 s"),
    (200, 144, (1, 1, 2, 4, 8), (1.5, 3.1), "13 k, 0.4 s"),
    (500, 288, (1, 1, 2, 4, 8), (1.3, 2.7), "25 k, 1.4 s"),
    (1000, 288, (1, 1, 1, 2, 4), (1.6, 3.4), "76 k, 2.2 s"),
    (3000, 864, (1, 1, 1, 2, 4), (1.6, 3.4), ""),
    (10000, 2880, (1, 1, 1, 2, 4), (1.3, 2.7), ""),
]
WHOLE = [
    (20, 96, (1, 2, 4, 8), (1.5, 3.0), 60, "0.4 to 0.8 s, optimal within 0.5 %"),
    (50, 96, (1, 2, 4, 8), (1.3, 2.7), 60, "4.5 k columns, 1.9 s"),
    (50, 96, (2, 4, 8), (2.0, 5.0), 60, "7.7 k columns, 1.0 % after 60 s"),
    (100, 96, (1, 2, 4, 8), (1.6, 3.4), 60, "11 k columns, 1.5 % after 100 s"),
]


def make_job(rng, number, slots, gangs, windows):
    gpus, length = rng.choice(gangs), rng.randint(2, 12)
    arrival = rng.randrange(0, slots - 14)
    deadline = min(slots, arrival + int(length * rng.uniform(*windows)) + 2)
    modes = [{"type": name, "gpus": gpus, "slots": max(1, round(length * slower * time)),
              "energy_j": round(watts * gpus * length * slower * SLOT_S * energy, 1)}
             for name, _, slower, watts in TYPES for time, energy in CLOCKS]
    return {"job": f"job{number}", "arrival": arrival, "deadline": deadline, "modes": modes,
            "value_j": 3000.0 * gpus * length * SLOT_S}


def write_instance(path, jobs, slots, gangs, windows):
    rng = random.Random(jobs)
    with open(path, "w", encoding="utf-8") as out:
        types = [{"name": name, "gpus": gpus} for name, gpus, _, _ in TYPES]
        print(json.dumps({"slots": slots, "slot_s": SLOT_S, "types": types}), file=out)
        for number in range(jobs):
            print(json.dumps(make_job(rng, number, slots, gangs, windows)), file=out)


def run(bound, path, *options):
    """Returns what lull-bound tells, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([bound, path, "--json", *options], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    bound, directory = sys.argv[1:3]
    path = os.path.join(directory, "bound.jsonl")
    print("| jobs, slots | columns | linear program | prices alone | published |\n|---|---|---|---|---|")
    for jobs, slots, gangs, windows, published in LINEAR:
        write_instance(path, jobs, slots, gangs, windows)
        told, used_s = run(bound, path)
        fast, fast_s = run(bound, path, "--fast")
        loss = 1 - fast["bound_j"] / told["bound_j"]
        print(f"| {jobs}, {slots} | {told['columns'] / 1000:.1f} k | {used_s:.1f} s | "
              f"{fast_s:.1f} s, {100 * loss:.2f} % lower | {published} |", flush=True)
    print("\n| jobs, slots | columns | schedule | above the proven bound | published |\n|---|---|---|---|---|")
    for jobs, slots, gangs, windows, limit_s, published in WHOLE:
        write_instance(path, jobs, slots, gangs, windows)
        told, used_s = run(bound, path, "--ilp", "--gap", "0.5%", "--time-limit", str(limit_s))
        print(f"| {jobs}, {slots} | {told['columns'] / 1000:.1f} k | {used_s:.1f} s | "
              f"{100 * told['gap_ratio']:.2f} % | {published} |", flush=True)


if __name__ == "__main__":
    main()
