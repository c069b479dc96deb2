"""Figures of a run that goes on, on GPUs that do not tell all, or are shared, or are lost: right, or null with a reason, in the JSON of
`lull serve`, in /metrics and on the live page alike. test_figures.py has the same of a run that has ended.

Run as: lull emulate 8xMODEL -- test_live_figures.py LULL LULLD TOOL JOB. SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import serve_case  # noqa: E402
from serve_case import find, host  # noqa: E402

LULL, LULLD, TOOL, JOB = sys.argv[1:5]
SHARED, NO_COUNTER, RESET, PARTITIONED, LOST = 0, 1, 2, 3, 6
USED = [SHARED, NO_COUNTER, RESET, PARTITIONED, LOST]
WRAP_J = 100
# Four ranks on the first GPU, and one on each of the others.
RANKS = "trap 'kill $ranks' TERM; for gpu in 0 0 0 0 1 2 3 6; do OMPI_COMM_WORLD_LOCAL_RANK=$gpu \"$0\" $gpu 100000 30 60 0 & ranks=\"$ranks $!\"; done; wait"
BOUND_S = 60


def spoil(*faults):
    for fault in faults:
        subprocess.run([TOOL, "fault", fault], check=True, timeout=60)


class LiveFigures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = serve_case.Node(LULL, LULLD, None)
        spoil(f"{NO_COUNTER}:no_energy=1", f"{RESET}:energy_wrap_j={WRAP_J}", f"{PARTITIONED}:mig=3")
        cls.serve = cls.node.serve()
        cls.viewer = cls.serve.open_stream("?rate_hz=5")
        cls.process = subprocess.Popen([LULL, "run", "--quiet", "--report", os.path.join(cls.node.directory.name, "report"), "--", "sh", "-c",
                                        RANKS, JOB], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.node.ends.append(cls.end_job)

    @classmethod
    def end_job(cls):
        cls.process.terminate()
        cls.process.wait(timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.viewer.close()
        cls.node.close()

    def look(self):
        """The run as JSON, and what of it and its GPUs is not known; None: it is not there yet."""
        for job in self.serve.json("/api/v1/node")["jobs"]:
            if job["pid"] == self.process.pid:
                return job, [job["unknown"], *((gpu["index"], gpu["unknown"]) for gpu in job["gpus"])]
        return None, None

    def settle(self, condition):
        """The run once the condition holds of it and its GPUs by their numbers, and /metrics of it; the same was known before and after."""
        found = []

        def holds():
            job, unknown = self.look()
            if job is None or [gpu["index"] for gpu in job["gpus"]] != USED:
                return False
            gpus = {gpu["index"]: gpu for gpu in job["gpus"]}
            samples = self.serve.metrics()
            if condition(job, gpus) and self.look()[1] == unknown:
                found[:] = [job, gpus, {key: value for key, value in samples.items() if ("run", job["name"]) in key}]
            return bool(found)

        self.assertIsNotNone(host.wait_for(holds, BOUND_S, 0.1))
        return found

    def check_alike(self, samples, name, unknown, figure, key, of, **labels):
        """A figure that is known has one series; one that is not has none, and the reason that JSON has."""
        valid, = find(samples, f"{name}_figure_valid", figure=figure, **labels)
        self.assertEqual(valid[1], of[key] is not None, (key, labels))
        self.assertEqual(valid[0].get("reason"), unknown.get(key), (key, labels))
        self.assertEqual(of[key] is None, key in unknown, (key, labels))

    def check_energies(self, job, gpus, samples):
        for index, gpu in gpus.items():
            self.check_alike(samples, "lull_run_gpu", gpu["unknown"], "energy", "energy_j", gpu, gpu=str(index))
            series = find(samples, "lull_run_gpu_energy_joules_total", gpu=str(index))
            self.assertEqual(len(series), gpu["energy_j"] is not None, index)
        for figure, key, name in (("energy", "energy_j", "lull_run_energy_joules_total"), ("power", "power_w", "lull_run_power_watts")):
            parts = [gpu[key] for gpu in gpus.values()]
            self.check_alike(samples, "lull_run", job["unknown"], figure, key, job)
            self.assertEqual(len(find(samples, name)), job[key] is not None)
            if None in parts:
                self.assertIsNone(job[key])
            else:
                self.assertAlmostEqual(job[key], sum(parts), delta=1e-3 * len(parts))

    def test_a_run_that_goes_on(self):
        job, gpus, samples = self.settle(lambda job, gpus: job["energy_j"] is not None and job["power_w"] is not None and
                                         gpus[RESET]["energy_resets"] > 1 and gpus[NO_COUNTER]["energy_estimated_s"] > 1.0)
        self.check_energies(job, gpus, samples)
        self.assertEqual((job["gpus_unused"], [gpus[index]["ranks"] for index in USED]), (3, [4, 1, 1, 1, 1]))
        self.assertEqual(len(find(samples, "lull_run_gpu_ranks", gpu=str(PARTITIONED))), 1)
        self.assertGreater(gpus[RESET]["energy_j"], WRAP_J)
        self.assertEqual((gpus[SHARED]["energy_estimated_s"], gpus[SHARED]["energy_resets"]), (0.0, 0))
        spoil(f"{LOST}:lost_ms=3600000x1")
        job, gpus, samples = self.settle(lambda job, gpus: gpus[LOST]["power_w"] is None and job["power_w"] is None)
        self.check_energies(job, gpus, samples)
        for figures, keys in ((gpus[LOST], ("power_w", "energy_j", "clock_mhz")), (job, ("power_w", "energy_j"))):
            self.assertEqual({key: (figures[key], figures["unknown"].get(key)) for key in keys},
                             {key: (None, "the driver has lost the GPU") for key in keys})
        self.assertIsNotNone(gpus[SHARED]["energy_j"])
        cells = re.findall(r'data-live="power_w-\d+"><em>not known</em><small>(.*?)</small>', self.serve.ask("/")[2])
        self.assertIn("the driver has lost the GPU", cells)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
