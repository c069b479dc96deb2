#!/usr/bin/env python3
"""Cluster policies side by side on published traces: energy over average completion time, one point for each setting
of a policy's knob. Jobs have modes by clock on A100s (--gpu-types, --clocks) and may be preempted; nodes stay on.

Usage: bench_cluster_policies.py LULL RESULT_DIRECTORY [GAVEL_JOBS]
Philly's and Chronus's jobs are in data/samples; GAVEL_JOBS is a table of Gavel's jobs (docs/research/measurements/cluster.md).
Prints the table as Markdown; RESULT_DIRECTORY gets cluster-policies.csv and cluster-policies.svg.
SPDX-License-Identifier: Apache-2.0"""
import csv
import html
import json
import math
import os
import re
import subprocess
import sys

SAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "data", "samples")
# Where a knob moves anything; a policy that is not here is swept around its default.
SETTINGS = {
    "greedy-energy": [0, 100, 200, 400, 800, 1600],
    "hdf": [0, 100, 200, 400, 800, 3200, 20000],
    "powerflow": [0.75, 0.8, 0.85, 0.9, 0.95, 1.0],
    "pd-rats": [0, 300, 1000, 3000, 10000, 1e9],
}
OTHERS = [0.1, 0.3, 1, 3, 10]
COLORS = ["#2c6fbb", "#c0392b", "#27864b", "#b8860b", "#7d3c98", "#00838f", "#d35400", "#5d6d7e", "#ad1457", "#33691e",
          "#3949ab", "#6d4c41"]
WIDTH, HEIGHT, LEFT, TOP, GAP = 460, 340, 66, 50, 24


def policies(lull):
    """Names and the default of the knob (None: no knob), from the command's own table."""
    done = subprocess.run([lull, "simulate", "cluster", "--help"], check=True, capture_output=True, text=True)
    found = {}
    for line in re.sub(r"\n {25}(?!--knob)", " ", done.stdout).splitlines():  # long lines are wrapped
        name = re.match(r"  ([a-z][a-z-]*)  ", line + "  ")
        knob = re.match(r" +--knob: .*\(([-+.e0-9]+)\)$", line)
        if name:
            found[name.group(1)] = None
        elif knob and found:
            found[list(found)[-1]] = float(knob.group(1))
    return found


def list_traces(gavel_jobs):
    """Traces by name: the arguments that give their jobs and nodes. Gavel's jobs are not in data/samples."""
    traces = {"Philly": [os.path.join(SAMPLES, "philly-jobs.csv.gz"), "--pools", os.path.join(SAMPLES, "philly-pools.csv")],
              "Chronus": [os.path.join(SAMPLES, "chronus-jobs.csv.gz"), "--nodes", "120"]}
    if gavel_jobs is None or not os.path.exists(gavel_jobs):
        print("skipped: there is no table of Gavel's jobs", file=sys.stderr)
    else:
        traces["Gavel"] = [gavel_jobs, "--nodes", "48"]
    return traces


def ask(lull, words, policy, setting, *options):
    """The summary of a run on a trace, given by its arguments; setting of the knob, None: its default."""
    words = list(words)
    if setting is not None:
        words += ["--knob", str(setting)]
    done = subprocess.run([lull, "simulate", "cluster", "--policy", policy, *words, "--gpu-types", "A100-SXM4-40GB", "--clocks",
                           "--preemptible", "--json", *options], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def simulate(lull, trace, words, policy, setting):
    answer = ask(lull, words, policy, setting)
    return {"trace": trace, "policy": policy, "setting": "" if setting is None else setting,
            "completion_s": answer["average_completion_s"], "p99_completion_s": answer["p99_completion_s"],
            "run_j": answer["run_j"], "idle_j": answer["idle_j"], "energy_j": answer["energy_j"],
            "deadline_misses": answer["deadline_misses"], "rejected": answer["rejected"],
            "never_started": answer["never_started"]}


def table(rows):
    print("| policy | knob | completion s | p99 s | running MJ | all MJ | late |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['policy']} | {row['setting']} | {row['completion_s']:.0f} | {row['p99_completion_s']:.0f} | "
              f"{row['run_j'] / 1e6:.0f} | {row['energy_j'] / 1e6:.0f} | {row['deadline_misses']} |")


class Panel:
    """Draws the energy of running jobs over the average completion time, whose axis is logarithmic."""

    def __init__(self, rows, trace, x0):
        mine = [row for row in rows if row["trace"] == trace]
        best_s = min(row["completion_s"] for row in mine)
        self.rows = [row for row in mine if row["completion_s"] <= 4 * best_s]
        self.trace, self.x0, self.parts = trace, x0, []
        times = [row["completion_s"] / 3600 for row in self.rows]
        joules = [row["run_j"] / 1e9 for row in self.rows]
        self.low, self.high = math.log10(min(times)) - 0.04, math.log10(max(times)) + 0.04
        self.bottom, self.top = min(joules) * 0.98, max(joules) * 1.02

    def x(self, row):
        share = (math.log10(row["completion_s"] / 3600) - self.low) / (self.high - self.low)
        return self.x0 + LEFT + share * (WIDTH - LEFT - 10)

    def y(self, joules):
        return TOP + (self.top - joules) / (self.top - self.bottom) * HEIGHT

    def text(self, x, y, text, anchor="middle", size=12):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#333">'
                          f'{html.escape(text)}</text>')

    def axes(self):
        left, right = self.x0 + LEFT, self.x0 + WIDTH - 10
        self.parts.append(f'<rect x="{left}" y="{TOP}" width="{right - left}" height="{HEIGHT}" fill="none" stroke="#999"/>')
        self.text((left + right) / 2, TOP - 12, self.trace, size=14)
        for i in range(5):
            joules = self.bottom + (self.top - self.bottom) * i / 4
            self.text(left - 5, self.y(joules) + 4, f"{joules:.0f}", "end")
            share = self.low + (self.high - self.low) * i / 4
            self.text(left + (right - left) * i / 4, TOP + HEIGHT + 16, f"{10 ** share:.3g}")

    def draw(self, colors):
        self.axes()
        for policy, color in colors.items():
            points = [(self.x(row), self.y(row["run_j"] / 1e9)) for row in self.rows if row["policy"] == policy]
            if len(points) > 1:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            for x, y in points:
                self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>')
        return "\n".join(self.parts)


def picture(rows, path):
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    names = list(dict.fromkeys(row["policy"] for row in rows))
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    width, height = WIDTH * len(traces) + 10, TOP + HEIGHT + 60 + 20 * ((len(names) + 5) // 6)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="{width / 2}" y="18" text-anchor="middle" font-size="15" fill="#333">Energy of running jobs (GJ) '
             'over average completion time (hours, logarithmic): lower left is better</text>']
    parts += [Panel(rows, trace, i * WIDTH).draw(colors) for i, trace in enumerate(traces)]
    for i, (name, color) in enumerate(colors.items()):
        x, y = LEFT + (i % 6) * (width - LEFT) / 6, TOP + HEIGHT + 48 + 20 * (i // 6)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{color}"/><text x="{x + 9}" y="{y}" font-size="12" '
                     f'fill="#333">{name}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts + ["</svg>", ""]))


def main():
    lull, directory, *gavel_jobs = sys.argv[1:4]
    rows = []
    for trace, words in list_traces(*gavel_jobs or [None]).items():
        for policy, default in policies(lull).items():
            settings = [None] if default is None else SETTINGS.get(policy, [default * factor for factor in OTHERS])
            rows += [simulate(lull, trace, words, policy, setting) for setting in settings]
        print(f"\n{trace}\n")
        table([row for row in rows if row["trace"] == trace])
        sys.stdout.flush()
    with open(os.path.join(directory, "cluster-policies.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    picture(rows, os.path.join(directory, "cluster-policies.svg"))


if __name__ == "__main__":
    main()
