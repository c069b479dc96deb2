"""Jobs on emulated AMD and Intel nodes: `lull run` finds their GPUs, holds their clocks, saves energy and
reports it. usage: test_vendors.py LULL SECTION_JOB. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
# Model, part of its name, its lowest clock, and what narrows the list of GPUs.
VENDORS = (("MI300X", "MI300X", 132, "HIP_VISIBLE_DEVICES"), ("MI250X", "MI250X", 500, "ROCR_VISIBLE_DEVICES"),
           ("Max1550", "Max 1550", 300, "ZE_AFFINITY_MASK"))
STEPS, REFERENCE_STEPS, COMPUTE_MS, EXCHANGE_MS = 95, 20, 30, 80
PLAY = ("--schedule", "gpipe", "--stages", "2", "--microbatches", "1", "--forward-ms", "30", "--backward-ms", "60",
        "--iterations", "40")


class Run:
    """A command on an emulated node of two GPUs; all of a test run beside each other."""

    def __init__(self, model, command, managed, **variables):
        self.holder = tempfile.TemporaryDirectory(prefix="lull-")
        self.directory = self.holder.name
        run = [LULL, "run", "--no-daemon", "--quiet", "--report", self.directory, "--"] if managed else []
        self.process = subprocess.Popen(
            [LULL, "emulate", "--seed", "0", "--truth", os.path.join(self.directory, "truth.json"), f"2x{model}", "--",
             *run, *command], env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, **variables),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()
        self.holder.cleanup()

    def end(self):
        _, self.errors = self.process.communicate(timeout=110)
        return self.process.returncode

    def read(self, name):
        with open(os.path.join(self.directory, name), encoding="utf-8") as file:
            return json.load(file)

    def truth(self, gpu):
        return self.read("truth.json")["gpus"][gpu]


def section_job(gpu, steps):
    return [JOB, str(gpu), str(steps), str(COMPUTE_MS), str(EXCHANGE_MS), "0"]


class Vendors(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root may set clocks, on the emulated node too")

    def check_play(self, run, name):
        self.assertEqual(run.end(), 0, run.errors)
        report = run.read("report.json")
        self.assertEqual(len(report["gpus"]), 2)
        for index, gpu in enumerate(report["gpus"]):
            self.assertIn(name, gpu["name"])
            self.assertGreater(gpu["switches"], 0)
            self.assertEqual((gpu["switches_refused"], gpu["driver"]["without_effect"]), (0, 0))
            self.assertFalse(run.truth(index)["is_locked"])
        # What the counters told of the run is what was drawn, both dies' where they share one: what the node drew besides, before
        # and after it, was less a second than the run.
        told = report["energy"]["run"]
        left_j = sum(run.truth(gpu)["energy_j"] for gpu in range(2)) - told["energy_j"]
        left_s = run.truth(0)["time_s"] - told["seconds"]
        told_w = told["energy_j"] / told["seconds"]
        self.assertGreater(left_j, -0.05 * told["energy_j"])
        self.assertLess(left_j, 0.05 * told["energy_j"] + told_w * left_s)

    def check_section(self, run, reference, lowest_mhz):
        self.assertEqual(run.end(), 0, run.errors)
        self.assertEqual(reference.end(), 0, reference.errors)
        report = run.read("report.json")
        (gpu,) = report["gpus"]
        (section,) = gpu["sections"]
        self.assertEqual(gpu["index"], 1)
        # On a busy machine the proof may take longer than the job; then little is saved on the way.
        self.assertIn(section["verdict"], ("lowered", "unfinished"))
        most = 1.01
        if section["verdict"] == "lowered":
            self.assertEqual(section["sm_mhz"], lowest_mhz)
            most = 0.99  # blocks at the highest clocks go on, more of them on a host that is late
        self.assertEqual(gpu["driver"]["without_effect"], 0)
        self.assertFalse(run.truth(1)["is_locked"])
        # The reference's node was idle before and after its job, and drew then what its other GPU drew all the time.
        idle, busy = reference.truth(0), reference.truth(1)
        idle_s = busy["time_s"] - REFERENCE_STEPS * (COMPUTE_MS + EXCHANGE_MS) * 1e-3
        unmanaged_j = (busy["energy_j"] - idle["energy_j"] / idle["time_s"] * idle_s) / REFERENCE_STEPS
        self.assertLess(report["managed"]["energy_per_iteration_j"], most * unmanaged_j)

    def start(self, *arguments, **variables):
        run = Run(*arguments, **variables)
        self.addCleanup(run.close)
        return run

    def test_jobs_of_all_vendors(self):
        runs = [(self.start(model, [LULL, "play", *PLAY], True),
                 self.start(model, section_job(1, STEPS), True, **{variable: "1"}),
                 self.start(model, section_job(1, REFERENCE_STEPS), False))
                for model, _, _, variable in VENDORS]
        for (play, section, reference), (model, name, lowest_mhz, _) in zip(runs, VENDORS):
            with self.subTest(model):
                self.check_play(play, name)
                self.check_section(section, reference, lowest_mhz)


if __name__ == "__main__":
    unittest.main(verbosity=2)
