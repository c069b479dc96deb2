#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull energy: joules, windows, what is dropped, and what becomes of files that cannot be read.

usage: test_energy.py LULL
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = sys.argv[1]


def energy(*words, text=None):
    return subprocess.run([LULL, "energy", *words], input=text, capture_output=True, text=True, check=False, timeout=60)


def smi(power_of, seconds):
    head = "timestamp, index, power.draw [W]\n"
    return head + "".join(f"2024/05/02 09:{i // 60:02d}:{i % 60:02d}.000, {gpu}, {power_of(gpu, i)}\n"
                          for i in seconds for gpu in (0, 1))


class Energy(unittest.TestCase):
    def rows(self, *words, text):
        done = energy("--json", *words, "-", text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        return document["files"][0], document["files"][0]["energies"]

    def test_gpus_and_gaps(self):
        seconds = [i for i in range(300) if not 100 <= i < 160]
        file, rows = self.rows(text=smi(lambda gpu, i: "[N/A]" if i == 5 else f"{100 + 50 * gpu}.00 W", seconds))
        self.assertEqual([(row["gpu"], row["gaps"], row["gap_s"], row["covered_s"]) for row in rows],
                         [("0", 1, 61.0, 238.0), ("1", 1, 61.0, 238.0)])
        for row, watts in zip(rows, (100, 150)):
            self.assertAlmostEqual(row["energy_j"], watts * 238.0, delta=row["uncertainty_j"])
            self.assertLess(row["uncertainty_j"], 0.05 * row["energy_j"])
            self.assertEqual((row["from"], row["reason"]), ("power", None))
        self.assertEqual(file["dropped"]["missing"], 2)

    def test_from_and_to(self):
        text = smi(lambda gpu, i: f"{100 if i < 60 else 200}.00 W", range(120))
        _, rows = self.rows("--from", "2024-05-02 09:01:10", "--to", "2024-05-02 09:01:50", text=text)
        self.assertEqual((rows[0]["covered_s"], rows[0]["mean_w"]), (40.0, 200.0))

    def test_a_counter_that_stands_still(self):
        text = "time_s,power_w,total_energy_mj\n" + "".join(f"{i},60,5000\n" for i in range(60))
        _, rows = self.rows(text=text)
        self.assertAlmostEqual(rows[0]["energy_j"], 59 * 60.0, delta=rows[0]["uncertainty_j"])
        self.assertGreater(rows[0]["estimated_s"], 50.0)

    def test_interval(self):
        text = "#Entity   TOTEC\nID        mJ\n" + "".join(f"GPU 0     {1000 + 50000 * i}\n" for i in range(21))
        self.assertIn("--every", energy("-", text=text).stderr)
        _, rows = self.rows("--every", "0.5", text=text)
        self.assertEqual(rows[0]["covered_s"], 10.0)
        self.assertAlmostEqual(rows[0]["energy_j"], 1000.0, delta=rows[0]["uncertainty_j"])

    def test_one_bad_file_costs_no_other(self):
        with tempfile.TemporaryDirectory() as place:
            good, bad = os.path.join(place, "good.csv"), os.path.join(place, "bad.csv")
            for path, text in ((good, "time,power\n0,100\n1,100\n2,100\n"), (bad, "time,power\n0,[N/A]\n")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
            done = energy("--json", bad, good)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("[N/A]", done.stderr)
        files = json.loads(done.stdout)["files"]
        self.assertEqual([file["energies"][0]["covered_s"] for file in files], [2.0])

    def test_nothing_known_is_a_failure_with_a_reason(self):
        done = energy("--json", "-", text="time,power\n5,100\n")
        row = json.loads(done.stdout)["files"][0]["energies"][0]
        self.assertEqual((done.returncode, row["energy_j"], row["reason"]), (1, None, "it has a single reading"))

    def test_usage(self):
        self.assertEqual(energy().returncode, 2)
        self.assertEqual(energy("--from", "5", "--to", "4", "-", text="").returncode, 2)
        self.assertEqual(energy("--from", "yesterday", "-", text="").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
