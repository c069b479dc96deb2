"""Every call that the gloo shim wraps, on stubs of the libraries, with and without the shim: same results,
exceptions included, and the expected events.

usage: test_gloo_shim.py READER SHIM PROGRAM CALLER SOURCE_DIR
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys

BEGIN, END = 0, 1
ENTER, EXIT = 5, 4
# Collectives are called twice each, on a thread of their own; waiting counts on the main thread, which has number 0
# although it comes second.
COLLECTIVES = {"allgather": 4, "allreduce": 2, "alltoall": 4, "barrier": 2, "broadcast": 2, "gather": 4, "reduce": 2,
               "scatter": 2}
WAITS = {"broadcast": 2, "wait": 3}


def run(command, **variables):
    environment = dict(os.environ, **variables)
    if "LULL_JOB" not in variables:
        environment.pop("LULL_JOB", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def results(output):
    return re.findall(r"^(?:ran|caught|returned|wait).*$", output, re.M)


def events(output):
    return json.loads(re.search(r"^\[.*\]$", output, re.M | re.S).group(0))


def check_calls_are_covered(source_dir):
    with open(os.path.join(source_dir, "src/probe/gloo_calls.def"), encoding="utf-8") as file:
        names = re.findall(r"^COLLECTIVE\((\w+)", file.read(), re.M)
    with open(os.path.join(source_dir, "tests/probe/gloo_caller.cpp"), encoding="utf-8") as file:
        called = file.read()
    assert len(names) == 11, names
    assert not [name for name in names if f"(gloo::{name});" not in called], names


def check_events(process):
    counts = process["counts"]
    for thread, expected in (("first_thread", WAITS), ("other_threads", COLLECTIVES)):
        found = {operation: count for operation, (count, _) in process[thread].items()}
        assert found == expected, (thread, found)
    for operation, count in counts.items():
        assert count[BEGIN] == count[END], (operation, count)
    assert counts["none"][ENTER] == 1 and counts["none"][EXIT] == 1, counts
    assert process["lost"] == 0 and process["unmatched"] == 0, process


def main():
    reader, shim, program, caller, source_dir = (os.path.abspath(path) for path in sys.argv[1:])
    check_calls_are_covered(source_dir)
    for command, preload in (([program, caller], []), ([program], [caller])):
        plain = results(run(command, LD_PRELOAD=":".join(preload)))
        assert len(plain) == 2 * 2 * 11 + 3 * 4 + 1, plain
        assert plain.count("caught wait") == 3 and plain.count("wait gave 1") == 3, plain
        with_shim = ":".join([shim, *preload])
        assert results(run(command, LD_PRELOAD=with_shim)) == plain
        assert results(run(command, LD_PRELOAD=with_shim, LULL_JOB="/nonexistent")) == plain
        recorded = run([reader, "env", "LD_PRELOAD=" + with_shim, *command])
        assert results(recorded) == plain
        (process,) = events(recorded)
        check_events(process)

    # Preloaded into programs without gloo, also when every symbol is bound at load time.
    for command in (["sh", "-c", "echo works"], [sys.executable, "-c", "print('works')"]):
        for bind in ({}, {"LD_BIND_NOW": "1"}):
            output = run([reader, "env", "LD_PRELOAD=" + shim, *command], **bind)
            assert output.startswith("works") and output.strip().endswith("[]"), output


main()
