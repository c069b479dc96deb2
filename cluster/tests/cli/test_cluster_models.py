"""lull simulate cluster --fitted: jobs of which lull model fit has written models, held against the laws that their
measurements were drawn from.

Usage: test_cluster_models.py LULL
SPDX-License-Identifier: Apache-2.0"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "lab", "tests", "cli"))
from cluster_case import Runner  # noqa: E402
from model_oracle import HEADER  # noqa: E402

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1]
RUNNER = Runner(LULL, "fifo")
GPU = "NVIDIA A100-SXM4-40GB"
HIGHEST, LENGTH_S = 1410, 1000
# Milliseconds that follow the clock and that do not, and watts that do not and that do.
LAWS = {"mine,0,gemm": (9.0, 1.0, 80.0, 300.0), "yours,0,copy": (2.0, 8.0, 90.0, 160.0), "yours,1,copy": (5.0, 5.0, 90.0, 200.0),
        "yours": (6.0, 4.0, 70.0, 250.0)}


def truth(name, mhz):
    """A launch's time in ms, and watts, by a voltage that rises from 900 MHz on."""
    follows, stays, base, slope = LAWS[name]
    volts = 1 + max(0.0, mhz - 900) / 1500
    return stays + follows * HIGHEST / mhz, base + slope * mhz / HIGHEST * volts ** 2


def measured(names, gpu=GPU, lowest=510):
    rows = [HEADER]
    for name in names:
        app, arg, kernel = (name.split(",") + ["", ""])[:3]
        for mhz in range(lowest, HIGHEST + 1, 60):
            rows.append(f"{gpu},,{app},{arg},{kernel},{mhz},1215,{truth(name, mhz)[0]!r},{truth(name, mhz)[1]!r},1")
    return "\n".join(rows) + "\n"


class Models(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.model = os.path.join(directory.name, "model.json")

    def fit(self, *names, **how):
        subprocess.run([LULL, "model", "fit", "--output", self.model, "-"], input=measured(names, **how), text=True, check=True,
                       stdout=subprocess.DEVNULL)

    def options(self, models, *more, gpu="A100-SXM4-40GB"):
        jobs = "job_id,submit_s,num_gpus,duration_s,model\n" + "".join(
            f"{number},0,4,{LENGTH_S},{model}\n" for number, model in enumerate(models))
        return ["-", "--nodes", 4, "--gpu-types", gpu, "--clocks", "--fitted", self.model, *more], jobs

    def answer(self, models, *more, **how):
        options, text = self.options(models, *more, **how)
        return RUNNER.answer(*options, text=text)

    def test_points_are_those_measured(self):
        self.fit("mine,0,gemm", "yours,0,copy")
        answer = self.answer(["mine", "bert", "yours/0/copy"])
        self.assertEqual((answer["job_modes"]["modelled"], answer["job_modes"]["classes_drawn"]), (2, 0))
        for job, name in (("0", "mine,0,gemm"), ("2", "yours,0,copy")):
            points = self.answer(["mine", "bert", "yours/0/copy"], "--explain", job)["explained"]["modes"]
            self.assertGreater(len(points), 4)
            highest_ms = truth(name, HIGHEST)[0]
            for point in points:
                time_ms, power_w = truth(name, point["sm_mhz"])
                self.assertAlmostEqual(point["time_s"] / (LENGTH_S * time_ms / highest_ms), 1.0, delta=0.01)
                self.assertAlmostEqual(point["energy_j"] / (4 * power_w * point["time_s"]), 1.0, delta=0.01)
            fastest = max(points, key=lambda point: point["sm_mhz"])
            self.assertEqual((fastest["sm_mhz"], fastest["time_s"]), (HIGHEST, LENGTH_S))
            # Nothing below the clock of least energy is a point, and that clock is one.
            energies = {mhz: truth(name, mhz)[0] * truth(name, mhz)[1] for mhz in range(510, HIGHEST + 1, 15)}
            self.assertAlmostEqual(min(point["sm_mhz"] for point in points), min(energies, key=energies.get), delta=45)

    def test_a_job_that_nothing_was_fitted_of_is_as_before(self):
        self.fit("mine,0,gemm")
        with_model = self.answer(["bert", "resnet50"])
        options, text = self.options(["bert", "resnet50"])
        del options[options.index("--fitted"):]
        without = RUNNER.answer(*options, text=text)
        self.assertEqual(with_model["energy_j"], without["energy_j"])
        self.assertEqual(with_model["job_modes"]["modelled"], 0)

    def test_names(self):
        """A whole name is itself, whatever goes on from it; half of one that two have is told."""
        self.fit("mine,0,gemm", "yours,0,copy", "yours,1,copy")
        options, text = self.options(["yours"])
        refused = RUNNER.run(*options, text=text)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('"yours" may be "yours,0,copy" or "yours,1,copy"', refused.stderr)
        self.assertEqual(self.answer(["your", "mine/0"])["job_modes"]["modelled"], 1)
        self.fit("yours", "yours,0,copy", "yours,1,copy")
        point = self.answer(["yours"], "--explain", "0")["explained"]["modes"][0]
        self.assertAlmostEqual(point["energy_j"] / (4 * truth("yours", point["sm_mhz"])[1] * point["time_s"]), 1.0, delta=0.01)

    def test_a_board_without_curves_has_the_clocks_that_were_measured(self):
        self.fit("mine,0,gemm", gpu="p100")
        points = self.answer(["mine"], "--explain", "0", gpu="P100-PCIE-16GB")["explained"]["modes"]
        self.assertGreater(len(points), 3)
        for point in points:
            self.assertEqual((point["sm_mhz"] - 510) % 60, 0)
            self.assertAlmostEqual(point["energy_j"] / (4 * truth("mine,0,gemm", point["sm_mhz"])[1] * point["time_s"]), 1.0, 6)

    def test_another_gpu_is_refused(self):
        self.fit("mine,0,gemm", gpu="V100-SXM2-16GB")
        options, text = self.options(["mine"])
        refused = RUNNER.run(*options, text=text)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('the first of its GPUs is "V100-SXM2-16GB"', refused.stderr)


if __name__ == "__main__":
    unittest.main()
