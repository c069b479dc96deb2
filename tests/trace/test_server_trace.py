#!/usr/bin/env python3
"""lull analyze of traces of inference servers: prefill and decode, by annotations, by kernels, and where they cannot be distinguished.

Usage: test_server_trace.py LULL
SPDX-License-Identifier: Apache-2.0"""
import copy
import json
import os
import random
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server_trace  # noqa: E402
from server_trace import FLASHINFER, serve, sglang_name  # noqa: E402

LULL = os.path.abspath(sys.argv[1])
del sys.argv[1:2]


def run(document, *options):
    return subprocess.run([LULL, "analyze", *options, "-"], input=json.dumps(document).encode(), capture_output=True, check=False, timeout=60)


def analyze(document, *options):
    done = run(document, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def phases(document, *options):
    rank, = analyze(document, *options)["ranks"]
    return rank, {phase["phase"]: phase for phase in rank["phases"] or []}


class Server(unittest.TestCase):
    def check_times(self, server, found, names=("prefill", "mixed", "decode")):
        """Against sums of the made steps; they have one kernel at a time."""
        for name in names:
            spans = [end - begin for phase, begin, end in server.spans if phase == name]
            kernels = [(end - begin, communicates) for phase, begin, end, communicates in server.kernels if phase == name]
            phase = found[name]
            self.assertEqual(phase["kernels"], len(kernels), name)
            self.assertEqual(phase["steps"], len(spans), name)
            # The last kernel of a step is followed by a microsecond that is no kernel's.
            self.assertAlmostEqual(phase["span_ms"], (sum(spans) - len(spans)) / 1e3, places=6, msg=name)
            self.assertAlmostEqual(phase["compute_ms"], sum(length for length, comm in kernels if not comm) / 1e3, places=6)
            self.assertAlmostEqual(phase["exposed_ms"], sum(length for length, comm in kernels if comm) / 1e3, places=6)
            self.assertAlmostEqual(phase["busy_ratio"], sum(length for length, _ in kernels) / (sum(spans) - len(spans)), places=6)

    def check_tokens(self, found, decoded=130):
        self.assertEqual([found[name]["prompt_tokens"] for name in ("prefill", "mixed", "decode")], [1324, 512, 0])
        self.assertEqual([found[name]["output_tokens"] for name in ("prefill", "mixed", "decode")], [0, 8, decoded])
        self.assertAlmostEqual(found["decode"]["requests_per_step"], 130 / 15)

    def test_vllm(self):
        """Launches lead to annotations; kernels of graphs have their graph's launch; samplers belong to the step before."""
        server = serve()
        rank, found = phases(server.document())
        self.assertEqual((rank["phases_source"], rank["phases_reason"]), ("annotations", None))
        self.check_times(server, found)
        self.check_tokens(found)

    def test_sglang(self):
        server = serve(name=sglang_name, attention=FLASHINFER)
        rank, found = phases(server.document())
        self.assertEqual(rank["phases_source"], "annotations")
        self.check_times(server, found)
        self.check_tokens(found)

    def test_annotations_on_the_gpu(self):
        """Without launches, or only them, the GPU's annotations count; each is there once per stream."""
        for launches in (True, False):
            server = serve(name=sglang_name, marks=("gpu_user_annotation",), launches=launches)
            server.events += [dict(event, tid=8) for event in server.events if event["cat"] == "gpu_user_annotation"]
            rank, found = phases(server.document())
            self.assertEqual(rank["phases_source"], "annotations")
            self.check_times(server, found)

    def test_both_kinds_of_annotations(self):
        server = serve(marks=("user_annotation", "gpu_user_annotation"))
        _, found = phases(server.document())
        self.check_times(server, found)

    def test_functions(self):
        """SGLang with stacks: the backends' functions of the same name are not steps; tokens are not known."""
        server = serve(marks=("python_function",))
        for part in (server.spans, server.kernels):
            part[:] = [("prefill" if entry[0] == "mixed" else entry[0], *entry[1:]) for entry in part]
        rank, found = phases(server.document())
        self.assertEqual(rank["phases_source"], "annotations")
        self.check_times(server, found, ("prefill", "decode"))
        self.assertEqual((found["decode"]["output_tokens"], found["decode"]["full"]["j_per_token"]), (None, None))

    def test_speculation(self):
        """The tokens that a verification accepts are not known."""
        server = serve(name=sglang_name)
        for event in server.events:
            event["name"] = event["name"].replace("step[DECODE bs=9]", "step[TARGET_VERIFY bs=9]")
        _, found = phases(server.document())
        self.assertEqual((found["decode"]["steps"], found["decode"]["output_tokens"]), (15, None))

    def test_other_forms(self):
        for name, expected in (("execute_12_context_2(sq1024sk2048sqsq9)_generation_0(sq0sk0)", ("prefill", 1024, 0)),
                               ("step[SPLIT_PREFILL bs=2 toks=77 c_sq=1]", ("prefill", 77, 0)),
                               ("step[EXTEND bs=2]", ("prefill", None, 0)),
                               ("execute_context_0(0)_generation_3(9)", ("decode", 0, 9))):
            server = server_trace.Server(name=lambda *_, name=name: name)
            server.step("decode", 1, 1)
            _, found = phases(server.document())
            (phase, figures), = found.items()
            self.assertEqual((phase, figures["prompt_tokens"], figures["output_tokens"]), expected, name)

    def test_names_that_are_no_marks(self):
        for name in ("execute_context_", "execute_context_1(2", "execute_context_1(2)_generation_", "execute_context_0(0)_generation_0(0)",
                     "execute_model", "step[", "step[IDLE bs=0]", "step[DECODES bs=1]", "stepping", "execute_999999999999999999999_context_1(1)_generation_1(1)",
                     "model_runner.py(1): forward_idle", "\u00e4" * 300):
            server = server_trace.Server(name=lambda *_, name=name: name)
            server.step("decode", 1, 1)
            rank, _ = phases(server.document())
            self.assertNotEqual(rank["phases_source"], "annotations", name)

    # ---- without annotations ----

    def check_stretches(self, found, server):
        """Mixed steps count as prefill; the boundaries are between steps."""
        decode = [kernel for kernel in server.kernels if kernel[0] == "decode"]
        self.assertEqual(set(found), {"prefill", "decode"})
        self.assertEqual(found["decode"]["kernels"], len(decode))
        self.assertEqual((found["decode"]["steps"], found["decode"]["output_tokens"]), (None, None))
        self.assertAlmostEqual(found["decode"]["compute_ms"], sum(end - begin for _, begin, end, comm in decode if not comm) / 1e3, places=6)

    def test_kernels_of_each_phase(self):
        for graphs in (True, False):
            server = serve(attention=FLASHINFER, graphs=graphs, marks=())
            rank, found = phases(server.document())
            self.assertEqual(rank["phases_source"], "kernels")
            self.check_stretches(found, server)
        self.assertIn(b"Steps are not marked", run(server.document()).stdout)

    def test_graphs(self):
        """One attention kernel for both: within graphs it decodes."""
        server = serve(marks=())
        rank, found = phases(server.document())
        self.assertEqual(rank["phases_source"], "kernels")
        self.check_stretches(found, server)

    def test_they_cannot_be_distinguished(self):
        for options in ({"graphs": False}, {"launches": False}):
            server = serve(marks=(), **options)
            rank, found = phases(server.document())
            self.assertEqual((found, rank["phases"], rank["phases_source"], rank["outside_phases_ms"]), ({}, None, None, None))
            self.assertIn("cannot be distinguished", rank["phases_reason"])
            self.assertEqual(run(server.document()).stdout.count(b"prefill and decode cannot be distinguished"), 1)

    def test_a_training_job(self):
        """It has attention, too, but also a backward pass."""
        server = serve(marks=())
        server.kernel("decode", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<1>(Params)", 10.0, 0)
        rank, _ = phases(server.document())
        self.assertIsNone(rank["phases"])
        self.assertIn("no step annotations", rank["phases_reason"])
        self.assertNotIn(b"prefill", run(server.document()).stdout)

    # ---- energy ----

    def test_energy(self):
        """Decode reads memory: it saves more at less slowdown than prefill, and each best clock is below the highest."""
        document = serve().document()
        rank, found = phases(document)
        decode, prefill = found["decode"], found["prefill"]
        for phase in (decode, prefill):
            self.assertLess(phase["best"]["energy_j"], phase["full"]["energy_j"])
            self.assertLessEqual(phase["best"]["energy_j"], phase["tolerated"]["energy_j"])
            self.assertLessEqual(phase["tolerated"]["slowdown_ratio"], 0.01)
            self.assertAlmostEqual(phase["full"]["energy_j"], phase["full"]["power_w"] * phase["span_ms"] / 1e3)
            self.assertAlmostEqual(phase["best"]["saving_ratio"], 1 - phase["best"]["energy_j"] / phase["full"]["energy_j"])
        self.assertAlmostEqual(decode["full"]["j_per_token"], decode["full"]["energy_j"] / decode["output_tokens"])
        self.assertAlmostEqual(prefill["full"]["j_per_token"], prefill["full"]["energy_j"] / prefill["prompt_tokens"])
        self.assertLess(decode["best"]["slowdown_ratio"], prefill["best"]["slowdown_ratio"])
        self.assertGreater(decode["tolerated"]["saving_ratio"], prefill["tolerated"]["saving_ratio"])
        verdict = analyze(document)["verdict"]
        self.assertTrue(verdict.startswith("a server: decode would use "), verdict)
        self.assertIn("lull attach --slo", verdict)
        loose = phases(document, "--tolerance", "20%")[1]["prefill"]["tolerated"]
        self.assertGreater(loose["saving_ratio"], prefill["tolerated"]["saving_ratio"])

    def test_a_single_gpu(self):
        """Nothing communicates, which is no reason for a warning."""
        document = serve().document(world_size=1)
        document["traceEvents"] = [event for event in document["traceEvents"] if event["name"] != server_trace.ALLREDUCE]
        done = run(document)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertNotIn(b"feed-forward", done.stdout)
        self.assertIn(b"Assumed: A100-SXM4-80GB", done.stdout)

    def test_a_gpu_without_a_kernel_that_decodes(self):
        _, found = phases(serve().document(gpu="NVIDIA GeForce RTX 3090"))
        self.assertEqual((found["decode"]["full"], found["decode"]["best"]), (None, None))
        self.assertEqual(found["decode"]["energy_reason"], "the model RTX3090 has no kernel that stands for decode")
        self.assertIsNotNone(found["prefill"]["full"])

    # ---- bad traces ----

    def test_random_damage(self):
        """Whatever is missing or odd, there is an answer or a message."""
        for seed in range(40):
            random.seed(seed)
            document = copy.deepcopy(serve(marks=("user_annotation", "gpu_user_annotation")).document())
            for event in document["traceEvents"]:
                if random.random() < 0.1:
                    event[random.choice(("ts", "dur", "name", "cat", "pid"))] = random.choice(
                        (-1, 0, 1e18, -9e18, None, "", "step[DECODE bs=", "execute_context_9(", [], 3.5))
                if random.random() < 0.05:
                    event["args"] = {"correlation": random.choice((0, -1, 1, 2 ** 62))}
            random.shuffle(document["traceEvents"])
            done = run(document, "--json")
            self.assertIn(done.returncode, (0, 1), (seed, done.stderr))
            if done.returncode == 0:
                for phase in json.loads(done.stdout)["ranks"][0]["phases"] or []:
                    self.assertGreaterEqual(phase["idle_ms"], 0)
            else:
                self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
