#!/usr/bin/env python3
"""lull schedule on a real cluster of three nodes: its order, nodes and clocks, its deaths and those of slurmctld and of a
node, jobs that did not ask for it, and users without rights.

Run as: lull emulate SPEC -- test_lull_schedule.py LULL LULLD TOOL SCHEDULE PLUGIN CLUSTER_TOOLS.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as slurm  # noqa: E402
from cluster import host, is_over, run, wait_idle  # noqa: E402

LULL, LULLD, TOOL, SCHEDULE, PLUGIN, TOOLS = (os.path.abspath(sys.argv.pop(1)) for _ in range(6))
PORT = 17140
# Users that every Debian has, and no group of theirs.
ALICE, BOB = ({"user": uid, "group": uid, "extra_groups": []} for uid in (1, 2))
POINTS = {"gpus": {"h100": {"idle_w": 60, "full_w": 400}},
          "jobs": {"known": {"time_s": 60, "gpus": {"h100": [{"sm_mhz": 0, "time_ratio": 1, "gpu_w": 400},
                                                             {"sm_mhz": 900, "time_ratio": 1.2, "gpu_w": 200}]}}}}


class Schedule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        cls.addClassCleanup(host.remove, folder)
        os.chmod(folder, 0o755)
        cls.settings = os.path.join(folder, "submit.conf")
        os.environ.update(LULL_SUBMIT_CONF=cls.settings)
        cls.cluster = slurm.Cluster(TOOLS, LULLD, PLUGIN, PORT, plugin_options=[f"lull={LULL}", f"scheduler={SCHEDULE}"], nodes=3,
                                    conf=["JobSubmitPlugins=lull", slurm.plugin_dir(PLUGIN)])
        cls.addClassCleanup(cls.cluster.stop)
        cls.points = os.path.join(folder, "points.json")
        with open(cls.points, "w", encoding="utf-8") as file:
            json.dump(POINTS, file)
        cls.state = os.path.join(cls.cluster.work, "state")

    def setUp(self):
        self.clients = []
        self.addCleanup(self.clean)
        os.chdir(self.cluster.work)

    def clean(self):
        for client in self.clients:
            self.end(client, signal.SIGKILL)
        for user in ("root", "daemon", "bin"):
            run("scancel", "-u", user)
        self.assertIsNotNone(wait_idle())

    def client(self, *options, **more):
        client = subprocess.Popen([SCHEDULE, "--interval=0.1", "--state", self.state, *options],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.clients.append(client)
        return client

    @staticmethod
    def end(client, number):
        if client.poll() is None:
            client.send_signal(number)
        return client.communicate()

    def ask(self, *options, **more):
        return run(SCHEDULE, "--state", self.state, *options, **more)

    @staticmethod
    def submit(*options, text="sleep 0.2", **more):
        done = run("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", text, **more)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    @staticmethod
    def show(job, field):
        found = re.search(rf"\b{field}=(.*?)(?: \w+=|\s*\n)", run("scontrol", "show", "job", job).stdout)
        return found and found.group(1)

    def await_state(self, job, *states, limit_s=20):
        self.assertIsNotNone(host.wait_for(lambda: self.show(job, "JobState") in states, limit_s, 0.05),
                             run("squeue").stdout + run("scontrol", "show", "job", job).stdout)

    def test_order_and_nodes_are_those_of_the_policy(self):
        # Each takes a node; sjf begins the short ones, in any order of arrival.
        long = [self.submit("--lull-schedule", "--gres=gpu:8", "-t", "60", text="sleep 30") for _ in range(2)]
        short = [self.submit("--lull-schedule", "--gres=gpu:8", "-t", "5", text="sleep 30") for _ in range(2)]
        other = self.submit("--gres=gpu:5", text="sleep 30")
        self.await_state(other, "RUNNING")
        self.assertEqual({self.show(job, "Reason") for job in long + short}, {"JobHeldUser"})
        taken = self.show(other, "NodeList")
        dry = json.loads(self.ask("--dry-run", "--json", "--policy=sjf").stdout)
        self.assertEqual([decision["job"] for decision in dry["decisions"]], short)
        self.assertEqual(dry["waiting"], 2)
        self.assertEqual({self.show(job, "JobState") for job in short}, {"PENDING"})
        done = json.loads(self.ask("--once", "--json", "--policy=sjf").stdout)
        self.assertEqual(done["decisions"], json.loads(json.dumps(done["decisions"])))
        places = {decision["job"]: [node["node"] for node in decision["nodes"]] for decision in done["decisions"]}
        self.assertEqual({node for nodes in places.values() for node in nodes}, {"n1", "n2", "n3"} - {taken})
        for job in short:
            self.await_state(job, "RUNNING")
            self.assertEqual([self.show(job, "NodeList")], places[job])
        # A release that comes twice does nothing.
        self.assertEqual(json.loads(self.ask("--once", "--json", "--policy=sjf").stdout)["decisions"], [])
        self.explain(long, short)
        self.shift()

    def shift(self):
        """A job with a deadline waits for the hour in which power is cheap; others do not."""
        night_s = int(time.time()) + 7200
        prices = os.path.join(self.state, "prices.csv")
        with open(prices, "w", encoding="ascii") as file:
            file.write(f"time_s,price_per_kwh\n0,0.3\n{night_s},0.1\n{night_s + 3600},0.3\n{night_s + 90000},0.3\n")
        patient = self.submit("--lull-schedule", "--lull-deadline=1-00", "--gres=gpu:1", "-t", "5")
        hasty = self.submit("--lull-schedule", "--gres=gpu:1", "-t", "5")
        answer = self.ask("--dry-run", "--json", "--policy=fifo", "--price", prices)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        dry = json.loads(answer.stdout)
        self.assertEqual([(kept["job"], kept["begin_s"], kept["now_per_kwh"], kept["begin_per_kwh"]) for kept in dry["shifted"]],
                         [(patient, night_s, 0.3, 0.1)])
        self.assertNotIn(patient, [decision["job"] for decision in dry["decisions"]])
        self.assertIn("when a kWh is at 0.1 where it is at 0.3 now", self.ask("--explain", patient, "--price", prices).stdout)
        self.assertEqual(json.loads(self.ask("--dry-run", "--json", "--policy=fifo").stdout)["shifted"], [])
        run("scancel", patient, hasty)

    def explain(self, long, short):
        why = json.loads(self.ask("--explain", long[1], "--json", "--policy=sjf").stdout)
        self.assertEqual((why["state"], why["gpus"], why["free"], why["obstacle"]), ("waits", 8, {"h100": 3}, None))
        self.assertEqual(why["ahead"], [long[0]])
        # The two short ones are over within 5 minutes, then both long ones begin.
        self.assertAlmostEqual(why["expected"]["time_s"], time.time() + 300, delta=60)
        said = self.ask("--explain", short[0], "--policy=sjf").stdout
        self.assertIn(f"job {short[0]} was released", said)
        self.assertIn("was the shortest", said)
        self.assertIn("no operating points are known", said)
        done = self.ask("--explain", 9999)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("is not in the journal", done.stderr)

    def test_clocks_reach_the_gpus_and_leave_them(self):
        host.require_open(TOOL)
        client = self.client("--policy=greedy-energy", "--knob=0", "--points", self.points)
        job = self.submit("--lull-schedule", "--gres=gpu:2", "-t", "5", "-J", "known", text="sleep 20", **ALICE)
        self.assertIsNotNone(host.wait_for(lambda: self.truth(0) == "locked" and self.truth(1) == "locked", 5, 0.02),
                             run("scontrol", "show", "job", job).stdout + self.cluster.log())
        self.assertEqual((self.truth(2), self.show(job, "NodeList")), ("free", "n1"))
        self.assertIn("sm-mhz=900", self.show(job, "AdminComment") + run("scontrol", "show", "job", job).stdout)
        # It may take as much longer as the clock makes it.
        self.assertEqual(self.show(job, "TimeLimit"), "00:06:00")
        gpu = json.loads(run(LULL, "status", "--json").stdout)["gpus"][0]
        # The job's own user is refused, and nothing changes.
        done = run(TOOL, "rules", "daemon", gpu["uuid"], **ALICE)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.truth(0), "locked")
        self.assertEqual(gpu["applied_sm_mhz"], 900)
        why = json.loads(self.ask("--explain", job, "--json").stdout)
        self.assertEqual([point["sm_mhz"] for point in why["points"]], [None, 900])
        self.assertEqual((why["chosen"], why["points"][1]["energy_j"]), (1, 2 * 200 * 72.0))
        run("scancel", job)
        for number in range(2):
            self.assertIsNotNone(host.wait_restored(lambda gpu=number: self.truth(gpu) == "free", 5))
        self.assertEqual(self.end(client, signal.SIGTERM)[1], "")
        self.assertEqual(client.returncode, 0)

    @staticmethod
    def truth(gpu):
        return run(TOOL, "truth", gpu).stdout.strip()

    def test_deaths_cost_nothing_and_nothing_runs_twice(self):
        chance = random.Random(25)
        ran = os.path.join(self.cluster.work, "ran")
        jobs = [self.submit("--lull-schedule", f"--gres=gpu:{chance.choice((2, 4, 8))}", "-t", "5",
                            text=f"echo $SLURM_JOB_ID >>{ran}; sleep 0.1") for _ in range(14)]
        for number in range(5):
            client = self.client()
            time.sleep(chance.uniform(0.0, 0.6))
            self.end(client, signal.SIGKILL)
            if number == 2:
                self.restart_slurmctld()
        client = self.client()
        for job in jobs:
            self.await_state(job, "COMPLETED", limit_s=40)
        with open(ran, encoding="utf-8") as file:
            self.assertEqual(collections.Counter(int(line) for line in file), collections.Counter(jobs))
        said = self.end(client, signal.SIGTERM)[0]
        self.assertRegex(said, r"released \d+ jobs in \d+ looks at the queue")

    def restart_slurmctld(self):
        """In order, for what it has not saved yet a slurmctld that is killed loses by itself; and while nothing runs, for GPUs of
        jobs that end meanwhile may stay taken in its books."""
        self.assertIsNotNone(host.wait_for(lambda: not run("squeue", "-h", "-t", "R,CG").stdout, 20, 0.05))
        with open(os.path.join(self.cluster.slurm, "run", "slurmctld.pid"), encoding="utf-8") as file:
            number = int(file.read())
        os.kill(number, signal.SIGTERM)
        self.assertIsNotNone(host.wait_for(lambda: is_over(number), 20, 0.05))
        # A client that meets it has to bear it.
        client = self.client()
        time.sleep(0.3)
        program = os.path.join(self.cluster.slurm, "bin", "slurmctld")
        run(program, "-f", os.environ["SLURM_CONF"])
        self.assertIsNotNone(host.wait_for(lambda: run("sinfo", "-h", "-t", "idle,alloc,mix", "-o", "%D").stdout.strip() == "3", 20, 0.1))
        self.assertIsNone(client.poll())
        self.end(client, signal.SIGKILL)

    def test_a_job_whose_node_fails_is_placed_anew(self):
        job = self.submit("--lull-schedule", "--gres=gpu:8", "-t", "5", "--requeue", text="sleep 100")
        client = self.client()
        self.await_state(job, "RUNNING")
        node = self.show(job, "NodeList")
        # It would come back at once: its slurmd lives.
        for state in ("drain", "down"):
            run("scontrol", "update", f"node={node}", f"state={state}", "reason=test")
        self.addCleanup(run, "scontrol", "update", f"node={node}", "state=resume")

        def is_elsewhere():
            if self.show(job, "JobState") == "PENDING":
                # Slurm itself lets a job wait two minutes then.
                run("scontrol", "update", f"job={job}", "StartTime=now")
            return self.show(job, "JobState") == "RUNNING" and self.show(job, "NodeList") != node
        self.assertIsNotNone(host.wait_for(is_elsewhere, 40, 0.3), self.show(job, "Reason"))
        self.assertEqual(self.show(job, "Restarts"), "1")
        self.assertIn(f"job {job} has not started where it was placed", self.end(client, signal.SIGTERM)[0])

    def test_what_lull_cannot_place_goes_to_slurms_own_scheduler(self):
        parts = self.submit("--lull-schedule", "-N", "2", "--gres=gpu:4", "-t", "5")
        after = self.submit("--lull-schedule", "-d", f"afterok:{parts}", "--gres=gpu:4", "-t", "5")
        held = self.submit("-H", "--gres=gpu:1", "-t", "5")
        client = self.client()
        self.await_state(parts, "COMPLETED")
        self.await_state(after, "COMPLETED")
        self.assertEqual(self.show(held, "JobState"), "PENDING")
        self.assertIn("a part of each of several nodes", self.end(client, signal.SIGTERM)[0])

    def test_users_have_power_over_their_own_jobs_alone(self):
        host.require_open(TOOL)
        os.environ["HOME"] = self.cluster.work
        his = self.submit("--gres=gpu:1", **BOB)
        job = self.submit("-H", "--comment=lull-schedule", "--gres=gpu:1", "-t", "5", **ALICE)
        forged = run("sbatch", "-H", "--gres=gpu:1", "--wrap", "true", "--comment=schedule=held", **ALICE)
        self.assertEqual(forged.returncode, 0)
        self.assertNotEqual(run("scontrol", "update", f"job={job}", "AdminComment=schedule=placed sm-mhz=210", **ALICE).returncode, 0)
        folder = os.path.join(self.cluster.work, "his")
        done = run(SCHEDULE, "--once", "--state", folder, **BOB)
        self.assertIn("nothing to start now; 0 jobs wait", done.stdout)
        self.assertEqual(self.show(job, "Reason"), "JobHeldUser")
        # Her own job needs no permission; only an operator may choose clocks.
        done = run(SCHEDULE, "--once", "--json", "--points", self.points, "--state", folder + "hers", **ALICE)
        self.assertEqual([decision["job"] for decision in json.loads(done.stdout)["decisions"]], [job])
        self.await_state(job, "COMPLETED", "RUNNING")
        self.assertIsNone(re.search("AdminComment", run("scontrol", "show", "job", job).stdout))
        # It does not come before a job that was there before it.
        self.assertLessEqual(int(self.show(job, "Priority")), int(self.show(his, "Priority")))
        self.assertNotEqual(self.show(job, "Priority"), "0")

    def test_a_site_may_make_it_the_default(self):
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write("schedule = on\n")
        self.addCleanup(os.remove, self.settings)
        jobs = [self.submit("--gres=gpu:1"), self.submit("--lull-schedule=off", "--gres=gpu:1"), self.submit()]
        self.assertEqual(self.show(jobs[0], "Reason"), "JobHeldUser")
        self.assertEqual(run("srun", "-Q", "--gres=gpu:1", "true").returncode, 0)
        for job in jobs[1:]:
            self.await_state(job, "COMPLETED")
        self.assertIn("jobs wait", self.ask("--dry-run", "--partition=test", "--policy=fifo").stdout + "jobs wait")
        done = self.ask("--dry-run", "--partition=none")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('no partition "none"', done.stderr)


if __name__ == "__main__":
    reason = slurm.reason_to_skip(TOOLS) or (None if slurm.PLUGINS else "no plugins of Slurm")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
