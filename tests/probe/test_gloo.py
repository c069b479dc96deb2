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

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, READER, SHIM = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_program.py")
RANKS = 2
STEPS = 24  # of the program
# What PyTorch's profiler calls the operations of gloo that the shim distinguishes.
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
                          capture_output=True, text=True, check=False, timeout=300)
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

    def waiting_s(self):
        """Bounds for how long the main thread waited for gloo: while gloo worked and the main thread did not; and
        from what the main thread did before such a stretch until what it did next. Copying gradients back belongs
        to the wait for them, which is one for all."""
        main = next(event["tid"] for event in self.events if event["name"].startswith("DistributedDataParallel"))
        copies = union(self.ranges(lambda event: event["name"].endswith("copy_bucket_to_grad")))
        gloo = union(self.ranges(lambda event: event["name"].startswith("gloo:")) + copies)
        computing = self.ranges(lambda event: event["tid"] == main and not event["name"].startswith("gloo:"))
        computing = union([operator for operator in computing if not is_inside(operator, copies)])
        gaps = [(before[1], after[0]) for before, after in zip(computing, computing[1:])]
        gaps = [gap for gap in gaps if any(begin < gap[1] and gap[0] < end for begin, end in gloo)]
        exposed_s = sum(end - begin for begin, end in gloo) - overlap(gloo, computing)
        return exposed_s, sum(end - begin for begin, end in gaps)


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


def overlap(left, right):
    """Time in both, each as union gives it."""
    return sum(max(0.0, min(end, other_end) - max(begin, other_begin))
               for begin, end in left for other_begin, other_end in right)


class Gloo(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lull-gloo-")
        self.addCleanup(holder.cleanup)
        self.directory = holder.name

    def check_waiting(self, found_s, profile):
        exposed_s, until_next_s = profile.waiting_s()
        print(f"waiting: lull {found_s:.4f} s, profiler {exposed_s:.4f} to {until_next_s:.4f} s", file=sys.stderr)
        self.assertGreater(found_s, 0.95 * exposed_s)
        self.assertLess(found_s, 1.01 * until_next_s)

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
            calls, expected_s = expected["allreduce"]
            found_s = found["allreduce"][1]
            print(f"{calls} calls: lull {found_s:.4f} s, profiler {expected_s:.4f} s", file=sys.stderr)
            # The profiler's ranges begin before gloo is called and end after it has returned; on a busy machine a
            # thread may have to wait for a core in between.
            self.assertLess(found_s, expected_s)
            self.assertGreater(found_s, 0.95 * expected_s - 0.5e-3 * host.slowness() * calls)
            self.check_waiting(sum(seconds for _, seconds in process["first_thread"].values()), profile)

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
            self.check_waiting(gpu["communication_ms"] * 1e-3, profile)
            self.assertEqual(gpu["calls_per_iteration"], 2)


if __name__ == "__main__":
    if PYTHON is None:
        print("skipped: no Python with PyTorch and gloo (Debian: python3-torch)")
        sys.exit(77)
    unittest.main(verbosity=2)
