"""Jobs whose processes use other GPUs than their ranks suggest: in no case is the clock of a GPU changed that the job does
not use, as the emulated node itself has it. Usage: test_placement.py LULL SECTION_JOB. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Placement(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def run_ranks(self, gpus, node="4xA100-SXM4-40GB", steps=60, emulate=(), **variables):
        """Runs a rank per number of gpus, in this order of local ranks, on that GPU of the node; returns the report."""
        ranks = " ".join(f"LOCAL_RANK={rank} RANK={rank} {JOB} {gpu} {steps} 10 20 0 &" for rank, gpu in enumerate(gpus))
        report = os.path.join(self.directory, "report")
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", *emulate, node, "--", LULL, "run", "--no-daemon", "--quiet", "--report", report,
             "--", "sh", "-c", ranks + " wait"],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, **variables), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def check(self, report, *expected):
        """Exactly these GPUs were bound, and no clock of another was changed."""
        self.assertEqual([gpu["index"] for gpu in report["gpus"] if gpu["calls"] > 0], sorted(expected), report["notes"])
        for gpu in report["gpus"]:
            if gpu["index"] not in expected:
                self.assertEqual(gpu.get("switches", 0), 0, gpu)

    def test_f54_cuda_1(self):
        report = self.run_ranks([1], steps=150)
        self.check(report, 1)
        self.assertGreater(next(gpu for gpu in report["gpus"] if gpu["index"] == 1)["switches"], 0)

    def test_f54_the_last_gpu(self):
        self.check(self.run_ranks([3]), 3)

    def test_f54_four_ranks_in_reverse(self):
        self.check(self.run_ranks([3, 2, 1, 0]), 0, 1, 2, 3)

    def test_f54_boards_of_two_models(self):
        """CUDA's number 0 is the faster board, which is the second one of the node."""
        self.check(self.run_ranks([1], node="A40,H100-SXM5", CUDA_VISIBLE_DEVICES="0"), 1)

    def test_f54_addresses_order_the_boards(self):
        report = self.run_ranks([1], node="A40,H100-SXM5", CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
        self.check(report)
        self.assertTrue(any("uses a GPU that lull run was not given" in note or "no process of the job was seen" in note
                            for note in report["notes"]), report["notes"])

    def test_f54_a_slice(self):
        report = self.run_ranks([0], CUDA_VISIBLE_DEVICES="MIG-8f6d1b2a-1111-2222-3333-444455556666")
        (note,) = [note for note in report["notes"] if "slice" in note]
        self.assertIn("whose clock belongs to all slices of its GPU", note)
        self.assertNotIn("unset", note)

    def test_f54_amd_and_intel(self):
        for node in ("2xMI300X", "2xMax1550"):
            with self.subTest(node):
                self.check(self.run_ranks([1], node=node), 1)

    def test_f54_no_lists_and_several_gpus(self):
        """Nobody can say which of them it is."""
        report = self.run_ranks([0], emulate=("--fault", "no_processes"))
        self.check(report)
        self.assertTrue(any("the job's GPU is unknown" in note for note in report["notes"]), report["notes"])

    def test_f54_no_lists_and_one_gpu(self):
        self.check(self.run_ranks([0], node="1xA100-SXM4-40GB", emulate=("--fault", "no_processes")), 0)

    def test_f54_no_lists_and_a_program_that_chooses_itself(self):
        """It was started with CUDA_VISIBLE_DEVICES=1 and has set the variable to 0 itself."""
        self.check(self.run_ranks([0], emulate=("--fault", "no_processes"), CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID"))

    def test_f54_two_jobs(self):
        """The second job is unmanaged, and no kernel of it ever starts on a lowered clock, wherever both are."""
        choice = random.Random(54)
        for _ in range(4):
            gpus = choice.sample(range(4), 4)
            split = choice.randint(1, 3)
            order = {} if choice.random() < 0.5 else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, choice.sample(range(4), 4)))}
            with self.subTest(managed=gpus[:split], other=gpus[split:], **order):
                self.check_two_jobs(gpus[:split], gpus[split:], order)

    def check_two_jobs(self, managed, others, variables):
        truth = os.path.join(self.directory, "truth.json")
        ranks = " ".join(f"LOCAL_RANK={rank} RANK={rank} {JOB} {gpu} 150 10 20 0 &" for rank, gpu in enumerate(managed))
        beside = " ".join(f"{JOB} {gpu} 400 10 2 0 &" for gpu in others)
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", "--truth", truth, "4xA100-SXM4-40GB", "--", "sh", "-c",
             f"{beside} {words} {LULL} run --no-daemon --quiet -- sh -c '{ranks} wait'; wait"],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=self.directory, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(truth, encoding="utf-8") as file:
            gpus = json.load(file)["gpus"]
        for gpu in others:
            self.assertGreater(gpus[gpu]["kernels_started"], 0)
            self.assertEqual(gpus[gpu]["kernels_started_low"], 0, gpus[gpu])


if __name__ == "__main__":
    unittest.main(verbosity=2)
