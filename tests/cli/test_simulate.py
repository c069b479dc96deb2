#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lull simulate prints of one job: whole runs, seeds.

usage: test_simulate.py LULL [UNITTEST ARGUMENT...]
"""
import json
import subprocess
import sys
import tempfile
import unittest

LULL = sys.argv.pop(1)


def simulate(*words):
    done = subprocess.run([LULL, "simulate", "--json", *words], capture_output=True, text=True, check=True, timeout=100)
    document = json.loads(done.stdout)
    return document, {mode["name"]: mode for mode in document["modes"]}


class Seeds(unittest.TestCase):
    JOB = ("--preset", "resnet50-ddp", "--ranks", "2", "--periods", "120", "--call-settle-ms", "4,10")

    def test_a_seed_orders_the_trials(self):
        """With constant latencies the coins of the trials are all that a seed decides."""
        first, modes = simulate("--seed", "1", *self.JOB)
        self.assertEqual(simulate("--seed", "1", *self.JOB)[0], first)
        others = {simulate("--seed", str(seed), *self.JOB)[1]["auto"]["period_ms"] for seed in (2, 3, 4)}
        self.assertGreater(len(others | {modes["auto"]["period_ms"]}), 1)


class Modes(unittest.TestCase):
    def test_modes_that_are_not_wanted_are_not_played(self):
        job = ("--preset", "moe-alltoall", "--ranks", "2", "--periods", "60")
        everything, _ = simulate(*job)
        some, modes = simulate(*job, "--modes", "power_limit,steady")
        self.assertEqual(list(modes), ["highest", "power_limit", "steady", "auto"])
        self.assertEqual(some["modes"], [mode for mode in everything["modes"] if mode["name"] in modes])
        self.assertEqual((some["oracle"], some["joint_oracle"]), (None, None))
        oracles, modes = simulate(*job, "--modes", "oracles")
        self.assertEqual(list(modes), ["highest", "auto"])
        self.assertEqual(oracles["joint_oracle"], everything["joint_oracle"])

    def test_bad_modes(self):
        for words in ("fast", "", "auto,", "aut", "auto,,steady"):
            done = subprocess.run([LULL, "simulate", "--preset", "moe-alltoall", "--modes", words],
                                  capture_output=True, text=True, check=False, timeout=10)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("feed_forward", done.stderr)


class Figures(unittest.TestCase):
    def test_the_search_counts(self):
        """The settled part saves more than the whole run, which the search is part of."""
        document, modes = simulate("--preset", "resnet50-ddp", "--ranks", "4", "--straggler", "3,1.1", "--periods", "300")
        auto, highest = modes["auto"], modes["highest"]
        self.assertGreater(auto["settled_saving_ratio"], auto["saving_ratio"] + 0.01)
        self.assertAlmostEqual(auto["saving_ratio"], 1 - auto["energy_j"] / highest["energy_j"], places=7)
        self.assertGreaterEqual(auto["worst_slowdown_ratio"], auto["slowdown_ratio"])
        self.assertIsNone(auto["settled_reason"])
        self.assertIsNone(highest["settled_slowdown_ratio"])
        self.assertIsNotNone(highest["settled_reason"])
        self.assertTrue(document["within_tolerance"] and auto["within_tolerance"])
        self.assertIn("run: lull run", document["verdict"])

    def test_a_short_run_still_searches(self):
        document, modes = simulate("--preset", "resnet50-ddp", "--ranks", "4", "--straggler", "3,1.1", "--periods", "60")
        self.assertTrue(document["verdict"].startswith("still searching after 60 periods"), document["verdict"])
        self.assertIsNone(modes["auto"]["settled_in_period"])
        self.assertIn("search", modes["auto"]["settled_reason"])


class Servers(unittest.TestCase):
    SERVER = ("--server", "Llama-3.1-8B", "--duration", "60")

    def test_modes_of_one_document_fit(self):
        document, modes = simulate(*self.SERVER, "--rate", "3")
        self.assertEqual(list(modes), ["highest", "fixed_clock", "power_limit", "lull", "oracle", "ideal"])
        self.assertEqual((document["server"], document["gpu_model"], document["gpus"]), ("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM5", 1))
        self.assertEqual((document["objective"], document["capacity_per_s"]), ({"ttft_ms": 500, "tpot_ms": 50, "share_ratio": 0.99}, None))
        for mode in modes.values():
            self.assertAlmostEqual(mode["saving_ratio"], 1 - mode["energy_j"] / modes["highest"]["energy_j"], places=7)
            self.assertAlmostEqual(mode["energy_per_token_j"] * document["output_tokens"], mode["energy_j"], places=3)
            self.assertEqual(mode["missed"] - modes["highest"]["missed"], mode["missed_only_here"] - mode["missed_only_at_highest"])
            self.assertLessEqual(mode["ttft_p50_ms"], mode["ttft_p99_ms"])
        for name in ("oracle", "ideal"):
            self.assertEqual(modes[name]["added_misses"], 0)
            self.assertGreater(modes[name]["saving_ratio"], 0.3)
        self.assertGreaterEqual(modes["ideal"]["saving_ratio"], modes["oracle"]["saving_ratio"] - 0.005)
        for name in ("fixed_clock", "power_limit"):
            self.assertLessEqual(modes[name]["missed"], max(modes["highest"]["missed"], modes["lull"]["missed"]))
        self.assertRegex(document["verdict"], "^saves .* run: lull run --slo ttft=500ms,tpot=50ms -- vllm serve meta-llama/Llama-3.1-8B-Instruct$")
        self.assertEqual(simulate(*self.SERVER, "--rate", "3")[0], document)
        _, some = simulate(*self.SERVER, "--rate", "3", "--modes", "power_limit")
        self.assertEqual(some, {name: modes[name] for name in ("highest", "power_limit", "lull")})
        _, oracle = simulate(*self.SERVER, "--rate", "3", "--modes", "oracle")
        self.assertEqual(oracle, {name: modes[name] for name in ("highest", "lull", "oracle")})
        self.assertNotEqual(simulate(*self.SERVER, "--rate", "3", "--seed", "2")[1], modes)

    def test_pools_have_results_each(self):
        document, modes = simulate(*self.SERVER, "--rate", "6", "--prefill-on", "1xH100", "--slo", "ttft=500ms,tpot=50ms")
        self.assertEqual([(pool["name"], pool["gpus"]) for pool in document["pools"]], [("prefill", 1), ("decode", 1)])
        self.assertGreater(document["handover_gbs"], 100)
        for name in ("fixed_clock", "power_limit", "oracle", "ideal"):
            self.assertIsNone(modes[name]["energy_j"])
            self.assertIn("two pools", modes[name]["reason"])
        for name in ("highest", "lull"):
            pools = modes[name]["pools"]
            self.assertIsNone(modes[name]["reason"])
            self.assertIsNone(modes[name]["mean_mhz"])
            self.assertAlmostEqual(sum(pool["energy_j"] for pool in pools), modes[name]["energy_j"], places=3)
            self.assertLessEqual(modes[name]["missed"], sum(pool["missed"] for pool in pools))
        self.assertGreater(modes["lull"]["pools"][1]["saving_ratio"], 0.2)
        slow, _ = simulate(*self.SERVER, "--rate", "6", "--prefill-on", "1xH100", "--handover-gbs", "1")
        self.assertEqual(slow["handover_gbs"], 1)
        self.assertGreater(slow["modes"][0]["ttft_p50_ms"], modes["highest"]["ttft_p50_ms"] + 50)
        single, _ = simulate(*self.SERVER, "--rate", "3", "--duration", "10")
        self.assertEqual((single["pools"], single["handover_gbs"], single["modes"][0]["pools"]), (None, None, None))

    def test_a_load_is_a_share_of_the_capacity(self):
        document, _ = simulate(*self.SERVER, "--load", "25%", "--modes", "auto")
        self.assertAlmostEqual(document["rate_per_s"], 0.25 * document["capacity_per_s"])
        self.assertAlmostEqual(document["load_ratio"], 0.25)

    def test_large_models_get_gpus_and_a_wider_objective(self):
        document, _ = simulate("--server", "Llama-3.1-70B", "--rate", "0.5", "--duration", "20", "--modes", "auto")
        self.assertEqual((document["gpus"], document["objective"]["tpot_ms"]), (4, 100))

    def test_arrivals_of_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            for second in range(50):
                file.write(f"2023-11-16 18:15:{second:02}.5,{100 + second},{10 + second}\n")
            file.write("never,1,1\n")
            file.flush()
            words = (LULL, "simulate", "--json", *self.SERVER, "--rate", "5", "--arrivals", file.name)
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100)
        document = json.loads(done.stdout)
        self.assertEqual((document["requests"], document["skipped_rows"], document["arrivals"]), (300, 1, file.name))
        self.assertIn("1 rows left out", done.stderr)
        self.assertIn("line 52", done.stderr)

    def test_refusals(self):
        for words, status, text in (
                (("--server", "GPT-9"), 4, "GPT-9"),
                ((*self.SERVER, "trace.json"), 2, "--arrivals"),
                ((*self.SERVER, "--on", "3xH100"), 2, "1, 2, 4 or 8"),
                ((*self.SERVER, "--on", "1xH100,1xA40"), 2, "one model"),
                ((*self.SERVER, "--slo", "fast"), 2, "ttft=500ms"),
                ((*self.SERVER, "--prefill-on", "1xH100", "--slo", "tpot=50ms"), 2, "a bound each"),
                ((*self.SERVER, "--handover-gbs", "9"), 2, "--prefill-on"),
                (("--server", "Llama-3.1-70B", "--on", "1xH100"), 2, "does not fit"),
                ((*self.SERVER, "--slo", "tpot=1ms"), 1, "--slo"),
                (("--slo", "tpot=1ms"), 2, "--server")):
            done = subprocess.run([LULL, "simulate", *words], capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual((done.returncode, done.stdout), (status, ""), (words, done.stderr))
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
