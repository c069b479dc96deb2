#!/usr/bin/env python3
"""Slurm's accounting with Lull's plugins: joules of a step's own GPUs in sstat and scontrol, and what slurmctld is told
and insists on when jobs are submitted.

Run as: lull emulate SPEC -- test_accounting.py LULL LULLD PLUGIN CLUSTER_TOOLS. SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as slurm  # noqa: E402
from cluster import host, run, wait_idle  # noqa: E402

LULL, LULLD, PLUGIN, TOOLS = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
PORT = 17120
# An emulated A100 without work draws so much.
IDLE_W = 58.5


class Accounting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        cls.addClassCleanup(host.remove, folder)
        cls.settings = os.path.join(folder, "submit.conf")
        cls.meter = os.path.join(folder, "lull")
        os.symlink(LULL, cls.meter)
        os.environ.update(LULL_PROGRAM=cls.meter, LULL_SUBMIT_CONF=cls.settings)
        cls.cluster = slurm.Cluster(TOOLS, LULLD, PLUGIN, PORT, plugin_options=[f"lull={LULL}"], conf=[
            "AcctGatherEnergyType=acct_gather_energy/lull", "AcctGatherNodeFreq=1", "JobAcctGatherType=jobacct_gather/linux",
            "JobAcctGatherFrequency=task=1", "JobSubmitPlugins=lull",
            slurm.plugin_dir(PLUGIN)])
        cls.addClassCleanup(cls.cluster.stop)
        os.chdir(cls.cluster.work)

    def setUp(self):
        self.insist("")
        self.addCleanup(wait_idle)

    def insist(self, text):
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(text)

    def show(self, name):
        """What scontrol says of the last job of this name, once it is over."""
        wait_idle()
        number = run("squeue", "-h", "-t", "all", "-n", name, "-o", "%A").stdout.split()[-1]
        return run("scontrol", "show", "job", number).stdout

    def test_a_step_is_charged_for_its_own_gpus_alone(self):
        other = subprocess.Popen(["srun", "-Q", "--gres=gpu:4", "sleep", "30"], stdin=subprocess.DEVNULL)
        self.addCleanup(other.wait)
        self.addCleanup(other.terminate)
        begin = time.monotonic()
        done = run("srun", "-Q", "-J", "charged", "--gres=gpu:2", "sh", "-c",
                   "sleep 3; sstat -a -n -P -o ConsumedEnergyRaw -j $SLURM_JOB_ID.0")
        taken_s = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(int(done.stdout), 2 * IDLE_W * 3 * 0.8)
        self.assertLess(int(done.stdout), 2 * IDLE_W * taken_s * 1.1)
        other.terminate()
        other.wait()
        energy_j = slurm.energy_of(self.show("charged"))
        self.assertGreaterEqual(energy_j, int(done.stdout))
        self.assertLess(energy_j, 2 * IDLE_W * taken_s * 1.2)

    def test_a_steps_numbers_mean_one_gpu_each(self):
        """On a node of several models, a number alone may mean any GPU, and the meter would count those of others."""
        self.assertIsNotNone(host.wait_for(lambda: self.node_w() > 0, 30, 0.2))
        told = self.meter + ".told"
        self.exchange_meter(f"env >{told}; exec {LULL} meter")
        self.assertEqual(run("srun", "-Q", "-J", "named", "--gres=gpu:1", "sleep", "1.2").returncode, 0)
        with open(told, encoding="utf-8") as file:
            variables = file.read().splitlines()
        for name, value in (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUDA_VISIBLE_DEVICES", r"\d"), ("ZE_AFFINITY_MASK", r"\d")):
            (line,) = [line for line in variables if line.startswith(name + "=")]
            self.assertRegex(line, f"^{name}={value}$")

    def exchange_meter(self, text):
        """Puts a script in the place of the meter. Steps inherit the variable that slurmd has, so what it names is exchanged."""
        def restore():
            os.symlink(LULL, self.meter + ".new")
            os.replace(self.meter + ".new", self.meter)
        self.addCleanup(restore)
        with open(self.meter + ".new", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.meter + ".new", 0o755)
        os.replace(self.meter + ".new", self.meter)

    def node_w(self):
        """What the node's GPUs draw; -1: slurmctld has not heard of it yet."""
        found = re.search(r"CurrentWatts=(\d+)", run("scontrol", "show", "node", "n1").stdout)
        return int(found.group(1)) if found else -1

    def test_the_node_shows_what_all_its_gpus_draw(self):
        self.assertIsNotNone(host.wait_for(lambda: self.node_w() > 0, 30, 0.2))
        self.assertAlmostEqual(self.node_w(), 8 * IDLE_W, delta=8 * IDLE_W * 0.3)

    def test_a_meter_that_hangs_or_lies_costs_its_figures_alone(self):
        # slurmd has a meter of its own by then, which stays the real one.
        self.assertIsNotNone(host.wait_for(lambda: self.node_w() > 0, 30, 0.2))
        for text in ("sleep 5", "while read line; do echo unknown; done", "while read line; do echo nan; done", "exit 1"):
            self.exchange_meter(text)
            begin = time.monotonic()
            done = run("srun", "-Q", "-J", "lied", "--gres=gpu:1", "sh", "-c", "sleep 1.2; exit 5")
            self.assertEqual(done.returncode, 5, text)
            self.assertLess(time.monotonic() - begin, 4 * host.slowness(), text)
            self.assertIsNone(slurm.energy_of(self.show("lied")), text)

    def test_wishes_are_written_down(self):
        for options, comment in ((["--lull"], "lull=on"), (["--lull=steady", "--lull-tolerance=2%"], "lull=steady tolerance=2%"),
                                 (["--lull-batch-job=nightly"], "lull=on batch-job=nightly"), ([], None), (["--lull=off"], None)):
            self.assertEqual(run("srun", "-Q", "-J", "wish", "--gpus=1", *options, "true").returncode, 0)
            found = re.search(r"AdminComment=(.*?) *\n", self.show("wish"))
            self.assertEqual(found and found.group(1), comment)
        run("sbatch", "-Q", "-W", "-J", "wish", "--gpus=1", "--lull-deadline=2030-01-02T03:04", "-o", "/dev/null", "--wrap", "true")
        self.assertIn("AdminComment=lull=on deadline=2030-01-02T03:04:00", self.show("wish"))

    def test_what_a_site_insists_on(self):
        def submit(*options):
            return run("srun", "-Q", "-J", "insist", *options, "true")
        self.insist("deadline = required\ngpu-freq = refused\n")
        self.assertIn("need a deadline", submit("--gpus=1", "--lull").stderr)
        self.assertIn("does not go with --lull", submit("--gpus=1", "--lull", "--lull-deadline=60", "--gpu-freq=900").stderr)
        self.assertIn("is over already", submit("--gpus=1", "--lull-deadline=2020-01-01T00:00").stderr)
        for options in (["--gpus=1"], ["--gpus=1", "--lull=off"], ["--gpus=1", "--lull", "--lull-deadline=1-0"], ["--lull"]):
            self.assertEqual(submit(*options).returncode, 0, options)
        self.insist("default = on\ndeadline = required\n")
        self.assertIn("need a deadline", submit("--gpus=1").stderr)
        for options in (["--gpus=1", "--lull=off"], []):
            self.assertEqual(submit(*options).returncode, 0, options)


if __name__ == "__main__":
    reason = slurm.reason_to_skip(TOOLS) or (None if slurm.PLUGINS else "no plugins of Slurm")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
