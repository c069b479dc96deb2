# SPDX-License-Identifier: Apache-2.0
"""Sections, steps and windows, within and without lull run.

usage: test_marks.py LULL LIBLULL"""
import json
import sys
import unittest

import case
import host
import lull

# Prints the window's figures, its GPU being seen by the driver.
JOB = """
import sys, threading, time
sys.path.insert(0, {tests!r})
sys.argv[1:] = [{lull!r}, {library!r}]
import case
case.on_gpu()
import lull
with lull.window("epoch") as outer:
    for number in range({steps}):
        with lull.section("optimizer"), lull.section("a name of more than forty-seven bytes, which is cut"):
            time.sleep(0.02)
        time.sleep(0.01)
        lull.step()
    with lull.window("inner\\0rest") as inner:
        pass
print(outer.joules, outer.uncertainty, outer.seconds, outer.gpus, outer.reason, inner.joules)
"""


def job(steps=60):
    import os
    return JOB.format(tests=os.path.join(case.PACKAGE, "tests"), lull=case.LULL, library=case.LIBLULL, steps=steps)


class Managed(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)

    def test_marks_and_windows_are_in_the_report(self):
        def run():
            done = case.in_node(sys.executable, "-c", job(), directory=self.directory.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout, lull.report(self.directory.name)

        def is_known(result):
            return any(gpu["sections"] for gpu in result[1].document["gpus"])

        said, report = host.run_on_time(run, is_known)
        self.assertEqual(report.status, 0)
        self.assertGreater(report.managed.iterations, 30)  # the steps
        names = {section["name"] for gpu in report.document["gpus"] for section in gpu["sections"]}
        self.assertIn("optimizer", names)
        rows = {row.name: row for row in report.energy.windows}
        self.assertEqual({name: row.count for name, row in rows.items()}, {"epoch": 1, "inner": 1})
        joules, uncertainty, seconds, gpus, reason, inner = said.split()
        self.assertEqual((gpus, reason), ("1", "None"))
        self.assertGreater(float(inner), 0)
        self.assertAlmostEqual(float(joules), rows["epoch"].energy_j,
                               delta=2 * (float(uncertainty) + rows["epoch"].uncertainty_j))
        self.assertAlmostEqual(float(seconds), rows["epoch"].gpu_seconds, delta=0.01)


class Unmanaged(unittest.TestCase):
    def test_windows_measure_without_lull_run(self):
        done = case.in_node(sys.executable, "-c", job(40))
        joules, uncertainty, seconds, gpus, reason, _ = done.stdout.split()
        self.assertEqual((gpus, reason), ("1", "None"), done.stderr)
        # An idle GPU with a context: between its idle power and a busy one's.
        self.assertTrue(50 < float(joules) / float(seconds) < 150, done.stdout)
        self.assertGreater(float(uncertainty), 0)

    def test_without_a_gpu_the_energy_is_unknown_with_a_reason(self):
        code = "import lull\nwith lull.window('w') as w: pass\nprint(w.joules, w.uncertainty, w.gpus, w.reason)"
        done = case.in_node(sys.executable, "-c", code)  # two GPUs, and it uses neither
        self.assertTrue(done.stdout.startswith("None None 0 no GPU of this process was found"), done.stdout + done.stderr)

    def test_more_windows_than_there_is_room_for(self):
        windows = [lull.window("w") for _ in range(65)]
        for window in windows:
            window.__enter__()
        for window in windows:
            window.__exit__(None, None, None)
        self.assertIn("64 windows", windows[64].reason)
        self.assertNotIn("64 windows", windows[0].reason)

    def test_a_window_ends_with_an_exception_and_can_be_used_again(self):
        window = lull.window("w")
        self.assertEqual((window.joules, window.reason), (None, "the window has not ended"))
        with self.assertRaises(KeyError), window:
            raise KeyError
        first_s = window.seconds
        with window:
            self.assertIsNone(window.seconds)
        self.assertIsNotNone(first_s)
        self.assertIsNotNone(window.seconds)

    def test_names_of_any_text(self):
        for name in ("", "\0", "é" * 100, "\ud800"):
            with lull.section(name), lull.window(name):
                lull.step()

    def test_sections_do_not_collect_names(self):
        from lull import _marks
        for number in range(1000):
            with lull.section(f"section {number}"):
                pass
        self.assertEqual(len(_marks._sections), _marks.MAX_SECTIONS)


class Report(unittest.TestCase):
    def test_what_is_no_report(self):
        with self.assertRaises(FileNotFoundError):
            lull.report("/nowhere")
        with self.assertRaisesRegex(ValueError, "not a report"):
            lull.report(case.SOURCE + "/data/metrics.json")

    def test_the_documents_example(self):
        path = case.SOURCE + "/docs/user/report-example.json"
        report = lull.report(path)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(report.document, document)
        self.assertEqual(report.verdict.saving_ratio, document["verdict"]["saving_ratio"])
        self.assertEqual(report.energy.run.gpus[1].energy_j, document["energy"]["run"]["gpus"][1]["energy_j"])
        self.assertIsNone(report.saving_ratio)  # unknown is None
        self.assertEqual(report.frontier[0].source, "measured")
        with self.assertRaises(AttributeError):
            report.status = 1


if __name__ == "__main__":
    unittest.main(verbosity=2)
