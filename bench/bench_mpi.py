"""Measures what the MPI shim adds to a call, in units of two clock_gettime calls. Runs alternate between
no shim, the shim without a job, and the shim in a job that a reader drains; medians are printed.

usage: bench_mpi.py READER (FLAVOR SHIM PROGRAM)...
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import statistics
import subprocess
import sys

RUNS = 7
LIMIT_RATIO = 6.0


def times(command, **variables):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.pop("LULL_JOB", None)
    environment.update(variables)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(word) for word in re.search(r"^bench (.*)$", done.stdout, re.M).group(1).split()]


def measure(flavor, reader, shim, program):
    samples = {"plain": [], "no job": [], "job": []}
    for _ in range(RUNS):
        samples["plain"].append(times([program]))
        samples["no job"].append(times([program], LD_PRELOAD=shim))
        samples["job"].append(times([reader, program], LD_PRELOAD=shim))
    medians = {name: [statistics.median(column) for column in zip(*rows)]
               for name, rows in samples.items()}
    unit = medians["plain"][2]
    worst = 0.0
    for kind, call in enumerate(("MPI_Barrier", "MPI_Allreduce")):
        plain, no_job, job = (medians[name][kind] for name in ("plain", "no job", "job"))
        print("%s %s: %.1f ns; shim adds %.1f ns without a job, %.1f ns with: %.2f times two "
              "clock_gettime (%.1f ns)" % (flavor, call, plain, no_job - plain, job - plain,
                                           (job - plain) / unit, unit))
        worst = max(worst, (job - plain) / unit)
    return worst


def main():
    reader, *rest = (os.path.abspath(word) if "/" in word else word for word in sys.argv[1:])
    worst = 0.0
    for i in range(0, len(rest), 3):
        worst = max(worst, measure(rest[i], reader, *rest[i + 1:i + 3]))
    sys.exit(worst > LIMIT_RATIO)


main()
