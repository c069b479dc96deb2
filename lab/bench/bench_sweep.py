#!/usr/bin/env python3
"""Sweeps emulated GPUs and finds their parameters in the rows again, beside those that they have.

What is known of a kernel is its form only: t = D (m / b(f) + (1 - m) fmax / f), P = B + A s(f) r(f), where r is the part of
its speed that the bandwidth b leaves. From rows alone come m of each kernel and the curve b (times), then the curve s,
which all kernels share, and B and A of each (powers); s is (f / fmax) at the five lowest clocks, where voltage is at its
floor. Usage: bench_sweep.py LULL DIRECTORY [MODEL...]. SPDX-License-Identifier: Apache-2.0
"""
import csv
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import emulated_gpu  # noqa: E402

MODELS = ["V100-SXM2-16GB", "A100-SXM4-40GB", "H100-SXM5"]
# Of the highest clock.
SHARES = [0.2, 0.26, 0.32, 0.4, 0.47, 0.54, 0.61, 0.68, 0.75, 0.81, 0.86, 0.91, 0.96]
FLOOR = 5  # of them are below the knee of the voltage on all models
SCALE = 40
SOAK_S = 80  # four times what a GPU takes to follow its power in temperature
WINDOW_S = 8  # edges of a window are off by what this host is late, tens of ms of the node at this scale


def clocks_of(model):
    step, low = model.data["sm"]["step"], model.data["sm"]["min"]
    return [int(low + step * round((share * model.top - low) / step)) for share in SHARES]


def sweep(lull, directory, name):
    model, file = emulated_gpu.Model(name), os.path.join(directory, f"sweep-{name}.csv")
    for path in (file, file + ".json"):
        if os.path.exists(path):
            os.remove(path)
    grid = "sm=" + "/".join(map(str, clocks_of(model)))
    subprocess.run([lull, "emulate", name, "--seed", "0", "--time-scale", str(SCALE), "--", lull, "sweep", "--suite",
                    "--no-daemon", "--runtime-dir", os.path.join(directory, "sweep-run"), "--output", file, "--grid", grid,
                    "--repeats", "1", "--warm-up", "0", "--soak", str(SOAK_S), "--window", str(WINDOW_S)], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with open(file, encoding="ascii") as rows, open(file + ".json", encoding="utf-8") as sidecar:
        return list(csv.DictReader(rows)), json.load(sidecar)


def means(rows, column):
    """{kernel: {MHz: mean over valid rows}}"""
    found = {}
    for row in rows:
        if row["valid"] == "1":
            found.setdefault(row["kernel"], {}).setdefault(float(row["sm_set_mhz"]), []).append(float(row[column]))
    return {kernel: {mhz: sum(values) / len(values) for mhz, values in points.items()}
            for kernel, points in found.items()}


def solve(matrix, right):
    """Gauss, for a few unknowns."""
    size = len(right)
    rows = [list(line) + [value] for line, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(size):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def fit_two(rows):
    """(a, b) of y = a u + b x by relative least squares, of rows (u, x, y)."""
    matrix = [[sum(row[i] * row[k] / row[2] ** 2 for row in rows) for k in (0, 1)] for i in (0, 1)]
    return solve(matrix, [sum(row[i] / row[2] for row in rows) for i in (0, 1)])


def share_of(rows):
    """(D, m) of t = D (m u + (1 - m) x)."""
    flat, rising = fit_two(rows)
    return flat + rising, min(max(flat / (flat + rising), 0.0), 1.0)


def find_times(times, top):
    """{kernel: (D, m)} and {MHz: b}. Near the top the bandwidth is whole: there t = D (m + (1 - m) top / f). Kernels that
    have no valid rows there are fitted once b is known from the others."""
    shares, curve = {}, {}
    for kernel, points in times.items():
        near = [(1, top / mhz, value) for mhz, value in points.items() if mhz >= 0.85 * top]
        if len(near) >= 2:
            shares[kernel] = share_of(near)
    for mhz in sorted({mhz for points in times.values() for mhz in points}):
        seen = [(m, m / (times[kernel][mhz] / whole - (1 - m) * top / mhz)) for kernel, (whole, m) in shares.items()
                if mhz in times[kernel] and m > 0.05]
        curve[mhz] = sum(m ** 2 * value for m, value in seen) / sum(m ** 2 for m, _ in seen)
    for kernel in times.keys() - shares.keys():
        shares[kernel] = share_of([(1 / curve[mhz], top / mhz, value) for mhz, value in times[kernel].items()])
    return shares, curve


def reached(share, bandwidth, ratio):
    free = share + (1 - share) * ratio
    return free / (share / bandwidth + (1 - share) * ratio)


def find_powers(powers, shares, bandwidth, top):
    """{kernel: (B, A)} and {MHz: s}, by alternating least squares."""
    clocks = sorted(bandwidth)
    curve = {mhz: mhz / top for mhz in clocks}
    parts = {}
    part = {kernel: {mhz: min(reached(shares[kernel][1], bandwidth[mhz], top / mhz), 1) for mhz in clocks}
            for kernel in shares}
    for _ in range(3000):
        for kernel in shares:
            parts[kernel] = fit_two([(1, curve[mhz] * part[kernel][mhz], value) for mhz, value in powers[kernel].items()])
        for mhz in clocks[FLOOR:]:
            over = under = 0.0
            for kernel, (base, slope) in parts.items():
                if mhz in powers[kernel]:
                    value, gain = powers[kernel][mhz], slope * part[kernel][mhz]
                    over += gain * (value - base) / value ** 2
                    under += gain ** 2 / value ** 2
            curve[mhz] = over / under
    return parts, curve


def report(name, rows, sidecar):
    model, top = emulated_gpu.Model(name), emulated_gpu.Model(name).top
    shares, bandwidth = find_times(means(rows, "time_ms"), top)
    parts, curve = find_powers(means(rows, "power_w"), shares, bandwidth, top)
    worst = {"D": 0, "m": 0, "b(f)": 0, "s(f)": 0, "A": 0, "B": 0, "P": 0}

    def see(what, error):
        worst[what] = max(worst[what], abs(error))

    print(f"{name}: {len(rows)} rows, {sum(row['valid'] == '0' for row in rows)} of them marked "
          f"({', '.join(sorted({row['invalid_reason'] for row in rows} - {''})) or 'none'})")
    for kernel, (whole, share) in sorted(shares.items()):
        (base, slope), truth = parts[kernel], model.kernels[kernel]
        peak = truth["B"] + truth["A"] * model.dynamic(top)
        see("D", whole / 50 - 1)
        see("m", share - truth["mem_frac"])
        see("A", slope / truth["A"] - 1)
        see("B", (base - truth["B"]) / peak)
        print(f"  {kernel:12} D {whole:7.3f} ms (50), m {share:.4f} ({truth['mem_frac']}), B {base:6.2f} W ({truth['B']}), "
              f"A {slope:6.2f} W ({truth['A']})")
    for mhz, value in curve.items():
        see("b(f)", bandwidth[mhz] / model.bandwidth(mhz) - 1)
        see("s(f)", value / model.dynamic(mhz) - 1)
    for row in rows:
        if row["valid"] == "1":
            see("P", float(row["power_w"]) / model.settled_w(row["kernel"], float(row["sm_set_mhz"])) - 1)
    idle_w = model.data["idle_W"]["v"]
    print("  largest errors, at most 2 %: D {D:.2%}, m {m:.2%} of the time, b(f) {b(f):.2%}, s(f) {s(f):.2%}, A {A:.2%}, "
          "B {B:.2%} of the power at the top; powers of rows {P:.2%}".format_map(worst)
          + f"; idle {sidecar['idle_w']:.2f} W ({idle_w}, {sidecar['idle_w'] / idle_w - 1:+.2%})", flush=True)
    return max(error for what, error in worst.items() if what != "P") <= 0.02 and abs(sidecar["idle_w"] / idle_w - 1) <= 0.02


def main():
    lull, directory, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:] or MODELS
    is_good = True
    for name in names:
        begin = time.monotonic()
        is_good = report(name, *sweep(lull, directory, name)) and is_good
        print(f"  {time.monotonic() - begin:.0f} s at {SCALE} times real time", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
