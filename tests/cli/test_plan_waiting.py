"""lull plan --waiting-w: every gap's clock and saving against an enumeration of all choices that shares no code with
Lull; plans with waits survive a replay, and tampering is found.

Usage: test_plan_waiting.py LULL
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import plan_case

RUNNER = plan_case.Runner(os.path.abspath(sys.argv[1]))
del sys.argv[1:2]
ROWS = plan_case.rows_of(plan_case.SMALL)
BLOCKING_W = 84.0
STAGES = 3


def arguments(*more):
    return ("--profile", "-", "--stages", str(STAGES), "--microbatches", "5", "--blocking-w", str(BLOCKING_W), *more)


def gaps_of(times, period_s):
    """(device, begin, end) of all gaps."""
    gaps = []
    for d, device in enumerate(times):
        free = 0.0
        for begin, end in device + [(period_s, period_s)]:
            gaps.append((d, free, begin))
            free = end
    return gaps


class Waiting(unittest.TestCase):
    def check(self, points, fall_s, wake_s, *wish):
        """points: (MHz, W, seconds to wake)."""
        text = ",".join(f"{mhz}:{watts}:{up * 1e3:g}" if up != wake_s else f"{mhz}:{watts}" for mhz, watts, up in points)
        document = RUNNER.plan_json(
            *arguments("--waiting-w", text, "--wake-ms", f"{fall_s * 1e3:g},{wake_s * 1e3:g}", *wish),
            data=plan_case.SMALL)
        times = plan_case.timeline(document["plan"], STAGES, ROWS)
        expected = {}
        for device, begin, end in gaps_of(times, document["period_s"]):
            best = max((BLOCKING_W - watts) * (end - begin - fall_s - up) for _, watts, up in points)
            if best > 1e-9:
                expected[device, round(end, 6)] = best
        found = {(gap["device"], round(gap["end_s"], 6)): gap["saved_j"] for gap in document["waiting"]["gaps"]}
        self.assertEqual(expected.keys(), found.keys())
        for key, saved_j in expected.items():
            self.assertAlmostEqual(found[key], saved_j, places=6)
        waiting = document["waiting"]
        self.assertAlmostEqual(waiting["saved_j"], sum(expected.values()), places=6)
        self.assertAlmostEqual(waiting["energy_j"], document["frontier"][0]["energy_j"] - waiting["saved_j"], places=6)
        for gap in waiting["gaps"]:
            up = next(up for mhz, _, up in points if mhz == gap["sm_mhz"])
            self.assertAlmostEqual(gap["wake_s"], gap["end_s"] - up, places=8)
            self.assertGreaterEqual(gap["wake_s"], gap["begin_s"] + fall_s - 1e-9)
        return document

    def test_every_gap(self):
        deep = [(210, 60.0, 0.08)]
        both = [(210, 60.0, 0.08), (1050, 72.0, 0.002)]
        one = self.check(deep, 0.005, 0.08, "--slowdown", "0%")
        two = self.check(both, 0.005, 0.08, "--slowdown", "0%")
        self.assertGreater(two["waiting"]["saved_j"], one["waiting"]["saved_j"])
        self.assertEqual({gap["sm_mhz"] for gap in two["waiting"]["gaps"]}, {210, 1050})
        self.assertEqual(one["frontier"], two["frontier"])
        self.check(both, 0.0, 0.0, "--straggler-ms", "2500")
        self.assertEqual(self.check([(210, 90.0, 0.0)], 0.0, 0.0, "--slowdown", "0%")["waiting"]["gaps"], [])

    def test_a_known_gpu(self):
        document = RUNNER.plan_json(*arguments("--waiting-w", "A100-SXM4-40GB", "--slowdown", "0%"),
                                    data=plan_case.SMALL)
        self.assertGreater(document["waiting"]["saved_j"], 0.0)
        self.assertEqual({gap["sm_mhz"] for gap in document["waiting"]["gaps"]}, {210})

    def test_kept_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            picture = os.path.join(folder, "plan.svg")
            done = RUNNER.plan(*arguments("--waiting-w", "210:60,1050:66:2", "--switch-ms", "5,8", "--min-dwell-ms",
                                          "20", "--slowdown", "2%", "--output", path, "--svg", picture),
                               data=plan_case.SMALL)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("have a clock for waiting", done.stdout)
            found = RUNNER.plan_json("--verify", path)
            self.assertTrue(found["holds"])
            self.assertGreater(found["waiting_saved_j"], 0.0)
            drawn = xml.etree.ElementTree.parse(picture)
            texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("waits at 210 MHz", texts)
            with open(path, encoding="ascii") as file:
                plan = json.load(file)
            self.tamper(folder, plan)

    def tamper(self, folder, plan):
        def changed(change):
            copy = json.loads(json.dumps(plan))
            change(copy["waiting"])
            path = os.path.join(folder, "changed.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump(copy, file)
            return RUNNER.plan("--verify", path)

        def later(waiting):
            waiting["gaps"][0][4] = round(waiting["gaps"][0][4] + 0.001, 9)

        def sooner(waiting):
            gap = next(gap for gap in waiting["gaps"] if gap[3] > 0)
            gap[3] = round(gap[3] - 0.001, 9)

        def cheaper(waiting):
            waiting["points"][0]["power_w"] -= 1

        def twice(waiting):
            waiting["gaps"].append(waiting["gaps"][-1])

        def fewer(waiting):
            del waiting["gaps"][0]

        for change in (later, sooner, cheaper, twice, fewer):
            done = changed(change)
            self.assertEqual(done.returncode, 1, change.__name__)
            self.assertIn("wait", done.stderr)

        def no_point(waiting):
            waiting["gaps"][0][2] = 7

        def no_device(waiting):
            waiting["gaps"][0][0] = 99

        def not_its_operation(waiting):
            waiting["gaps"][0][:2] = [0, 29]

        for change in (no_point, no_device, not_its_operation):
            done = changed(change)
            self.assertEqual(done.returncode, 1, change.__name__)
            self.assertIn("gap", done.stderr)

    def test_what_is_refused(self):
        for more, message in ((("--waiting-w", "210"), "--waiting-w 210"), (("--waiting-w", "x:60"), "pairs of MHz"),
                              (("--waiting-w", "210:60:1:2"), "pairs"), (("--waiting-w", ""), "pairs"),
                              (("--waiting-w", "210:-1"), "pairs"), (("--waiting-w", "V100-SXM2-16GB"), "measured"),
                              (("--waiting-w", ",".join(["210:60"] * 17)), "16"),
                              (("--wake-ms", "1,2"), "--waiting-w")):
            done = RUNNER.plan(*arguments("--slowdown", "0%", *more), data=plan_case.SMALL)
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stdout, "")
        done = RUNNER.plan(*arguments("--waiting-w", "210:60"), data=plan_case.SMALL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("one plan", done.stderr)


if __name__ == "__main__":
    unittest.main()
