"""Figures of runs on GPUs that do not tell all, or are not the job's alone: right, or null with a reason, in the table,
the page and report.json alike. Run as: test_figures.py LULL JOB [TEST...]. SPDX-License-Identifier: Apache-2.0"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Run:
    """A job of iterations of 90 ms on each GPU named, and all that is said of it."""

    def __init__(self, node, faults=(), gpus=(0,), ranks=1, iterations=70, is_managed=True, **environment):
        job = " & ".join(f'"$0" {gpu} {iterations} 30 60 0' for gpu in gpus for _ in range(ranks)) + " & wait"
        self.shared = ranks > 1
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            truth = os.path.join(directory, "truth.json")
            words = [word for fault in faults for word in ("--fault", fault)]
            done = subprocess.run([LULL, "emulate", "--seed", "1", "--truth", truth, *words, node, "--", LULL, "run", "--verbose", *(["--no-daemon"] if is_managed else []),
                                   "--price-per-kwh", "0.5 EUR", "--report", directory, "--scalars", directory, "--", "sh", "-c", job, JOB],
                                  env=dict(os.environ, LULL_RUNTIME_DIR=directory, **environment), capture_output=True, text=True,
                                  check=False, timeout=120)
            assert done.returncode == 0, done.stderr
            self.table = " ".join(done.stderr.split())
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                self.report = json.load(file)
            with open(os.path.join(directory, "report.html"), encoding="utf-8") as file:
                self.page = " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", file.read(), flags=re.S)).split())
            with open(os.path.join(directory, "scalars.jsonl"), encoding="utf-8") as file:
                self.scalars = [json.loads(line) for line in file]
            trace = os.path.join(directory, "trace.json")
            with open(trace, encoding="utf-8") as file:
                self.trace = json.load(file)
            self.analyzed = json.loads(subprocess.run([LULL, "analyze", "--json", trace], capture_output=True, check=True).stdout)
            with open(truth, encoding="utf-8") as file:
                self.truth = [gpu["energy_j"] for gpu in json.load(file)["gpus"]]
        self.run = self.report["energy"]["run"]


class Figures(unittest.TestCase):
    def check_sum(self, run, gpus):
        """Each GPU's energy is there once and near the truth, and the sum and the costs are those of them."""
        self.assertEqual([gpu["index"] for gpu in run.run["gpus"]], gpus)
        for gpu in run.run["gpus"]:
            # The node lives a little longer than the run.
            self.assertAlmostEqual(gpu["energy_j"], run.truth[gpu["index"]],
                                   delta=0.1 * run.truth[gpu["index"]] + 2 * gpu["uncertainty_j"])
        self.assertAlmostEqual(run.run["energy_j"], sum(gpu["energy_j"] for gpu in run.run["gpus"]), delta=1e-3)
        cost = run.report["cost"]
        self.assertAlmostEqual(cost["energy_kwh"] * 3.6e6, run.run["energy_j"], delta=1e-3)
        self.assertAlmostEqual(cost["money"], 0.5 * cost["energy_kwh"], delta=1e-9)
        self.assertIn(f"{cost['energy_kwh']:.4g} kWh, {cost['money']:.4g} EUR", run.table)
        self.assertIn(f"{cost['energy_kwh']:.4g} kWh", run.page)
        self.check_verdict(run)
        self.check_timeline(run)
        self.check_scalars(run, gpus)

    def check_scalars(self, run, gpus):
        """Each GPU once, and sums of what is known alone; a counter that is reset does not run backwards."""
        for line in run.scalars:
            for name in ("power_w", "energy_j"):
                parts = [line[f"lull/gpu{gpu}/{name}"] for gpu in gpus]
                if None in parts:
                    self.assertIsNone(line[f"lull/{name}"])
                else:
                    self.assertAlmostEqual(line[f"lull/{name}"], sum(parts), delta=1e-3 * len(gpus))
        for gpu in gpus:
            energies = [line[f"lull/gpu{gpu}/energy_j"] for line in run.scalars if line[f"lull/gpu{gpu}/energy_j"] is not None]
            self.assertEqual(energies, sorted(energies))
            if run.run["gpus"][gpus.index(gpu)]["source"] == "counter":
                self.assertAlmostEqual(energies[-1], run.truth[gpu], delta=0.25 * run.truth[gpu])
            else:
                self.assertEqual(energies, [])
            self.assertIsNotNone(run.scalars[-1][f"lull/gpu{gpu}/power_w"])

    def check_timeline(self, run):
        """The timeline is what ui.perfetto.dev wants, and `lull analyze` reads from it what report.json says."""
        events = run.trace["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        rows = {}
        for event in events:
            self.assertIn(event["ph"], "MXC")
            self.assertIn(event["pid"], names)
            self.assertGreater(event["pid"], 0)
            self.assertTrue(event["ph"] == "M" or event["ts"] >= 0.0)
            if event["ph"] == "X":
                rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"], event))
            elif event["ph"] == "C":
                self.assertTrue(all(isinstance(value, (int, float)) for value in event["args"].values()))
        self.assertEqual(len({(event["pid"], event["tid"]) for event in events if "tid" in event}), 2 * len(names))
        self.assertEqual(len({event["tid"] for event in events if "tid" in event}), 2 * len(names))
        for spans in rows.values():
            # What lies on one row must not overlap; times are written to a nanosecond.
            spans.sort(key=lambda span: span[0])
            self.assertTrue(all(a[1] <= b[0] + 0.002 for a, b in zip(spans, spans[1:])))
        self.assertEqual(run.analyzed["verdict"], run.report["verdict"]["sentence"])
        reported = {gpu["index"]: gpu for gpu in run.report["gpus"]}
        for gpu in run.analyzed["recording"]["gpus"]:
            self.assertEqual(names[gpu["index"] + 1], f"GPU {gpu['index']} {gpu['name']}")
            told = {(kind, span["name"]): (span["count"], span["total_ms"])
                    for kind in ("communication", "lowered") for span in gpu[kind]}
            seen = {}
            for _, _, event in (span for spans in rows.values() for span in spans):
                if event["pid"] == gpu["index"] + 1:
                    count, total = seen.get((event["cat"], event["name"]), (0, 0.0))
                    seen[event["cat"], event["name"]] = (count + 1, total + event["dur"] * 1e-3)
            self.assertEqual({name: count for name, (count, _) in told.items()}, {name: count for name, (count, _) in seen.items()})
            for name, (_, total) in told.items():
                self.assertAlmostEqual(total, seen[name][1], delta=1e-3)
            if gpu["index"] in reported:
                communicated = sum(span["total_ms"] for span in gpu["communication"])
                if not run.shared:
                    self.assertAlmostEqual(communicated, reported[gpu["index"]]["communication_ms"], delta=1.0 + 0.01 * communicated)
                self.assertEqual(bool(gpu["lowered"]), reported[gpu["index"]]["switches"] > 0)
            else:
                self.assertEqual(told, {})

    def check_verdict(self, run):
        """The page and the terminal have the same lines, and whatever ratio is missing has a reason."""
        verdict = run.report["verdict"]
        for name in ("energy_line", "time_line", "next_line"):
            self.assertIn(" ".join(verdict[name].split()), run.table)
            self.assertIn(" ".join(verdict[name].split()), run.page)
        for name in ("saving", "slowdown"):
            self.assertEqual(verdict[f"{name}_ratio"] is None, verdict[f"{name}_reason"] is not None, verdict)
        self.assertEqual([text for text in (run.table, run.page) if re.search(r"\bnan\b|\binf\b", text)], [])

    def test_no_counter(self):
        run = Run("2xA100", ["no_energy"], gpus=(0, 1))
        self.check_sum(run, [0, 1])
        self.assertEqual([gpu["source"] for gpu in run.run["gpus"]], ["power", "power"])
        self.assertIn("polled power (no counter)", run.page)

    def test_a_counter_that_is_reset(self):
        run = Run("1xA100", ["energy_wrap_j=300"])
        self.check_sum(run, [0])
        (gpu,) = run.run["gpus"]
        self.assertGreater(gpu["counter_resets"], 1)
        self.assertIn("its counter was reset", run.table)
        self.assertIn(f"which was reset {gpu['counter_resets']} times; polled power stood in for", run.page)

    def test_slices(self):
        """The slices of a GPU have one counter: it is counted once; and one clock, which is left alone."""
        run = Run("1xA100", ["mig=3x1"])
        self.check_sum(run, [0])
        self.assertIn("GPU 0: not managed: MIG is on", run.report["verdict"]["sentence"])
        self.assertEqual((run.report["verdict"]["lowered"], run.report["gpus"][0]["switches"]), (False, 0))
        self.assertEqual(run.page.count("energy of GPU"), 1)

    def test_slices_beside_a_whole_gpu(self):
        """What is tried or kept on the other GPU is not said of the one that is left alone."""
        run = Run("2xA100", ["1:mig=3x1"], gpus=(0, 1))
        self.check_sum(run, [0, 1])
        alone = run.report["gpus"][1]
        self.assertIn("MIG is on", alone["state"])
        self.assertEqual({(section["sm_mhz"], section["verdict"], section["reason"]) for section in alone["sections"]},
                         {(1410, "not switched", "its GPU is not managed")})
        self.assertNotIn("its GPU is not managed", {section["reason"] for section in run.report["gpus"][0]["sections"]})

    def test_four_ranks_on_one_gpu(self):
        run = Run("2xA100", ranks=4, CUDA_VISIBLE_DEVICES="0")
        self.check_sum(run, [0])
        self.assertIn("several ranks share it", run.report["verdict"]["sentence"])
        self.assertEqual([gpu["index"] for gpu in run.report["gpus"]], [0])

    def test_one_gpu_of_eight(self):
        run = Run("8xA100", gpus=(5,), CUDA_VISIBLE_DEVICES="5")
        self.check_sum(run, [5])
        self.assertEqual([gpu["index"] for gpu in run.report["gpus"]], [5])
        self.assertIn("GPU 5:", run.table)
        self.assertNotIn("GPU 0", run.table)

    def test_a_gpu_that_is_lost(self):
        """What it drew is not known from then on: null, with a reason, and so is every sum that it is part of."""
        run = Run("2xA100", ["1:lost_ms=1000000@120"], gpus=(0, 1), iterations=110, is_managed=False)
        self.check_verdict(run)
        kept, lost = run.run["gpus"]
        self.assertIsNotNone(kept["energy_j"])
        self.assertAlmostEqual(kept["energy_j"], run.truth[0], delta=0.1 * run.truth[0])
        self.assertEqual((lost["energy_j"], lost["uncertainty_j"]), (None, None))
        self.assertIsNone(run.run["energy_j"])
        cost = run.report["cost"]
        self.assertEqual((cost["energy_kwh"], cost["money"]), (None, None))
        self.assertEqual(cost["reason"], "the energy of one of the GPUs is not known")
        self.assertNotIn("kWh,", run.table)
        self.assertRegex(lost["reason"], r"^it could not be read in the last \d+ s of the run$")
        self.assertIn("energy and cost not known: the energy of one of the GPUs is not known", run.table)
        self.assertIn("GPU 1 not known: " + lost["reason"], run.table)
        self.assertIn("the energy of one of the GPUs is not known", run.page)
        for name in ("power_w", "energy_j"):
            self.assertIsNotNone(run.scalars[-1][f"lull/gpu0/{name}"])
            self.assertIsNone(run.scalars[-1][f"lull/gpu1/{name}"])
            self.assertIsNone(run.scalars[-1][f"lull/{name}"])
        self.assertIn("energy of GPU 1 not known " + lost["reason"], run.page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
