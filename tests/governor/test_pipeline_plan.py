"""`lull run --plan` carries a pipeline's plan out on the emulated node: from sections that the program says, or from
sends and receives alone. Energy falls as planned, time stays. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))
MODEL = "A100-SXM4-40GB"
PIPELINE = ["--stages", "3", "--microbatches", "6", "--forward-ms", "40", "--backward-ms", "80",
            "--stage-weights", "1,1,1.07", "--latency-ms", "0.5"]


def make_plan(directory, name, *options):
    profile = os.path.join(directory, "profile.csv")
    measured = subprocess.run([LULL, "play", "--schedule", "1f1b", *PIPELINE, "--measure", profile, "--model", MODEL,
                               "--heat-w", "300", "--json"], check=True, capture_output=True, text=True)
    plan = os.path.join(directory, name)
    subprocess.run([LULL, "plan", "--profile", profile, "--stages", "3", "--microbatches", "6", "--latency-ms", "0.5",
                    "--blocking-w", str(json.loads(measured.stdout)["blocking_w"]), "--slowdown", "0%", "--switch-ms", "16,25",
                    "--feed-forward", "9", "--driver-ms", "7", "--output", plan, *options],
                   check=True, capture_output=True)
    return plan


def knows_slowdown(result):
    report, _ = result
    return report["pipeline"]["slowdown"]["slowdown_ratio"] is not None


class PipelinePlan(unittest.TestCase):
    def run_job(self, plans, *options, iterations=32, pipeline=None, faults=()):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            given = [word for plan in plans for word in ("--plan", plan)]
            spoilt = [word for fault in faults for word in ("--fault", fault)]
            done = subprocess.run(
                [LULL, "emulate", "--seed", "0", "--warm", "250", *spoilt, f"3x{MODEL}", "--", LULL, "run",
                 "--no-daemon", "--report", directory, *given, "--", LULL, "play", "--schedule", "1f1b", *(pipeline or PIPELINE),
                 "--iterations", str(iterations), *options],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                return json.load(file), done.stderr

    def check_saving(self, *options):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            plan = make_plan(directory, "plan.json")
            # A few iterations are lost until ranks are seen on their GPUs.
            report, _ = host.run_on_time(lambda: self.run_job([plan], *options, iterations=44), knows_slowdown)
        pipeline = report["pipeline"]
        self.assertIn(pipeline["state"], ("kept", "the run ended while it was tried"))
        self.assertGreater(pipeline["predicted"]["saving_ratio"], 0.05)
        self.assertAlmostEqual(pipeline["saving_ratio"], pipeline["predicted"]["saving_ratio"], delta=0.04)
        self.assertLess(pipeline["slowdown"]["slowdown_ratio"], 0.02)
        self.assertGreater(pipeline["planned"]["iterations"], 4)
        self.assertGreater(pipeline["reference"]["iterations"], 4)
        self.assertEqual([gpu["state"] for gpu in report["gpus"]], ["managed by a pipeline plan"] * 3)
        # The last stage is the slowest: nothing there may be lowered.
        self.assertEqual(report["gpus"][2]["switches"], 0)
        self.assertEqual(report["notes"], [])

    def test_from_transfers_alone(self):
        self.check_saving()

    def test_from_sections(self):
        self.check_saving("--sections")

    def test_f08_nothing_is_proven_beside_xids(self):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            report, said = self.run_job([make_plan(directory, "plan.json")], "--sections",
                                        iterations=20, faults=["1:xid=31"])
        self.assertIn("GPU 1: its driver has reported XID 31 (", said)
        self.assertNotEqual(report["pipeline"]["state"], "kept")
        self.assertGreater(report["pipeline"]["planned"]["iterations"], 4)
        self.assertEqual(report["pipeline"]["slowdown"]["pairs"], 0)

    def test_a_plan_for_another_pipeline_does_no_harm(self):
        # Made for 6 micro-batches, run with 5: the order is never recognised.
        other = list(PIPELINE)
        other[other.index("6")] = "5"
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            report, _ = self.run_job([make_plan(directory, "plan.json")], "--sections",
                                     iterations=6, pipeline=other)
        self.assertEqual(sum(gpu["switches"] for gpu in report["gpus"]), 0)

    def test_a_plan_for_other_ranks_is_refused_and_said(self):
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            report, said = self.run_job([make_plan(directory, "plan.json", "--stages", "4")],
                                        iterations=2)
        self.assertEqual(report["pipeline"], {"state": "not executed"})
        self.assertIn("it is for 4 devices, the job has 3 ranks", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
