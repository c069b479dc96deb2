"""lull simulate cluster with nodes that are turned off or fail, prices and power caps: small cases
by hand, and bad input refused in words.

Usage: test_cluster_conditions.py LULL
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1:2]
# Two jobs of all GPUs of one node, 100 s each; 900 s lie between them.
JOBS = "job_id,submit_s,num_gpus,duration_s\na,0,8,100\nb,1000,8,100\n"


def queue(*options, text=JOBS):
    words = [LULL, "simulate", "cluster", "--policy", "fifo", "--nodes", "1", "-"] + [str(o) for o in options]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


def answer(*options, text=JOBS):
    done = queue(*options, "--json", text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Conditions(unittest.TestCase):
    def written(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_nothing_is_asked(self):
        got = answer()
        self.assertEqual((got["turn_ons"], got["node_failures"], got["price"], got["power_cap_w"]), (0, 0, None, None))
        self.assertAlmostEqual(got["energy_j"], 2 * 100 * 8 * 350 + 900 * 8 * 60, delta=1e-3)

    def test_power_down(self):
        # 480 W idle save 470 W when off: 94,000 J are 200 s; then b waits for 30 s.
        got = answer("--power-down", "--turn-on-j", 94000, "--turn-on-s", 30, "--off-w", 10)
        self.assertEqual((got["turn_ons"], got["turn_offs"], got["makespan_s"]), (1, 1, 1130.0))
        self.assertAlmostEqual(got["idle_j"], 200 * 480 + 700 * 10, delta=1e-3)
        self.assertAlmostEqual(got["turn_on_j"], 94000, delta=1e-3)
        self.assertIn("turned off 1 times, on 1 times", queue("--power-down", "--turn-on-s", 30).stdout)

    def test_failures(self):
        failures = self.written("node,from_s,to_s\n0,1050,1060\n0,40,50\n")
        got = answer("--failures", failures)
        self.assertEqual((got["node_failures"], got["job_failures"], got["lost_s"]), (2, 2, 90.0))
        self.assertEqual(got["makespan_s"], 1160.0)
        got = answer("--failures", failures, "--checkpoint-minutes", 0.25)
        self.assertEqual(got["lost_s"], 15.0)
        self.assertAlmostEqual(got["makespan_s"], 1115.0, delta=1e-6)
        drawn = [answer("--mtbf-h", 0.02, "--repair-minutes", 1, "--failure-seed", seed) for seed in (3, 3, 4)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0]["lost_s"], drawn[2]["lost_s"])

    def test_links_that_are_shared(self):
        # Each of two jobs has a node, and a GPU of the one between.
        text = "job_id,submit_s,num_gpus,duration_s,model\na,0,3,100,bert\nb,0,3,100,bert\n"
        cluster = ("--nodes", 3, "--gpus-per-node", 2, "--gpu-types", "A100-SXM4-40GB", "--network", "ethernet")
        alone = answer(*cluster, text=text)
        got = answer(*cluster, "--contention", text=text)
        sends = 0.62 / 0.38 / (7 / 8) * 2 / 3
        r = sends / (1 + sends)
        duty = (r - 1 + ((1 - r) ** 2 + 4 * r * r) ** 0.5) / (2 * r)
        self.assertEqual((alone["makespan_s"], alone["shared_s"], alone["sharing_jobs"]), (100.0, None, None))
        self.assertAlmostEqual(got["makespan_s"], 100 * (1 + r * duty), delta=1e-3)
        self.assertAlmostEqual(got["shared_s"], 2 * 100 * r * duty, delta=1e-3)
        self.assertEqual(got["sharing_jobs"], 2)
        self.assertGreater(got["run_j"], alone["run_j"])
        worse = answer(*cluster, "--contention-penalty", 0.27, text=text)
        self.assertGreater(worse["makespan_s"], got["makespan_s"])
        self.assertEqual(answer(*cluster, "--contention-penalty", 0, text=text)["shared_s"], got["shared_s"])
        said = queue(*cluster, "--contention", "--explain", "a", text=text).stdout
        self.assertIn("longer, as it shared links or the storage with others", said)

    def test_racks(self):
        # Two jobs of two nodes keep to their racks; three nodes cannot.
        table = "job_id,submit_s,num_gpus,duration_s,model\n"
        cluster = ("--nodes", 4, "--gpus-per-node", 2, "--gpu-types", "A100-SXM4-40GB", "--rack-nodes", 2, "--rack-uplink", 0.5)
        apart = answer(*cluster, text=table + "a,0,4,100,bert\nb,0,4,100,bert\n")
        self.assertEqual((apart["makespan_s"], apart["shared_s"]), (100.0, 0.0))
        across = answer(*cluster, text=table + "a,0,6,100,bert\n")
        sends = 0.115 / 0.885 / (7 / 8) * 5 / 6
        self.assertAlmostEqual(across["makespan_s"], 100 * (1 + sends / (1 + sends)), delta=1e-3)

    def test_storage_that_is_shared(self):
        text = "job_id,submit_s,num_gpus,duration_s,model\n" + "".join(f"{i},0,1,100,resnet50\n" for i in range(8))
        cluster = ("--nodes", 1, "--gpu-types", "A100-SXM4-40GB", "--storage-mb-s")
        self.assertEqual(answer(*cluster, 8 * 284, text=text)["makespan_s"], 100.0)
        half = answer(*cluster, 4 * 284, text=text)
        self.assertAlmostEqual(half["makespan_s"], 200.0, delta=1e-6)
        self.assertAlmostEqual(half["shared_s"], 800.0, delta=1e-6)

    def test_price_and_carbon(self):
        price = self.written("time_s,price_per_kwh\n0,0.1\n50,0.4\n")
        carbon = self.written("time_s,g_per_kwh\n0,100\n")
        got = answer("--price", price, "--carbon", carbon)
        early_kwh = 50 * 2800 / 3.6e6
        self.assertAlmostEqual(got["price"], 0.1 * early_kwh + 0.4 * (got["energy_j"] / 3.6e6 - early_kwh), delta=1e-9)
        self.assertAlmostEqual(got["carbon_g"], got["energy_j"] / 3.6e6 * 100, delta=1e-6)

    def test_caps(self):
        text = "job_id,submit_s,num_gpus,duration_s\n" + "".join(f"{i},0,1,100\n" for i in range(8))
        # 480 W idle; a job 350 * 1.05 - 60 more: four at a time.
        got = answer("--power-cap", 480 + 4 * 307.5, text=text)
        self.assertEqual((got["makespan_s"], got["rejected"]), (200.0, 0))
        self.assertEqual(answer("--node-cap", 480 + 2 * 307.5, text=text)["makespan_s"], 400.0)
        self.assertEqual(answer("--power-cap", 480 + 4 * 290, "--peak-ratio", 1, text=text)["makespan_s"], 200.0)
        self.assertEqual(answer("--power-cap", 700, text=text)["rejected"], 8)

    def test_bad_input(self):
        gpu = ("--gpu-types", "A100-SXM4-40GB")
        for words, said in ((("--contention",), "only known with --gpu-types"), (gpu + ("--rack-nodes", 2), "give --rack-uplink as well"),
                            (gpu + ("--storage-mb-s", 0), "give a number above 0"),
                            (("--power-cap", 100), "below the 480 W"), (("--node-cap", 100), "node 0"),
                            (("--power-cap", 0), "give a number above 0"), (("--peak-ratio", 0.9), "give a number from 1 to 1000"),
                            (("--mtbf-h", 0), "give a number above 0"), (("--turn-on-s", -1), "give a number from 0"),
                            (("--failures", "x", "--mtbf-h", 1), "exclude each other"),
                            (("--failures", self.written("node,from_s,to_s\n1,0,5\n")), "line 2"),
                            (("--failures", self.written("node,from_s,to_s\n0,5,5\n")), "line 2"),
                            (("--failures", self.written("node,from_s,to_s\n0,0,9\n0,5,12\n")), "while it is down"),
                            (("--failures", self.written("node,to_s\n")), "from_s"),
                            (("--price", self.written("time_s,price_per_kwh\n5,1\n5,2\n")), "line 3"),
                            (("--price", self.written("time_s,price_per_kwh\n")), "no rows"),
                            (("--carbon", self.written("time_s,price_per_kwh\n0,1\n")), "g_per_kwh")):
            done = queue(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertEqual(done.stdout, "")
            self.assertIn(said, done.stderr, words)


if __name__ == "__main__":
    unittest.main()
