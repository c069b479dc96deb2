#!/usr/bin/env python3
"""Measures what Slurm's plugin costs a job that does nothing: `srun hostname` on a real cluster, without the plugin, with
it, and with --lull, with and without a GPU, on one node and on two, in turn. Medians of pairs count.

usage: lull emulate 8xA100-SXM4-40GB -- bench_slurm.py BUILD CLUSTER_TOOLS [ROUNDS]
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import statistics
import subprocess
import sys
import time

BUILD, TOOLS = (os.path.abspath(path) for path in sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 60
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "slurm"))
import cluster as slurm  # noqa: E402

PORT = 17200
# Name, whether the plugin is there, options of srun; each is compared with the one of its number.
KINDS = [("no plugin", False, ["--gres=gpu:1"]), ("plugin, not asked for", True, ["--gres=gpu:1"]),
         ("--lull", True, ["--gres=gpu:1", "--lull"]), ("no plugin, no GPU", False, []), ("plugin, no GPU, not asked for", True, []),
         ("--lull, no GPU", True, ["--lull"]), ("no plugin, two nodes", False, ["-N2", "--gres=gpu:1"]),
         ("plugin, two nodes, not asked for", True, ["-N2", "--gres=gpu:1"]), ("--lull, two nodes", True, ["-N2", "--gres=gpu:1", "--lull"])]
BASES = [None, 0, 0, None, 3, 3, None, 6, 6]


def path(name):
    return os.path.join(BUILD, name)


def measure_ms(options):
    begin = time.monotonic()
    subprocess.run(["srun", "-Q", *options, "hostname"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return (time.monotonic() - begin) * 1e3


def measure_all(clusters):
    """The times of all kinds, in ms, in turns of which each begins with another kind."""
    times = [[] for _ in KINDS]
    for turn in range(ROUNDS + 2):
        for step in range(len(KINDS)):
            kind = (turn + step) % len(KINDS)
            _, has_plugin, options = KINDS[kind]
            os.environ["SLURM_CONF"] = os.path.join(clusters[has_plugin].slurm, "slurm.conf")
            os.chdir(clusters[has_plugin].work)
            slurm.wait_idle()
            taken_ms = measure_ms(options)
            if turn >= 2:  # what comes first warms caches
                times[kind].append(taken_ms)
    return times


def main():
    reason = slurm.reason_to_skip(TOOLS)
    if reason:
        print(f"skipped: {reason}")
        return 77
    # The second nodes have no lulld: a governor there says so, when the job has begun.
    clusters = [slurm.Cluster(TOOLS, None, None, PORT, nodes=2),
                slurm.Cluster(TOOLS, path("src/daemon/lulld"), path("cluster/slurm/spank_lull.so"), PORT + 10,
                              plugin_options=[f"lull={path('src/cli/lull')}"], nodes=2)]
    try:
        times = measure_all(clusters)
    finally:
        for cluster in clusters:
            cluster.stop()
    rows = []
    for kind, (name, _, _) in enumerate(KINDS):
        row = {"kind": name, "median_ms": statistics.median(times[kind]), "rounds": ROUNDS}
        if BASES[kind] is not None:
            row["more_ms"] = statistics.median(a - b for a, b in zip(times[kind], times[BASES[kind]]))
        rows.append(row)
        more = f"  {row['more_ms']:+7.2f} ms" if "more_ms" in row else ""
        print(f"{name:32} {row['median_ms']:8.2f} ms{more}", file=sys.stderr)
    json.dump(rows, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
