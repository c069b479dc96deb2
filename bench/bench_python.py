"""Measures what the marks of the Python package cost, in nanoseconds per call, without a governor and under `lull run` on an
emulated node: the median and the 99th percentile of the means of 200 calls. A loop that does nothing is subtracted.

usage: bench_python.py BUILD"""
# SPDX-License-Identifier: Apache-2.0
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLS = 200
MEASURE = f"""
import time, lull

def step(calls):
    for _ in calls:
        lull.step()

def section(calls):
    for _ in calls:
        with lull.section("optimizer"):
            pass

def nothing(calls):
    for _ in calls:
        pass

def times(function):
    samples = []
    for _ in range(600):
        begin = time.perf_counter_ns()
        function(range({CALLS}))
        samples.append((time.perf_counter_ns() - begin) / {CALLS})
        time.sleep(0.005)  # the governor empties the ring
    return samples

for function in (nothing, step, section):
    print(function.__name__, *times(function))
"""


def measure(*prefix, **variables):
    done = subprocess.run([*prefix, sys.executable, "-c", MEASURE], env=dict(os.environ, **variables), stdout=subprocess.PIPE,
                          text=True, check=True)
    samples = {words[0]: sorted(float(word) for word in words[1:]) for words in map(str.split, done.stdout.splitlines())}
    empty = statistics.median(samples.pop("nothing"))
    return {name: (statistics.median(row) - empty, row[len(row) * 99 // 100] - empty) for name, row in samples.items()}


def main():
    build = os.path.abspath(sys.argv[1])
    lull = os.path.join(build, "src", "cli", "lull")
    variables = {"PYTHONPATH": os.path.join(ROOT, "python"), "LULL_LIBRARY": os.path.join(build, "src", "probe", "liblull.so.0")}
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        managed = measure(lull, "emulate", "1xA100", "--", lull, "run", "--no-daemon", "--quiet", "--runtime-dir", directory,
                          "--report", directory, "--", **variables)
    for name, figures in {"no liblull": measure(**dict(variables, LULL_LIBRARY="/nowhere")),
                          "no governor": measure(**variables), "lull run": managed}.items():
        for call, (p50, p99) in figures.items():
            print(f"{name:12} {call:8} p50 {p50:5.0f} ns  p99 {p99:5.0f} ns")


if __name__ == "__main__":
    main()
