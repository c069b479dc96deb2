"""Every wrapped MPI call, with and without the shim: same results, expected events.

SHIM may be several, parted by colons as in LD_PRELOAD: `lull run` loads Open MPI's and MPICH's, in this order.

usage: test_mpi_shim.py FLAVOR READER SHIM PROGRAM SOURCE_DIR
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys

BEGIN, END, POST, STEP, EXIT, ENTER = range(6)
OPERATIONS = ("barrier allreduce reduce reduce_scatter allgather gather scatter broadcast alltoall "
              "scan neighbor").split()


def launcher(flavor):
    """The words before the program, for two ranks."""
    command = shutil.which("mpirun." + flavor) or shutil.which("mpirun")
    if command is None:
        print("skipped: no mpirun")
        sys.exit(77)
    return [command, "-n", "2"] + (["--oversubscribe"] if flavor == "openmpi" else [])


def with_shim(flavor, shim):
    if flavor == "openmpi":
        return ["-x", "LD_PRELOAD=" + shim]
    return ["-genv", "LD_PRELOAD", shim]


def run(command, **variables):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_btl="self,vader")
    environment.pop("LULL_JOB", None)
    environment.update(variables)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def results(output):
    return sorted(line for line in output.splitlines() if line.startswith("rank "))


def processes(output):
    return json.loads(re.search(r"^\[\{.*\}\]$", output, re.M | re.S).group(0))


def check_calls_are_covered(source_dir):
    """Each function of the table is called by the test program."""
    table = open(os.path.join(source_dir, "src/probe/mpi_calls.def")).read()
    called = "".join(open(os.path.join(source_dir, "tests/probe", name)).read()
                     for name in ("mpi_calls.c", "mpi_calls_body.h"))
    names = set(re.findall(r"^(?:SECTION|POSTED|POLL)\((\w+)", table, re.M))
    for pair in re.findall(r"^COLLECTIVE\((\w+), (\w+)", table, re.M):
        names.update(pair)
    assert len(names) > 70, len(names)
    missing = [name for name in sorted(names)
               if not re.search(r"(MPI_%s\(|F\(%s\)|COLL\((\w+, )?%s\b)" % ((name,) * 3), called)]
    assert not missing, missing


def check_events(process, size):
    counts = process["counts"]
    assert process["rank"] in range(size) and process["size"] == size, process
    assert process["lost"] == 0 and process["unmatched"] == 0, process
    assert process["local_rank"] == process["rank"], process
    assert counts["none"][ENTER] == 1 and counts["none"][EXIT] == 1, counts
    for operation, count in counts.items():
        assert count[BEGIN] == count[END], (operation, count)
    for operation in OPERATIONS:
        assert counts[operation][BEGIN] > 0 and counts[operation][POST] > 0, (operation, counts)
    assert counts["barrier"][BEGIN] >= 300 and counts["sendrecv"][BEGIN] >= 2, counts
    assert counts["wait"][BEGIN] > 30 and counts["probe"][BEGIN] > 0, counts
    assert counts["none"][POST] == 3, counts  # MPI_Startall, MPI_Start twice
    assert 0 < process["section_seconds"] < process["seconds"], process


def main():
    flavor = sys.argv[1]
    shim = sys.argv.pop(3)
    reader, program, source_dir = (os.path.abspath(path) for path in sys.argv[2:])
    start = launcher(flavor)
    check_calls_are_covered(source_dir)
    plain = results(run(start + [program]))
    silent = results(run(start + with_shim(flavor, shim) + [program]))
    recorded = run([reader] + start + with_shim(flavor, shim) + [program])
    assert len(plain) > 80 and plain == silent == results(recorded)

    found = processes(recorded)
    assert len(found) == 2, "mpirun itself must not claim a slot"
    for process in found:
        check_events(process, 2)

    # Preloaded into programs without MPI, also when every symbol is bound at load time.
    for command in (["sh", "-c", "echo works"], [sys.executable, "-c", "print('works')"]):
        for bind in ({}, {"LD_BIND_NOW": "1"}):
            output = run([reader] + command, LD_PRELOAD=shim, **bind)
            assert output.startswith("works"), output
            assert output.strip().endswith("[]"), output
    # A segment that cannot be joined.
    for path in ("", "/nowhere", "/dev/null", sys.argv[0]):
        assert results(run(start + with_shim(flavor, shim) + [program], LULL_JOB=path)) == plain
    print("%s: %d results equal" % (flavor, len(plain)))


main()
