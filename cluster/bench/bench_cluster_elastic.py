#!/usr/bin/env python3
"""Shows how much less energy PD-RATS takes than the best policy that ignores energy, at the average completion time of
that policy: for jobs with the GPUs that their trace gives them and elastic ones, energy of running jobs and of everything.

Usage: bench_cluster_elastic.py LULL RESULT_DIRECTORY [GAVEL_JOBS], as bench_cluster_policies.py
Prints Markdown; RESULT_DIRECTORY gets cluster-elastic.csv.
SPDX-License-Identifier: Apache-2.0"""
import csv
import os
import sys

from bench_cluster_policies import ask, list_traces

KNOBS = [0, 20, 100, 300, 1000, 1500, 3000, 10000, 1e9]
BLIND = ["fifo", "edf", "sjf", "backfill", "srtf", "srsf"]
BLIND_ELASTIC = [("srtf", None), ("srsf", None), ("powerflow", 10), ("pd-rats", 1e9)]
ENERGIES = {"running jobs": ("run_j", False, False), "all, nodes stay on": ("energy_j", False, False),
            "all, nodes off when idle": ("energy_j", True, True),
            "all, only PD-RATS turns nodes off": ("energy_j", False, True)}


def simulate(lull, trace, words, policy, knob=None, elastic=False, power_down=False):
    answer = ask(lull, words, policy, knob, *["--elastic", "2"] * elastic, *["--power-down"] * power_down)
    return {"trace": trace, "policy": policy, "knob": "" if knob is None else knob, "elastic": elastic,
            "power_down": power_down, "completion_s": answer["average_completion_s"],
            "run_j": answer["run_j"], "energy_j": answer["energy_j"], "deadline_misses": answer["deadline_misses"],
            "preemptions": answer["preemptions"], "queue_s": answer["average_queue_s"]}


def measure(lull, trace, words):
    rows = []
    for power_down in (False, True):
        rows += [simulate(lull, trace, words, policy, None, False, power_down) for policy in BLIND]
        rows += [simulate(lull, trace, words, policy, knob, True, power_down) for policy, knob in BLIND_ELASTIC]
        for elastic in (False, True):
            rows += [simulate(lull, trace, words, "pd-rats", knob, elastic, power_down) for knob in KNOBS]
    return rows


def energy_at(rows, completion_s, what):
    """Returns the least energy of the curve's points, and of mixtures of neighbours, that are done by then; None: none is."""
    points = sorted((row["completion_s"], row[what]) for row in rows)
    best = [joules for seconds, joules in points if seconds <= completion_s]
    for (fast_s, fast_j), (slow_s, slow_j) in zip(points, points[1:]):
        if fast_s <= completion_s < slow_s:
            best.append(fast_j + (slow_j - fast_j) * (completion_s - fast_s) / (slow_s - fast_s))
    return min(best) if best else None


def choose(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def is_blind(row):
    names = BLIND if not row["elastic"] else [policy for policy, knob in BLIND_ELASTIC if knob in (None, row["knob"])]
    return row["policy"] in names


def savings(rows, trace, blind_elastic, elastic):
    """Compares with the policy of least completion time among those that ignore energy."""
    for name, (what, blind_down, down) in ENERGIES.items():
        blind = min((row for row in rows if is_blind(row) and row["elastic"] == blind_elastic and
                     row["power_down"] == blind_down), key=lambda row: row["completion_s"])
        mine = choose(rows, policy="pd-rats", elastic=elastic, power_down=down)
        joules = energy_at(mine, blind["completion_s"], what)
        saved = "too slow" if joules is None else f"{100 * (1 - joules / blind[what]):.1f} %"
        print(f"| {trace} | {'elastic' if blind_elastic else 'as submitted'} {blind['policy']} "
              f"{blind['completion_s'] / 3600:.2f} h, {blind[what] / 1e9:.0f} GJ | {'elastic' if elastic else 'rigid'} | "
              f"{name} | {saved} |", flush=True)


def main():
    lull, directory, *gavel_jobs = sys.argv[1:4]
    traces = list_traces(*gavel_jobs or [None])
    rows = []
    for trace, words in traces.items():
        rows += measure(lull, trace, words)
    with open(os.path.join(directory, "cluster-elastic.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print("| trace | best energy-blind policy | PD-RATS | energy | less |\n|---|---|---|---|---|")
    for trace in traces:
        mine = choose(rows, trace=trace)
        for blind_elastic, elastic in ((False, False), (False, True), (True, True)):
            savings(mine, trace, blind_elastic, elastic)


if __name__ == "__main__":
    main()
