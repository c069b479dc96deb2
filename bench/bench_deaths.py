#!/usr/bin/env python3
"""Kills the parts of a real cluster at random moments (kill -9): lull-schedule, slurmctld, slurmd and lulld, several of them
at a time, and starts them again as an init system would. Four nodes, each with eight emulated GPUs and a lulld of its own;
in each round some jobs run through lull-schedule at low and at full clocks. Afterwards every job has to have ended
exactly once, every GPU to be at its own clocks, and no lease, cap or job to be left with a lulld.

usage: bench_deaths.py BUILD CLUSTER_TOOLS [--rounds N] [--jobs N] [--seed N] [--kinds client,slurmctld,slurmd,lulld] [--without-lull]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster", "tests", "slurm"))
import cluster as slurm  # noqa: E402
from cluster import host, run  # noqa: E402

PORT = 17700
NODES = 4
GPUS = 8
KINDS = ("client", "slurmctld", "slurmd", "lulld")
# slurmctld writes down what has changed no sooner than 5 s after it last did so.
SAVED_S = 7.0
LIMIT_S = 50
# Jobs of this name have one lower clock that takes less energy; greedy-energy without patience chooses it.
POINTS = {"gpus": {"h100": {"idle_w": 60, "full_w": 400}},
          "jobs": {"low": {"time_s": 60, "gpus": {"h100": [{"sm_mhz": 0, "time_ratio": 1, "gpu_w": 400},
                                                           {"sm_mhz": 900, "time_ratio": 1.2, "gpu_w": 200}]}}}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build")
    parser.add_argument("tools")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--unsaved", action="store_true", help="kill slurmctld also when it has not saved its state, which it then loses")
    parser.add_argument("--without-lull", action="store_true", help="no client: Slurm's own scheduler has the jobs")
    return parser.parse_args()


class Node:
    """An emulated node that stays while its lulld dies."""

    def __init__(self, lull, lulld, tool, name, runtime):
        self.name, self.lulld, self.tool, self.runtime = name, lulld, tool, runtime
        code = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.stdin.read()"
        self.emulator = subprocess.Popen([lull, "emulate", f"{GPUS}xA100-SXM4-40GB", "--", sys.executable, "-c", code],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.environment = dict(json.loads(self.emulator.stdout.readline()), LULL_RUNTIME_DIR=runtime)
        self.daemon = None

    def start(self):
        def spawn(*words, **more):
            with open(self.runtime + ".log", "a", encoding="utf-8") as log:
                return subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL, env=self.environment, **more)
        self.daemon = host.start_lulld(spawn, self.lulld, "--socket-mode", "0666")

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def locked(self):
        """The GPUs whose clock is locked in truth."""
        return [gpu for gpu in range(GPUS) if run(self.tool, "truth", gpu, env=self.environment).stdout.strip() != "free"]

    def stop(self):
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait()
        self.emulator.stdin.close()
        self.emulator.wait()


class Bench:
    def __init__(self, options):
        self.options = options
        self.kinds = [kind for kind in options.kinds.split(",") if kind != "client" or not options.without_lull]
        self.build = os.path.abspath(options.build)
        self.lull = self.program("src/cli/lull")
        self.chance = random.Random(options.seed)
        os.environ["LULL_SUBMIT_CONF"] = "/dev/null"
        plugin = self.program("cluster/slurm/spank_lull.so")
        self.cluster = slurm.Cluster(
            os.path.abspath(options.tools), None, plugin, PORT, nodes=NODES, gpus=GPUS,
            plugin_options=[f"lull={self.lull}", f"scheduler={self.program('cluster/slurm/lull-schedule')}"],
            conf=["JobSubmitPlugins=lull", slurm.plugin_dir(plugin)])
        self.work = self.cluster.work
        self.nodes = []
        self.client = None
        self.killed = collections.Counter()
        self.freed = []  # nodes on which Slurm was stuck
        self.locked = 0  # GPUs at a job's clock when their lulld was killed
        with open(os.path.join(self.work, "points.json"), "w", encoding="utf-8") as file:
            json.dump(POINTS, file)

    def program(self, path):
        return os.path.join(self.build, path)

    def begin(self):
        for number in range(1, NODES + 1):
            self.nodes.append(Node(self.lull, self.program("src/daemon/lulld"), self.program("tests/daemon/daemon_tool"), f"n{number}",
                                   os.path.join(self.cluster.directory, f"n{number}")))
            self.nodes[-1].start()
        self.start_client()

    def end(self):
        if self.client is not None:
            self.client.kill()
            self.client.wait()
        for node in self.nodes:
            node.stop()
        self.cluster.stop()

    # ---- the four kinds ----

    def start_client(self):
        if self.options.without_lull:
            return
        with open(os.path.join(self.work, "client.log"), "a", encoding="utf-8") as log:
            self.client = subprocess.Popen(
                [self.program("cluster/slurm/lull-schedule"), "--interval=0.1", "--state", os.path.join(self.work, "state"), "--policy=greedy-energy",
                 "--knob=0", "--points", os.path.join(self.work, "points.json")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill_daemon_of_slurm(self, name):
        """A daemon is known by its file; waits until it is gone, for its port has to be free."""
        with open(os.path.join(self.cluster.slurm, "run", f"{name}.pid"), encoding="utf-8") as file:
            number = int(file.read())
        os.kill(number, signal.SIGKILL)
        host.wait_for(lambda: slurm.is_over(number), 20, 0.01)

    def start_slurmctld(self):
        run(os.path.join(self.cluster.slurm, "bin", "slurmctld"), "-f", os.environ["SLURM_CONF"])

    def start_slurmd(self, name):
        folder = os.path.join(self.cluster.slurm, "bin")
        run(os.path.join(folder, "slurmd"), "-N", name, "-f", os.environ["SLURM_CONF"], "-d", os.path.join(folder, "slurmstepd"),
            env=dict(os.environ, SLURMD_NODENAME=name))

    def is_saved(self):
        """Whether slurmctld has written down all that has happened to jobs."""
        changes = [*glob.glob(os.path.join(self.work, "ran-*")), *glob.glob(os.path.join(self.work, "state", "*"))]
        last_s = max(map(os.path.getmtime, changes), default=0)
        try:
            return os.path.getmtime(os.path.join(self.cluster.slurm, "state", "job_state")) > last_s + 1
        except OSError:
            return False  # it is being renamed

    def strike(self):
        """Kills one or several parts and starts them again after up to half a second, in the order of their deaths."""
        restarts = []
        for kind in self.chance.sample(self.kinds, self.chance.randint(1, len(self.kinds))):
            node = self.chance.choice(self.nodes)
            if kind == "client":
                self.client.kill()
                self.client.wait()
                restarts.append(self.start_client)
            elif kind == "slurmctld":
                if not self.options.unsaved and host.wait_for(self.is_saved, 12, 0.01) is None:
                    continue
                self.kill_daemon_of_slurm("slurmctld")
                restarts.append(self.start_slurmctld)
            elif kind == "slurmd":
                self.kill_daemon_of_slurm(f"slurmd.{node.name}")
                restarts.append(lambda name=node.name: self.start_slurmd(name))
            else:
                self.locked += len(node.locked())
                node.kill()
                restarts.append(node.start)
            self.killed[kind] += 1
            time.sleep(self.chance.uniform(0.0, 0.1))
        time.sleep(self.chance.uniform(0.0, 0.5))
        for restart in restarts:
            restart()

    # ---- a round ----

    def submit(self, path):
        asked = self.chance.choice((["--gres=gpu:1"], ["--gres=gpu:2"], ["--gres=gpu:4"], ["--gres=gpu:8"], ["-N2", "--gres=gpu:8"]))
        text = f"echo begin $SLURM_JOB_ID >>{path}; sleep {self.chance.uniform(2, 9):.2f}; echo end $SLURM_JOB_ID >>{path}"
        by_lull = [] if self.options.without_lull else ["--lull-schedule"]
        # slurmctld loses unsaved state, and a job whose submission was lost cannot be run.
        done = run("sbatch", "--parsable", f"--begin=now+{SAVED_S + 1:.0f}", *by_lull, "-J", self.chance.choice(("low", "full")), "-t", "5", "-o", "/dev/null", *asked,
                   "--wrap", text)
        return int(done.stdout)

    def is_idle(self):
        return (run("squeue", "-h").stdout.strip() == "" and
                run("sinfo", "-h", "-o", "%T %D").stdout.strip() == f"idle {NODES}")

    def free_nodes(self):
        """What Slurm's own manual has an administrator do where jobs stay COMPLETING: slurmctld waits for ever for the word of a
        slurmd that was killed while it was told of a job."""
        for name in run("sinfo", "-h", "-N", "-t", "comp", "-o", "%N").stdout.split():
            for state in ("down", "resume"):
                run("scontrol", "update", f"node={name}", f"state={state}", "reason=completing")
            self.freed.append(name)

    def left(self, node):
        """What a lulld still has of jobs, in words; nothing: None."""
        done = run(self.lull, "status", "--json", env=node.environment)
        try:
            gpus = json.loads(done.stdout)["gpus"]
        except ValueError:
            return done.stderr.strip()
        leases = [gpu["gpu"] for gpu in gpus if gpu["lease"] or gpu["cap"]]
        folder = os.path.join(node.runtime, "jobs")
        jobs = os.listdir(folder) if os.path.isdir(folder) else []
        return f"{node.name}: leases or caps on {leases}, jobs {jobs}" if leases or jobs else None

    def judge(self, jobs, path):
        """What is wrong after a round: a list of words."""
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        wrong = []
        for job in jobs:
            begins, ends = (sum(line == [word, str(job)] for line in lines) for word in ("begin", "end"))
            if (begins, ends) != (1, 1):
                wrong.append(f"job {job} began {begins} times and ended {ends} times")
        if host.wait_for(lambda: not any(node.locked() for node in self.nodes), 10, 0.2) is None:
            wrong.append("locked: " + ", ".join(f"{node.name} {node.locked()}" for node in self.nodes if node.locked()))
        if host.wait_for(lambda: not any(map(self.left, self.nodes)), 10, 0.2) is None:
            wrong += filter(None, map(self.left, self.nodes))
        return wrong

    def round(self, number):
        path = os.path.join(self.work, f"ran-{number}")
        self.killed.clear()
        self.freed.clear()
        jobs = [self.submit(path) for _ in range(self.options.jobs)]
        time.sleep(SAVED_S)
        begin = time.monotonic()
        for _ in range(self.chance.randint(1, 3)):
            time.sleep(self.chance.uniform(0.0, 4.0))
            self.strike()
        if host.wait_for(self.is_idle, LIMIT_S, 0.2) is None:
            self.free_nodes()
            host.wait_for(self.is_idle, LIMIT_S, 0.2)
        left = run("squeue", "-h", "-o", "%A %T %r").stdout.split("\n")[:-1]
        wrong = [f"still there after {LIMIT_S} s: {line}" for line in left] + self.judge(jobs, path)
        print(f"  round {number + 1}: {len(jobs)} jobs in {time.monotonic() - begin:.0f} s, "
              f"killed {', '.join(f'{kind} {self.killed[kind]}' for kind in self.kinds)}: {'; '.join(wrong) or 'each ended once, all restored'}"
              f"{' (after an administrator has freed ' + ', '.join(self.freed) + ')' if self.freed else ''}",
              flush=True)
        run("scancel", "-u", "root")
        host.wait_for(self.is_idle, 60, 0.2)
        return not wrong


def main():
    options = arguments()
    reason = slurm.reason_to_skip(options.tools)
    if reason:
        print(f"skipped: {reason}")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = Bench(options)
    try:
        bench.begin()
        right = sum(bench.round(number) for number in range(options.rounds))
        print(f"{right} of {options.rounds} rounds: every job ended exactly once, and everything was restored; {bench.locked} GPUs were at a "
              "job's clock when their lulld was killed")
        return 0 if right == options.rounds else 1
    finally:
        bench.end()


if __name__ == "__main__":
    sys.exit(main())
