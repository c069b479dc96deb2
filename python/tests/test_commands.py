# SPDX-License-Identifier: Apache-2.0
"""Commands of Lull as functions, against what the commands print. Runs on an emulated node of two A100.

usage: test_commands.py LULL LIBLULL"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import case
import lull

TRACE = os.path.join(case.SOURCE, "data", "samples", "rank0-of-128.json.gz")


def cli(*words):
    return json.loads(subprocess.run([case.LULL, *words, "--json"], stdout=subprocess.PIPE, check=True).stdout)


class Commands(unittest.TestCase):
    def test_devices(self):
        listed = cli("gpus")["gpus"]
        devices = lull.devices()
        self.assertEqual([(device.index, device.uuid, device.name) for device in devices],
                         [(gpu["index"], gpu["uuid"], gpu["name"]) for gpu in listed])
        self.assertEqual(list(devices[0].capabilities), listed[0]["capabilities"])
        self.assertGreater(devices[0].power_w, 10)

    def test_no_devices(self):
        code = "import lull; print(lull.devices())"
        environment = dict(os.environ, LULL_NVML="/nowhere", LULL_AMD_SMI="/nowhere", LULL_LEVEL_ZERO="/nowhere")
        said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "()\n")

    def test_simulate(self):
        simulation = lull.simulate(preset="bert-ddp", periods=20, modes=["auto"], tolerance="2%")
        document = cli("simulate", "--preset=bert-ddp", "--periods=20", "--modes=auto", "--tolerance=2%")
        self.assertEqual(simulation.document, document)
        self.assertEqual(simulation.tolerance_ratio, 0.02)
        self.assertEqual([mode.name for mode in simulation.modes], ["highest", "auto"])
        self.assertEqual(simulation.modes[1].energy_j, document["modes"][1]["energy_j"])

    def test_analyze(self):
        analysis = lull.analyze(TRACE, model="H100", switch_ms=(15, 20))
        self.assertEqual(analysis.document, cli("analyze", "--model=H100", "--switch-ms=15,20", TRACE))
        self.assertEqual(analysis.ranks[0].world_size, 128)
        self.assertEqual(analysis.predicted.saving_ratio, analysis.document["predicted"]["saving_ratio"])

        self.assertEqual((analysis.ranks[0].phases, analysis.ranks[0].phases_source), ((), None))

    def test_phases_of_a_server(self):
        sys.path.insert(0, os.path.join(case.SOURCE, "tests", "trace"))
        import server_trace
        with tempfile.NamedTemporaryFile("w", suffix=".json") as trace:
            json.dump(server_trace.serve().document(), trace)
            trace.flush()
            rank, = lull.analyze(trace.name).ranks
        prefill, mixed, decode = rank.phases
        self.assertEqual((prefill.phase, mixed.phase, decode.phase, rank.phases_source), ("prefill", "mixed", "decode", "annotations"))
        self.assertEqual((decode.steps, decode.output_tokens), (15, 130))
        self.assertLess(decode.best.j_per_token, decode.full.j_per_token)

    def test_errors_are_the_commands_own(self):
        with self.assertRaisesRegex(lull.LullError, "--preset nonsense") as caught:
            lull.simulate(preset="nonsense")
        self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(lull.LullError, "--nonsense: No such file"):  # a name that is a path is no option
            lull.analyze("--nonsense")


class Profile:
    """As torch.profiler passes one."""
    step_num = 7

    def __init__(self, trace=TRACE):
        self.trace = trace

    def export_chrome_trace(self, path):
        shutil.copy(self.trace, path)  # gzip is recognised by its content


class Handler(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.folder.cleanup)
        self.said = []

    def test_as_a_handler(self):
        handler = lull.analyze_handler(directory=os.path.join(self.folder.name, "traces"), say=self.said.append, model="H100")
        handler(Profile())
        (analysis,) = handler.wait()
        self.assertEqual(analysis.document["ranks"][0]["assumptions"]["gpu"][:4], "H100")
        self.assertEqual(os.listdir(handler.directory), ["rank0-step7.json"])
        self.assertIn(analysis.verdict, self.said[0])

    def test_as_the_function_itself(self):
        lull.analyze_handler(Profile(), directory=self.folder.name, say=self.said.append)
        self.assertIn("saves about", self.said[0])

    def test_failures_do_not_reach_the_training(self):
        lull.analyze_handler(Profile(os.path.abspath(__file__)), directory=self.folder.name, say=self.said.append)
        lull.analyze_handler(Profile("/nowhere"), directory=self.folder.name, say=self.said.append)
        self.assertIn("was not analysed", self.said[0])
        self.assertIn("was not written", self.said[1])


class Batch(unittest.TestCase):
    JOB = "import sys, time; time.sleep(0.1); print('acc=0.95' if sys.argv[1] == '16' else 'acc=0.1', flush=True)"

    def run_job(self, size):
        return lull.batch.run([sys.executable, "-c", self.JOB, "{batch}"], job="nightly", sizes=[8, 16],
                              metric="acc=([0-9.]+)", target=0.9, default_size=size, epochs_max=1, quiet=True)

    def test_a_recurring_job(self):
        self.assertEqual(self.run_job(16), 0)
        job = lull.batch.show("nightly")
        self.assertEqual((job.job, job.sizes, job.default_size), ("nightly", (8, 16), 16))
        self.assertEqual(job.runs[0].state, "reached")
        self.assertEqual(job.runs[0].metric, 0.95)
        self.assertEqual([size.size for size in job.by_size], [8, 16])
        (listed,) = lull.batch.jobs()
        self.assertEqual((listed.job, listed.run_count, listed.runs), ("nightly", 1, ()))
        lull.batch.forget("nightly")
        self.assertEqual(lull.batch.jobs(), ())
        with self.assertRaisesRegex(lull.LullError, "nightly"):
            lull.batch.show("nightly")


if __name__ == "__main__":
    unittest.main(verbosity=2)
