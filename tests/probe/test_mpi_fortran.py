"""A Fortran program, with and without the shim: same results, expected events.

SHIM may be several, parted by colons as in LD_PRELOAD.

usage: test_mpi_fortran.py FLAVOR READER SHIM SOURCE
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BEGIN, END, POST, STEP, EXIT, ENTER = range(6)


def run(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.pop("LULL_JOB", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    return done.stdout, sorted(line for line in lines if line.startswith("rank "))


def main():
    flavor = sys.argv[1]
    shim = sys.argv.pop(3)
    reader, source = (os.path.abspath(path) for path in sys.argv[2:])
    compiler, mpirun = shutil.which("mpif90." + flavor), shutil.which("mpirun." + flavor)
    if compiler is None or mpirun is None:
        print("skipped: no Fortran compiler or mpirun of", flavor)
        sys.exit(77)
    openmpi = flavor == "openmpi"
    start = [mpirun, "-n", "2"] + (["--oversubscribe"] if openmpi else [])
    load = ["-x", "LD_PRELOAD=" + shim] if openmpi else ["-genv", "LD_PRELOAD", shim]
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "fortran_calls")
        subprocess.run([compiler, "-o", program, source], check=True, cwd=directory)
        plain = run(start + [program])[1]
        assert len(plain) == 2 and run(start + load + [program])[1] == plain, plain
        output, recorded = run([reader] + start + load + [program])
    assert recorded == plain, (recorded, plain)
    processes = json.loads(re.search(r"^\[\{.*\}\]$", output, re.M | re.S).group(0))
    assert len(processes) == 2
    for process in processes:
        counts = process["counts"]
        assert counts["none"][ENTER] == counts["none"][EXIT] == 1, counts
        assert counts["allreduce"][BEGIN] == counts["allreduce"][END] == 10, counts
        assert counts["barrier"][BEGIN] == 1 and counts["wait"][BEGIN] >= 1, counts
        assert counts["send"][BEGIN] >= 1 and counts["receive"][POST] == 1, counts
        assert process["size"] == 2 and process["unmatched"] == 0, process


main()
