#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large an offline problem lull-bound solves in which time.

usage: bench_bound.py LULL_BOUND [--quick]

Random jobs with deadlines on 2 types of 32 GPUs, 5 clocks each: gangs of 1 to 8, 2 to 12 slots at the
highest clock, windows a little longer. Prints the processor time of each solver beside what was
published for problems of that size (two-core x86-64 machine).
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile

CLOCKS = [(1.0, 1.0), (1.1, 0.86), (1.25, 0.75), (1.45, 0.68), (1.7, 0.66)]  # time, energy
TYPES = [("fast", 32, 1.0, 300.0), ("slow", 32, 1.6, 160.0)]  # GPUs, time, W at the highest clock
SLOT_S = 300


def make_job(rng, number, slots, load):
    gpus = rng.choice([1, 1, 1, 2, 4, 8])
    length = rng.randint(2, 12)
    arrival = rng.randrange(0, slots - 14)
    deadline = min(slots, arrival + int(length * rng.uniform(1.3, 2.6)) + 2)
    modes = []
    for name, _, slower, watts in TYPES:
        for time, energy in CLOCKS:
            taken = max(1, round(length * slower * time))
            modes.append({"type": name, "gpus": gpus, "slots": taken,
                          "energy_j": round(watts * gpus * length * slower * SLOT_S * energy, 1)})
    return {"job": f"job{number}", "arrival": arrival, "deadline": deadline, "modes": modes,
            "value_j": 20.0 * 300 * gpus * length * SLOT_S}


def write_instance(path, count, slots, seed):
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        print(json.dumps({"slots": slots, "slot_s": SLOT_S,
                          "types": [{"name": t[0], "gpus": t[1]} for t in TYPES]}), file=out)
        for i in range(count):
            print(json.dumps(make_job(rng, i, slots, 0.5)), file=out)


def run(bound, path, *options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([bound, path, "--json", *options], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    bound = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "instance.jsonl")
        for count, slots, published in [(100, 144, "13.7 k columns, 0.6 s"),
                                        (200, 144, "13 k, 0.4 s"), (500, 288, "25 k, 1.4 s"),
                                        (1000, 288, "76 k, 2.2 s")]:
            write_instance(path, count, slots, 1)
            told, used_s = run(bound, path)
            print(count, slots, told, used_s, published)


if __name__ == "__main__":
    main()
