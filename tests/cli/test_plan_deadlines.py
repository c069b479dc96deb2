"""Plans of random profiles: a longer deadline never costs more, no plan is below its bound, the frontier and single
plans agree, and a time as it was printed is a deadline that holds.

Usage: test_plan_deadlines.py LULL [COUNT [FIRST_SEED]]
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import random
import subprocess
import sys
import tempfile

LULL = os.path.abspath(sys.argv[1])
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 12
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 1
SLOWDOWNS = [0, 1, 2, 5, 10, 20, 30, 40, 70, 100]
SLIP = 1 + 1e-9


def draw(rng):
    """The options of a pipeline and the lines of its profile: few clocks far apart, or many; some of them dearer."""
    stages, micro = rng.choice([(1, 3), (2, 2), (2, 3), (2, 3), (3, 2), (2, 5), (4, 4)])
    schedule = rng.choice(["1f1b", "1f1b", "gpipe", "1f1b-recompute"])
    clocks = sorted(rng.sample(range(210, 1755, 15), rng.choice([1, 2, 2, 3, 7])) + [1755], reverse=True)
    lines = ["stage,instruction,frequency,time,energy"]
    for stage in range(stages):
        for name in ("forward", "backward"):
            length, watts, share = rng.uniform(0.005, 0.04), rng.uniform(150, 400), rng.uniform(0, 0.4)
            for mhz in clocks:
                ratio = mhz / 1755
                time = length * (share + (1 - share) / ratio) * rng.uniform(1, 1.03)
                energy = time * (80 + (watts - 80) * ratio ** rng.uniform(1.5, 3))
                lines.append(f"{stage},{name},{mhz},{time:.6f},{energy:.4f}")
    blocking = rng.choice([0, 20, 85, 85, 150])
    return ["--stages", stages, "--microbatches", micro, "--schedule", schedule, "--blocking-w", blocking], lines


def plan(path, options, *more):
    words = [LULL, "plan", "--profile", path, *options, *more]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          timeout=120)


def answer(path, options, *more):
    done = plan(path, options, *more, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_single(seed, path, options, frontier):
    """Energies fall as deadlines grow, those of the frontier's plans among them."""
    least = float("inf")
    highest = frontier["all_max"]["time_s"]
    for slowdown in SLOWDOWNS:
        got = answer(path, options, "--slowdown", f"{slowdown}%")["frontier"][0]
        limit = highest * (1 + slowdown / 100)
        assert got["time_s"] <= limit * SLIP, (seed, slowdown, got, limit)
        assert got["bound_j"] <= got["energy_j"] * SLIP, (seed, slowdown, got)
        assert got["energy_j"] <= least * SLIP, f"seed {seed}: {slowdown} % slower needs {got['energy_j']}, not {least}"
        least = got["energy_j"]
        listed = min(point["energy_j"] for point in frontier["frontier"] if point["time_s"] <= limit * SLIP)
        assert abs(listed / least - 1) < 1e-9, f"seed {seed}: {slowdown} %: {least}, on the frontier {listed}"


def check_printed(seed, path, options, frontier):
    shown = plan(path, options).stdout.splitlines()
    rows = [line for line in shown if line.endswith("%") and not line.startswith("all")]
    for row in rows[:1] + rows[-1:]:
        time_s, energy_j = row[20:].split()[0], float(row[20:].split()[3])
        got = answer(path, options, "--deadline-ms", f"{float(time_s) * 1000:.3f}")["frontier"][0]
        assert got["energy_j"] <= energy_j + 1e-3, (seed, row, got)
    for point in random.Random(seed).sample(frontier["frontier"], min(2, len(frontier["frontier"]))):
        got = answer(path, options, "--deadline-ms", f"{point['time_s'] * 1000:.6f}")["frontier"][0]
        assert got["energy_j"] <= point["energy_j"] * SLIP, (seed, point, got)


def main():
    for seed in range(FIRST, FIRST + COUNT):
        options, lines = draw(random.Random(seed))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "profile.csv")
            with open(path, "w", encoding="utf-8") as file:
                print(*lines, sep="\n", file=file)
            frontier = answer(path, options)
            energies = [point["energy_j"] for point in frontier["frontier"]]
            assert energies == sorted(energies, reverse=True), seed
            small = options[1] * options[3] * 2 * (1.5 if options[5] == "1f1b-recompute" else 1) <= 24
            if small:
                check_single(seed, path, options, frontier)
            check_printed(seed, path, options, frontier)


main()
