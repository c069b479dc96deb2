"""Unmodified hpcc and LAMMPS under `lull run -- mpirun -n 4` on an emulated node: same results, and the
share of communication agrees with an independent timer in the same run.

usage: test_programs.py PROGRAM LULL SHIM TIMER
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HPCC_INPUT = "/usr/share/doc/hpcc/examples/_hpccinf.txt"
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run 200
"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def command_of(program, directory):
    if shutil.which(program) is None or shutil.which("mpirun.openmpi") is None:
        skip("no %s or no Open MPI" % program)
    if program == "lmp":
        with open(os.path.join(directory, "in.melt"), "w") as file:
            file.write(MELT)
        return ["lmp", "-in", "in.melt", "-log", "none"]
    if not os.path.exists(HPCC_INPUT):
        skip("no example input of hpcc")
    text = open(HPCC_INPUT).read()
    with open(os.path.join(directory, "hpccinf.txt"), "w") as file:
        file.write(re.sub(r"^1000 +Ns$", "400  Ns", text, flags=re.M))
    return ["hpcc"]


def run(directory, command, preload=(), under=(), timer_output=""):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       MPI_TIMER_OUTPUT=timer_output, LULL_RUNTIME_DIR=directory)
    output = os.path.join(directory, "hpccoutf.txt")
    if os.path.exists(output):
        os.remove(output)
    start = ["mpirun.openmpi", "-n", "4", "--oversubscribe"]
    if preload:
        start += ["-x", "LD_PRELOAD=" + ":".join(preload)]
    done = subprocess.run([*under, *start, *command], env=environment, cwd=directory,
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-1000:])
    return done.stdout, open(output).read() if os.path.exists(output) else ""


def results(program, stdout, hpcc_output):
    """What must not change: LAMMPS' thermodynamics; hpcc's verdicts."""
    if program == "lmp":
        return re.findall(r"^ +\d+ +[-\d.]+ +[-\d.]+ +[-\d.]+ +[-\d.]+ +[-\d.]+ *$", stdout, re.M)
    assert "Success=1" in hpcc_output
    assert not re.search(r"FAILED|[1-9]\d* tests completed and failed", hpcc_output)
    # Not the lines of single runs: those whose processor time is too short to tell are left out. Nor how many updates
    # of random places met each other, as long as hpcc passes them.
    return re.findall(r"(\.\.\. PASSED|\d+ tests completed[^\n]*|errors in \d+ locations \(passed\)|Success=1)", hpcc_output)


def shares(report, timer_output):
    """Of each rank: Lull's and the timer's share of communication."""
    found = {gpu["index"]: gpu for gpu in json.load(open(report))["gpus"]}
    assert len(found) == 4, found
    # A governor that a busy host keeps from its ring for long loses events, and then its shares mean nothing.
    if any(gpu["events_lost"] > 0 for gpu in found.values()):
        return None
    rows = []
    for line in open(timer_output):
        rank, seconds, communicating, polling = (float(word) for word in line.split())
        rows.append((int(rank), found[int(rank)]["communication_ratio"], communicating / seconds, polling / seconds))
    return rows


def main():
    program = sys.argv[1]
    lull, shim, timer = (os.path.abspath(path) for path in sys.argv[2:])
    with tempfile.TemporaryDirectory() as directory:
        command = command_of(program, directory)
        plain = results(program, *run(directory, command))
        timer_output = os.path.join(directory, "timer.txt")
        under = [lull, "emulate", "4xA100", "--", lull, "run", "--no-daemon", "--quiet", "--report", directory, "--"]
        assert len(plain) >= 5, plain
        for _ in range(4):
            stdout, hpcc_output = run(directory, command, [timer, shim], under, timer_output)
            assert results(program, stdout, hpcc_output) == plain
            rows = shares(os.path.join(directory, "report.json"), timer_output)
            if rows is not None:
                break
        if rows is None:
            print("skipped: the host is so busy that events were lost in each of four runs")
            sys.exit(77)
        worst = 0.0
        for rank, ours, theirs, polling in rows:
            print("rank %d: lull %.4f timer %.4f (polling %.4f)" % (rank, ours, theirs, polling))
            worst = max(worst, abs(ours - theirs))
    print("%s: largest difference %.2f percentage points" % (program, 100 * worst))
    assert worst < 0.02


main()
