#!/usr/bin/env python3
"""Measures lull schedule on a real cluster of many slurmd: the client's own processor time per look at a long queue and per job
that it releases, by policy.

usage: bench_schedule.py BUILD CLUSTER_TOOLS [--nodes N] [--jobs N] [--seconds S]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "slurm"))
import cluster as slurm  # noqa: E402
from cluster import run  # noqa: E402

PORT = 18400
SHORT = 60  # jobs before the others that end at once
POLICIES = ("fifo", "backfill", "hdf", "pd-rats", "greedy-energy")
# A job that is known, so that policies have clocks to choose among.
POINTS = {"gpus": {"h100": {"idle_w": 60, "full_w": 700}},
          "jobs": {"bench": {"time_s": 1800, "gpus": {"h100": [
              {"sm_mhz": 0 if mhz == 1980 else mhz, "time_ratio": round((1980 / mhz) ** 0.8, 4), "gpu_w": round(150 + 550 * (mhz / 1980) ** 2.5)}
              for mhz in range(1980, 900, -120)]}}}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build")
    parser.add_argument("tools")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    return parser.parse_args()


def submit(text, gpus, minutes):
    done = run("sbatch", "--parsable", "-H", "--comment=lull-schedule", "-J", "bench", f"--gres=gpu:{gpus}", "-t", minutes, "-o", "/dev/null",
               "--wrap", text)
    return int(done.stdout)


class Bench:
    def __init__(self, options):
        self.options = options
        self.client = os.path.join(os.path.abspath(options.build), "cluster/slurm/lull-schedule")
        self.chance = random.Random(25)
        self.cluster = slurm.Cluster(os.path.abspath(options.tools), None, None, PORT, nodes=options.nodes)
        self.work = self.cluster.work
        self.points = os.path.join(self.work, "points.json")
        self.command = [self.client, "--state", os.path.join(self.work, "state"), "--points", self.points]
        with open(self.points, "w", encoding="utf-8") as file:
            json.dump(POINTS, file)

    def look(self, policy):
        """The processor time of one look that begins from nothing, in ms, and how many jobs it would release."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run(*self.command, "--dry-run", "--json", "--policy", policy)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_ms = 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return used_ms, len(json.loads(done.stdout)["decisions"])

    def serve(self, seconds, words):
        """A client that stays for so long: what it says of itself at its end."""
        path = os.path.join(self.work, "said")
        with open(path, "w", encoding="utf-8") as out:
            client = subprocess.Popen([*self.command, "--policy", "backfill"], stdin=subprocess.DEVNULL, stdout=out)
        time.sleep(seconds)
        client.send_signal(signal.SIGTERM)
        client.wait()
        with open(path, encoding="utf-8") as file:
            said = file.read().splitlines()[-1]
        count, looks, used_ms = map(float, re.fullmatch(r"released (\d+) jobs in (\d+) looks at the queue; (\S+) ms .*", said).groups())
        print(f"  {words}, {seconds:.0f} s: {count:.0f} jobs released in {looks:.0f} looks; {used_ms / max(looks, 1):.1f} ms of its own for each look, "
              f"{used_ms / max(count, 1):.1f} ms for each job", flush=True)

    def measure(self):
        first = f"n[2-{self.options.nodes}]"
        for number in range(self.options.jobs + SHORT):
            submit("true" if number < SHORT else f"sleep {self.chance.randint(5, 60)}", 8, self.chance.randint(2, 60))
        print(f"{self.options.nodes} nodes, {self.options.jobs} jobs wait; one look, from the program's start to its end:", flush=True)
        for policy in POLICIES:
            used_ms, count = self.look(policy)
            print(f"  {policy:16} {used_ms:8.1f} ms of its own for {count} jobs", flush=True)
        print("a client that stays:", flush=True)
        run("scontrol", "update", f"node={first}", "state=drain", "reason=bench")
        self.serve(30, "one node takes short jobs one by one")
        run("scontrol", "update", f"node={first}", "state=resume")
        self.serve(self.options.seconds, "all nodes")
        run("scancel", "-u", "root")


def main():
    options = arguments()
    reason = slurm.reason_to_skip(options.tools)
    if reason:
        print(f"skipped: {reason}")
        return 77
    bench = Bench(options)
    try:
        bench.measure()
        return 0
    finally:
        bench.cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
