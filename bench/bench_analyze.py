"""Measures the speed of lull analyze in megabytes of JSON text per second, plain and gzip, and compares
it with HolisticTraceAnalysis from PyPI on the same file in the same run.

Usage: bench_analyze.py LULL TRACE.json.gz DIRECTORY; DIRECTORY keeps the virtual environment.
SPDX-License-Identifier: Apache-2.0
"""
import gzip
import os
import subprocess
import sys
import tempfile
import time

COPIES = 8  # how many copies of the trace's events the speed is measured with
COPIES_COMPARED = 2  # fewer, because HolisticTraceAnalysis takes long
REPEATS = 5
PACKAGE = "HolisticTraceAnalysis"
HOLISTIC = """
import logging, sys, time
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis
begin = time.monotonic()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
print(time.monotonic() - begin)
"""


def enlarge(text, copies):
    """Writes the trace with its events repeated this many times."""
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"]")
    return text[:begin] + b",".join([text[begin:end].rstrip()] * copies) + text[end:]


def write(path, text):
    with open(path, "wb") as file:
        file.write(gzip.compress(text, 6) if path.endswith(".gz") else text)
    return path


def seconds(lull, path):
    """Returns the shortest time of several runs, each a whole process."""
    times = []
    for _ in range(REPEATS):
        begin = time.monotonic()
        subprocess.run([lull, "analyze", "--json", path], check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - begin)
    return min(times)


def holistic(directory):
    """Returns a Python that has the package, in a virtual environment of its own, or None with a reason."""
    environment = os.path.abspath(os.path.join(directory, "holistic"))
    python = os.path.join(environment, "bin", "python")
    try:
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE],
                       check=True, timeout=600)
        return python
    except (OSError, subprocess.SubprocessError) as error:
        print(f"skipped: {PACKAGE} cannot be installed: {error}")
        return None


def compare(lull, text, directory, temporary):
    python = holistic(directory)
    if python is None:
        return
    path = write(os.path.join(temporary, "compared.json"), enlarge(text, COPIES_COMPARED))
    done = subprocess.run([python, "-c", HOLISTIC, path], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"skipped: {PACKAGE} failed: {done.stderr.strip().splitlines()[-1]}")
        return
    theirs, ours = float(done.stdout.split()[-1]), seconds(lull, path)
    print(f"{os.path.getsize(path) / 1e6:.0f} MB: {PACKAGE} {theirs:.2f} s (without start and imports), "
          f"lull analyze {ours:.3f} s (all): {theirs / ours:.0f} times as fast (at least 8)")


def main():
    lull, trace, directory = sys.argv[1:]
    with gzip.open(trace) as file:
        text = file.read()
    with tempfile.TemporaryDirectory(prefix="lull-") as temporary:
        large = enlarge(text, COPIES)
        for name, least in (("large.json", 100), ("large.json.gz", 80)):
            path = write(os.path.join(temporary, name), large)
            speed = len(large) / 1e6 / seconds(lull, path)
            print(f"{name}: {len(large) / 1e6:.0f} MB of text, {speed:.0f} MB/s (at least {least})", flush=True)
        del large
        compare(lull, text, directory, temporary)


if __name__ == "__main__":
    main()
