"""An unmodified PyTorch program on two CPU ranks, under Lull on an emulated node: same losses, and what the
gloo shim says of its communication agrees with PyTorch's own profiler in the same run.

usage: test_gloo.py LULL READER SHIM
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

LULL, READER, SHIM = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_program.py")
RANKS = 2
STEPS = 24  # of the program
# What PyTorch's profiler calls the operations of gloo that the shim tells apart.
NAMES = {"gloo:all_reduce": "allreduce", "gloo:broadcast": "broadcast", "gloo:all_gather": "allgather"}


def find_python():
    """A Python with PyTorch and gloo, None if there is none."""
    check = "import torch.distributed as d; assert d.is_available() and hasattr(d, 'ProcessGroupGloo')"
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0:
            return python
    return None


PYTHON = find_python()


def program(directory, *arguments, under=(), **variables):
    """Runs the program; its output, status and losses."""
    environment = dict(os.environ, LULL_RUNTIME_DIR=directory, **variables)
    for name in ("RANK", "LULL_JOB", "LD_PRELOAD"):
        environment.pop(name, None)
    done = subprocess.run([*under, PYTHON, PROGRAM, directory, *arguments], env=environment,
                          capture_output=True, text=True, check=False, timeout=60)
    losses = []
    for rank in range(RANKS):
        with open(os.path.join(directory, f"losses-{rank}.json"), encoding="utf-8") as file:
            losses.append(json.load(file))
    return done, losses


class Profile:
    """What PyTorch's profiler has seen on one rank, in seconds."""

    def __init__(self, directory, rank):
        with open(os.path.join(directory, f"trace-{rank}.json"), encoding="utf-8") as file:
            trace = json.load(file)
        self.events = trace["traceEvents"] if isinstance(trace, dict) else trace

    def ranges(self, wanted):
        return [(event["ts"] * 1e-6, (event["ts"] + event["dur"]) * 1e-6)
                for event in self.events if wanted(event)]

    def operations(self):
        """operation -> (calls, seconds), of gloo's threads."""
        found = {}
        for name, operation in NAMES.items():
            ranges = self.ranges(lambda event, name=name: event["name"] == name)
            if ranges:
                found[operation] = len(ranges), sum(end - begin for begin, end in ranges)
        return found

    def exposed_s(self):
        """Time in which gloo worked while the main thread computed nothing, and, since the wait for the gradients
        copies them back in between, in that copying."""
        main = next(event["tid"] for event in self.events if event["name"].startswith("DistributedDataParallel"))
        copies = union(self.ranges(lambda event: event["name"].endswith("copy_bucket_to_grad")))
        gloo = self.ranges(lambda event: event["name"].startswith("gloo:"))
        computing = self.ranges(lambda event: event["tid"] == main and not event["name"].startswith("gloo:"))
        computing = [operator for operator in computing if not is_inside(operator, copies)]
        return length_without(union(gloo + copies), union(computing))


def union(ranges):
    """The same time as ranges that do not meet, in order."""
    joined = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def is_inside(inner, ranges):
    return any(begin <= inner[0] and inner[1] <= end for begin, end in ranges)


def length_without(ranges, holes):
    """How long the ranges are, less what lies in holes; both as union gives them."""
    return sum(end - begin for begin, end in ranges) - sum(
        max(0.0, min(end, hole_end) - max(begin, hole_begin))
        for begin, end in ranges for hole_begin, hole_end in holes)


class Gloo(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lull-gloo-")
        self.addCleanup(holder.cleanup)
        self.directory = holder.name

    def check_seconds(self, found_s, expected_s, calls):
        """Within 5 %, and half a millisecond per call for a thread that must wait for a core there."""
        print(f"{calls} calls: lull {found_s:.4f} s, profiler {expected_s:.4f} s", file=sys.stderr)
        self.assertLess(abs(found_s - expected_s), 0.05 * expected_s + 0.5e-3 * calls)

    def test_calls_agree_with_the_profiler(self):
        done, _ = program(self.directory, under=[READER, "env", "LD_PRELOAD=" + SHIM])
        self.assertEqual(done.returncode, 0, done.stderr)
        processes = json.loads(re.search(r"^\[\{.*\}\]$", done.stdout, re.M | re.S).group(0))
        self.assertEqual(sorted(process["rank"] for process in processes), list(range(RANKS)))
        for process in processes:
            self.assertEqual((process["lost"], process["unmatched"]), (0, 0))
            profile = Profile(self.directory, process["rank"])
            expected = profile.operations()
            found = process["other_threads"]
            self.assertEqual({operation: count for operation, (count, _) in found.items()},
                             {operation: count for operation, (count, _) in expected.items()})
            # The profiler's ranges begin before gloo is called and end after it has returned.
            self.assertLess(found["allreduce"][1], expected["allreduce"][1])
            self.check_seconds(found["allreduce"][1], expected["allreduce"][1], expected["allreduce"][0])
            waits = process["first_thread"].values()
            self.check_seconds(sum(seconds for _, seconds in waits), profile.exposed_s(),
                               sum(count for count, _ in waits))

    def test_under_lull_run(self):
        plain, losses = program(self.directory, "3")
        self.assertEqual(plain.returncode, 3, plain.stderr)
        self.assertEqual(losses[0], losses[1])
        report = os.path.join(self.directory, "report")
        under = [LULL, "emulate", "2xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--quiet", "--report",
                 report, "--"]
        managed, managed_losses = program(self.directory, "3", under=under)
        self.assertEqual(managed.returncode, 3, managed.stderr)
        self.assertEqual(managed_losses, losses)
        with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
            gpus = json.load(file)["gpus"]
        self.assertEqual(len(gpus), RANKS)
        for gpu in gpus:
            profile = Profile(self.directory, gpu["index"])
            operations = profile.operations()
            # Each step waits for its gradients and for its loss; the rest is waited for one by one.
            rest = sum(operations[name][0] for name in ("broadcast", "allgather"))
            self.assertEqual((gpu["calls"], gpu["events_lost"]), (2 * STEPS + rest, 0))
            self.check_seconds(gpu["communication_ms"] * 1e-3, profile.exposed_s(), gpu["calls"])
            self.assertEqual(gpu["calls_per_iteration"], 2)


if __name__ == "__main__":
    if PYTHON is None:
        print("skipped: no Python with PyTorch and gloo (Debian: python3-torch)")
        sys.exit(77)
    unittest.main(verbosity=2)
