#!/usr/bin/env python3
"""Lull's policies on a real Slurm cluster: four nodes of eight emulated GPUs, a mix of jobs in compressed arrival order, once under Slurm's
own scheduler at full clocks and once under each policy of lull-schedule; and the same jobs in lull simulate cluster. Prints energy,
completion times, deadline misses and slowdowns. Wants root, and a host on which little else runs.

usage: experiment.py BUILD CLUSTER_TOOLS [--jobs N] [--seed N] [--policies NAME,NAME...|none] [--json]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "slurm"))
import cluster as slurm  # noqa: E402
from cluster import host, run, wait_idle  # noqa: E402

import experiment_mix as mix  # noqa: E402
from experiment_jobs import command  # noqa: E402

PORT = 17460
POLICIES = ("fifo", "edf", "sjf", "lpt", "backfill", "backfill-conservative", "srtf", "srsf", "hdf", "powerflow", "greedy-energy", "pd-rats")
# Of 29 seeds (1 to 15, 40 to 54) the one whose simulated completion times depend least on the tenths of a second that starts take: by 1.7 %
# (standard deviation over six draws of the starts, mean of the policies), where others do by 2.7 to 4.9 %. Where a tenth of a second decides
# who gets a node, nothing can be foretold.
SEED = 15
# Slurm's own scheduler in two words: first come, first served, and what does not delay the first.
SLURMS_OWN = "backfill"
# The temperature at which GPUs begin is that of a job that draws so much, for a GPU's power follows it by some per cent.
WARM_W = 200
# Jobs that show how long a node takes from the end of one to the begin of the next, and then some that find room when they come. They end and
# come at all fractions of a second, for slurmctld has a beat of a second.
CHAIN = [mix.Job(number, "train", round(0.7 + 0.61 * number % 1, 2), mix.NODE_GPUS, 0.0, math.inf) for number in range(6 * mix.NODES)]
ALONE = [mix.Job(len(CHAIN) + number, "train", 1, 1, 14 + 0.71 * number, math.inf) for number in range(16)]
# A pass that takes so much longer than simulated has lost a job.
PATIENCE = 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("build")
    parser.add_argument("tools")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def say(text):
    """Where it is, on a terminal in one line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def find_torch_python():
    """A Python that has PyTorch; None: there is none (python3-torch of Debian)."""
    for python in ("/usr/bin/python3", sys.executable):
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Node:
    """An emulated node with its lulld, and a meter of all its GPUs."""

    def __init__(self, lull, lulld, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)
        tell = os.path.join(directory, "emulated.sh")
        script = 'printf "export LULL_EMULATED_NODE=%s LD_LIBRARY_PATH=%s\\n" "$LULL_EMULATED_NODE" "$LD_LIBRARY_PATH" >"$0"; exec "$@"'

        def spawn(*words, **more):
            with open(os.path.join(directory, "lulld.log"), "a", encoding="utf-8") as log:
                return subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)
        self.lulld = host.start_lulld(spawn, lull, "emulate", "--seed", "0", "--warm", str(WARM_W), f"{mix.NODE_GPUS}x{mix.MODEL}", "--",
                                      "/bin/sh", "-c", script, tell, lulld, "--socket-mode", "0666",
                                      env=dict(os.environ, LULL_RUNTIME_DIR=directory))
        self.meter = subprocess.Popen(["/bin/sh", "-c", '. "$0"; exec "$@" meter', tell, lull], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)

    def energy_j(self):
        print(file=self.meter.stdin, flush=True)
        told = self.meter.stdout.readline().strip()
        if told in ("", "unknown"):
            raise RuntimeError(f"the energy of the GPUs of {self.directory} cannot be read")
        return float(told)

    def stop(self):
        self.meter.stdin.close()
        self.meter.wait()
        self.meter.stdout.close()
        self.lulld.terminate()
        self.lulld.wait()


class Experiment:
    """The cluster, up until stop()."""

    def __init__(self, options):
        def built(path):
            found = os.path.join(os.path.abspath(options.build), path)
            if not os.path.exists(found):
                raise RuntimeError(f"{found} is missing; build first (make)")
            return found
        self.lull, self.schedule = built("src/cli/lull"), built("cluster/slurm/lull-schedule")
        self.python = find_torch_python()
        self.programs = {"player": built("bench/experiment_job"), "trainer": built("examples/train_mpi"), "python": self.python or "-"}
        self.kinds = [kind for kind in mix.KINDS if kind != "ddp" or self.python]
        plugin = built("cluster/slurm/spank_lull.so")
        self.nodes = []
        self.cluster = None
        self.client = None
        self.folder = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        try:
            os.environ["LULL_SUBMIT_CONF"] = os.path.join(self.folder, "submit.conf")
            self.measured = self.measure()
            say("starting Slurm")
            self.cluster = slurm.Cluster(
                os.path.abspath(options.tools), None, plugin, PORT, gpus=mix.NODE_GPUS, nodes=mix.NODES,
                plugin_options=[f"lull={self.lull}", f"scheduler={self.schedule}"],
                conf=["JobSubmitPlugins=lull", slurm.plugin_dir(plugin),
                      "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1"])
            for number in range(mix.NODES):
                self.nodes.append(Node(self.lull, built("src/daemon/lulld"), os.path.join(self.cluster.directory, f"n{number + 1}")))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        if self.client is not None:
            self.client.kill()
            self.client.wait()
        for node in self.nodes:
            node.stop()
        if self.cluster is not None:
            self.cluster.stop()
        host.remove(self.folder)

    def measure(self):
        say("measuring the kinds of jobs at their clocks (a minute and a half)")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiment_measure.py")
        done = subprocess.run([self.lull, "emulate", "--seed", "0", "--warm", str(WARM_W), f"{mix.GPUS}x{mix.MODEL}", "--", sys.executable, script,
                               self.programs["player"], self.programs["trainer"], self.programs["python"], *self.kinds],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    # ---- one pass ---------------------------------------------------------------------------------------------------------------------

    def script(self, job, ran):
        """What runs on each node of a job: its program, between two looks at the clock."""
        words = [shlex.quote(word) for word in command(self.programs, job.kind, job.length_s, "GPUS")]
        program = " ".join(words).replace("GPUS", '"$CUDA_VISIBLE_DEVICES"')
        return (f". {self.cluster.directory}/$SLURMD_NODENAME/emulated.sh; begin=$(date +%s.%N); {program} >/dev/null 2>>{ran}/errors; "
                f'status=$?; echo $SLURMD_NODENAME $begin $(date +%s.%N) $status >{ran}/.{job.number}.$SLURMD_NODENAME; '
                f"mv {ran}/.{job.number}.$SLURMD_NODENAME {ran}/{job.number}.$SLURMD_NODENAME")

    def submit(self, job, ran, is_lulls):
        options = ["-J", job.name, f"--gres=gpu:{min(job.gpus, mix.NODE_GPUS)}", "-t", "2", "-o", "/dev/null"]
        text = self.script(job, ran)
        if job.nodes > 1:
            options += [f"-N{job.nodes}", "--ntasks-per-node=1"]
            text = f"srun -Q sh -c {shlex.quote(text)}"
        if is_lulls:
            options.append("--lull-schedule")
            if not math.isinf(job.deadline_s):
                left_s = round(job.deadline_s - job.arrival_s)
                options.append(f"--lull-deadline={left_s // 60}:{left_s % 60:02}")
        done = run("sbatch", "--parsable", *options, "--wrap", text)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    @staticmethod
    def read(ran, began):
        """When each job began and ended on each of its nodes, in s of the pass."""
        told = {}
        for name in os.listdir(ran):
            if name[0] == "." or name == "errors":
                continue
            with open(os.path.join(ran, name), encoding="utf-8") as file:
                node, begin, end, status = file.read().split()
            if status != "0":
                with open(os.path.join(ran, "errors"), encoding="utf-8") as file:
                    raise RuntimeError(f"job {name} ended with {status}: {file.read()}")
            told.setdefault(int(name.split(".")[0]), []).append((node, float(begin) - began, float(end) - began))
        return told

    def await_all(self, jobs, ran, began, label, limit_s):
        wanted = sum(job.nodes for job in jobs)
        while True:
            told = self.read(ran, began)
            count = sum(len(nodes) for nodes in told.values())
            say(f"{label}: {len(told)} of {len(jobs)} jobs have ended")
            if count == wanted:
                return told
            if time.time() - began > limit_s:
                raise RuntimeError(f"{label}: {wanted - count} shares of jobs have not ended after {limit_s:.0f} s: {run('squeue').stdout}")
            if self.client is not None and self.client.poll() is not None:
                raise RuntimeError("lull-schedule has ended")
            time.sleep(0.1)

    def energy_j(self):
        return sum(node.energy_j() for node in self.nodes)

    def start_client(self, policy, table):
        """Starts a client that remembers nothing of earlier passes."""
        points = os.path.join(self.folder, "points.json")
        with open(points, "w", encoding="utf-8") as file:
            json.dump(table, file)
        with open(os.path.join(self.cluster.work, "schedule.log"), "a", encoding="utf-8") as log:
            state = tempfile.mkdtemp(prefix="state-", dir=self.cluster.work)
            self.client = subprocess.Popen([self.schedule, "--interval", "0.1", "--policy", policy, "--points", points, "--state", state],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end_client(self):
        if self.client is not None:
            self.client.send_signal(signal.SIGTERM)
            self.client.wait()
            self.client = None

    def run_pass(self, jobs, policy, table, limit_s):
        """Runs the jobs under a policy, None: under Slurm's own scheduler. Returns when each began and ended, and the energy of all GPUs
        until the last end."""
        label = policy or "Slurm"
        ran = tempfile.mkdtemp(prefix="ran-", dir=self.cluster.work)
        os.chmod(ran, 0o777)
        if policy is not None:
            self.start_client(policy, table)
        before_j, began = self.energy_j(), time.time()
        for job in jobs:
            time.sleep(max(0.0, began + job.arrival_s - time.time()))
            self.submit(job, ran, policy is not None)
            say(f"{label}: {job.number + 1} of {len(jobs)} jobs have come")
        told = self.await_all(jobs, ran, began, label, limit_s)
        energy_j = self.energy_j() - before_j
        self.end_client()
        if wait_idle() is None:
            raise RuntimeError(f"{label}: the nodes are not idle again")
        return told, energy_j

    # ---- all ----------------------------------------------------------------------------------------------------------------------------

    def starts(self, policy):
        """How long jobs take to start."""
        jobs = CHAIN + ALONE
        told, _ = self.run_pass(jobs, policy, mix.point_table(self.measured, jobs, 0.5), 120)
        by_node = {}
        for job in CHAIN:
            (share,) = told[job.number]
            by_node.setdefault(share[0], []).append(share[1:])
        gaps = [later[0] - earlier[1] for shares in by_node.values() for earlier, later in zip(sorted(shares), sorted(shares)[1:])]
        return mix.Starts(gaps, [told[job.number][0][1] - job.arrival_s for job in ALONE])

    def compare(self, jobs, policy, starts):
        """A pass and its simulations: with what starting a job takes, and as if it took no time."""
        rule = policy or SLURMS_OWN
        table, ideal = (mix.point_table(self.measured, jobs, start_s) for start_s in (starts.gap_s, 0.0))
        if policy is None:
            for job in [*table["jobs"].values(), *ideal["jobs"].values()]:
                del job["gpus"][mix.GRES][1:]
        simulated = mix.simulate(self.lull, self.folder, self.measured, jobs, table, rule, starts)
        told, energy_j = self.run_pass(jobs, policy, table, PATIENCE * simulated["last_s"] + 60)
        ends = {number: max(end for _, _, end in shares) for number, shares in told.items()}
        begins = {number: min(begin for _, begin, _ in shares) for number, shares in told.items()}
        real = mix.summary(self.measured, jobs, ends, energy_j)
        return {"policy": policy or "Slurm", "simulated_as": rule, "real": real, "simulated": simulated,
                "simulated_without_starts": mix.simulate(self.lull, self.folder, self.measured, jobs, ideal, rule, mix.AT_ONCE, 1),
                "real_over_simulated": mix.compare(real, simulated),
                "jobs": [{"job": job.number, "name": job.name, "gpus": job.gpus, "arrival_s": job.arrival_s,
                          "deadline_s": None if math.isinf(job.deadline_s) else job.deadline_s, "begin_s": begins[job.number],
                          "end_s": ends[job.number]} for job in jobs]}


def run_all(experiment, options, policies):
    """Runs Slurm's pass and those of the policies, and prints a row after each; where standard output is for JSON, elsewhere."""
    out = sys.stderr if options.json else sys.stdout
    jobs = mix.make_mix(options.jobs, options.seed, tuple(experiment.kinds))
    say("measuring how long jobs take to start")
    starts = {"Slurm": experiment.starts(None)}
    if policies:
        starts["lull-schedule"] = experiment.starts("fifo")
    say("")
    print(f"{len(jobs)} jobs" + ("" if experiment.python else "; without PyTorch's, for there is no python3-torch"), file=out)
    for name, found in starts.items():
        print(f"{name}: a job begins {statistics.mean(found.arrivals):.2f} s after it has come, {found.gap_s:.2f} s after the one that it "
              "waits for has ended", file=out)
    print(mix.HEAD, file=out, flush=True)
    rows = []
    for policy in [None, *policies]:
        rows.append(experiment.compare(jobs, policy, starts["lull-schedule" if policy else "Slurm"]))
        say("")
        print(mix.row(rows[-1]["policy"], rows[-1]["real"], rows[-1]["simulated"]), file=out, flush=True)
    if options.json:
        json.dump({"measured": experiment.measured, "passes": rows,
                   "starts": {name: {"gaps_s": found.gaps, "arrivals_s": found.arrivals} for name, found in starts.items()}}, sys.stdout, indent=1)
        print()


def main():
    options = arguments()
    policies = [] if options.policies == "none" else options.policies.split(",")
    unknown = [policy for policy in policies if policy not in POLICIES]
    if unknown:
        print(f"experiment: there is no policy {unknown[0]}; known are {', '.join(POLICIES)}", file=sys.stderr)
        return 2
    if options.jobs < 1:
        print("experiment: --jobs: give a whole number from 1 on", file=sys.stderr)
        return 2
    reason = slurm.reason_to_skip(options.tools)
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return 77
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    experiment = None
    try:
        experiment = Experiment(options)
        run_all(experiment, options, policies)
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:
        print(f"\nexperiment: {error}", file=sys.stderr)
        return 1
    finally:
        if experiment is not None:
            experiment.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
