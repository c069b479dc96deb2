#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull play --server on the emulated node: what clients get, what its metrics say, and what its GPUs draw.
usage, within lull emulate --seed 0 2xH100: test_model_server.py LULL"""
import concurrent.futures
import contextlib
import ctypes
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL = sys.argv.pop(1)
MODEL = "Llama-3.1-8B-Instruct"
SAMPLE = re.compile(r'^([\w:]+)(?:\{(.*)\})? (\S+)$')


class Driver:
    """The emulated NVML: what the driver says about GPU 0, and its clock."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.nvml.nvmlInit_v2() == 0
        self.device = ctypes.c_void_p()
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def energy_j(self):
        value = ctypes.c_ulonglong()
        assert self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(value)) == 0
        return value.value * 1e-3

    def power_w(self, seconds):
        begin_j, begin = self.energy_j(), time.monotonic()
        time.sleep(seconds)
        return (self.energy_j() - begin_j) / (time.monotonic() - begin)

    def used_mib(self):
        memory = (ctypes.c_ulonglong * 3)()
        assert self.nvml.nvmlDeviceGetMemoryInfo(self.device, memory) == 0
        return memory[2] >> 20

    @contextlib.contextmanager
    def locked(self, mhz):
        assert self.nvml.nvmlDeviceSetGpuLockedClocks(self.device, mhz, mhz) == 0
        time.sleep(0.3)
        try:
            yield
        finally:
            assert self.nvml.nvmlDeviceResetGpuLockedClocks(self.device) == 0
            time.sleep(0.3)


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([LULL, "play", "--server", MODEL, "--port", "0", "--json", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        assert line.startswith("http://127.0.0.1:"), line + self.process.stderr.read()
        self.port = int(line.strip().rstrip("/").rsplit(":", 1)[1])
        self.pool_ports = []
        if "--prefill-gpus" in options:
            for name in ("prefill", "decode"):
                line = self.process.stderr.readline()
                self.pool_ports.append(int(re.fullmatch(rf"http://127.0.0.1:(\d+)/metrics \({name}\)\n", line).group(1)))

    def ask(self, path, body=None, headers=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        connection.request("GET" if body is None else "POST", path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def complete(self, path="/v1/completions", **fields):
        status, text = self.ask(path, json.dumps(fields))
        return status, json.loads(text)

    def stream(self, path="/v1/completions", **fields):
        """Its events, each with the seconds since the request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        begin = time.monotonic()
        connection.request("POST", path, json.dumps({"stream": True, **fields}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = []
        for line in answer:
            if line.strip():
                assert line.startswith(b"data: "), line
                data = line[6:].strip()
                events.append((time.monotonic() - begin, None if data == b"[DONE]" else json.loads(data)))
        connection.close()
        assert events[-1][1] is None
        return events[:-1]

    def open_request(self, **fields):
        """A connection on which a completion has been requested."""
        body = json.dumps({"prompt": "x", "max_tokens": 100000, **fields}).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return connection

    def metrics(self, port=None):
        """Values by name, or by name and le."""
        values = {}
        for line in self.ask("/metrics", port=port)[1].splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            labels = dict(re.findall(r'(\w+)="([^"]*)"', labels or ""))
            if name.startswith("vllm:"):
                assert labels["model_name"].endswith(MODEL) and labels["engine"] == "0", line
            key = labels.get("le") or labels.get("finished_reason")
            values[(name, key) if key else name] = float(value)
        return values

    def stop(self):
        """Ends it; the outcome that it prints."""
        if self.process.poll() is None:
            self.process.terminate()
        printed, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return json.loads(printed)


@contextlib.contextmanager
def serving(*options):
    server = Server(*options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_a_whole_answer(self):
        status, answer = self.server.complete(prompt="a prompt of 32 bytes, eight toks", max_tokens=20, model=MODEL)
        self.assertEqual(status, 200)
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["usage"], {"prompt_tokens": 8, "completion_tokens": 20, "total_tokens": 28})
        self.assertEqual(len(answer["choices"][0]["text"]), 20 * 4)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")

    def test_a_whole_answer_in_a_chat(self):
        messages = [{"role": "system", "content": "be brief"},
                    {"role": "user", "content": [{"type": "text", "text": "how are you?"}]}]
        status, answer = self.server.complete("/v1/chat/completions", messages=messages)
        self.assertEqual(status, 200)
        self.assertEqual(answer["usage"]["prompt_tokens"], 2 + 4 + 3 + 4)
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_a_stream_has_a_chunk_for_each_token(self):
        events = self.server.stream(prompt="x", max_tokens=25, stream_options={"include_usage": True})
        chunks, (_, usage) = events[:-1], events[-1]
        self.assertEqual(len(chunks), 25)
        self.assertEqual([chunk["choices"][0]["finish_reason"] for _, chunk in chunks], [None] * 24 + ["length"])
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["completion_tokens"], 25)
        self.assertEqual(len({chunk["id"] for _, chunk in events}), 1)
        # Each token comes when it is computed, not all at the end.
        gaps = sorted(b - a for (a, _), (b, _) in zip(chunks, chunks[1:]))
        self.assertGreater(gaps[len(gaps) // 2], 0.003)

    def test_a_stream_of_a_chat_begins_with_the_role(self):
        events = self.server.stream("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], max_tokens=5)
        deltas = [chunk["choices"][0]["delta"] for _, chunk in events]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        self.assertEqual([len(delta["content"]) for delta in deltas[1:]], [4] * 5)
        self.assertTrue(all(chunk["object"] == "chat.completion.chunk" for _, chunk in events))

    def test_prompts_may_be_tokens_and_several(self):
        for prompt, tokens, choices in ([[1, 2, 3], 3, 1], [["abcd", "abcdefgh"], 3, 2], [[[1, 2], [3]], 3, 2], ["", 1, 1]):
            with self.subTest(prompt):
                status, answer = self.server.complete(prompt=prompt, max_tokens=2)
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["usage"]["prompt_tokens"], tokens)
                self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(choices)))
        events = self.server.stream(prompt=["a", "b"], n=2, max_tokens=3)
        counts = [sum(chunk["choices"][0]["index"] == i for _, chunk in events) for i in range(4)]
        self.assertEqual(counts, [3] * 4)

    def test_wrong_requests_are_refused_in_openais_form(self):
        cases = [({}, 400, "prompt"), ({"prompt": 5}, 400, "prompt"), ({"prompt": []}, 400, "prompt"),
                 ({"prompt": [1, "a"]}, 400, "prompt"), ({"prompt": ["a"] * 65}, 400, "prompts"),
                 ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens"), ({"prompt": "a", "max_tokens": "9"}, 400, "max_tokens"),
                 ({"prompt": "a", "max_tokens": 10**7}, 400, "max_tokens"), ({"prompt": "a", "n": 65}, 400, "n"),
                 ({"prompt": "a", "stream": 1}, 400, "stream"), ({"prompt": "a" * (3 << 20)}, 400, "maximum context length"),
                 ({"prompt": "a", "stream_options": {}}, 400, "stream_options"), ({"prompt": "a", "model": "no"}, 404, "no"),
                 ({"prompt": "a", "padding": "a" * (5 << 20)}, 413, "4 MiB")]
        for fields, code, word in cases:
            with self.subTest(str(fields)[:60]):
                status, answer = self.server.complete(**fields)
                self.assertEqual((status, answer["error"]["code"]), (code, code))
                self.assertIn(word, answer["error"]["message"])
                self.assertIsNone(answer["error"]["param"])
        for body in ("", "{", "[]", '{"prompt": "a"} x', '{"prompt": "\xff"}', "[" * 5000):
            with self.subTest(body[:20]):
                status, text = self.server.ask("/v1/completions", body.encode("latin-1"))
                self.assertEqual(status, 400)
                self.assertIn("JSON", json.loads(text)["error"]["message"])
        for fields in ({}, {"messages": []}, {"messages": [{"content": "a"}]},
                       {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}):
            self.assertEqual(self.server.complete("/v1/chat/completions", **fields)[0], 400, fields)
        self.assertEqual(self.server.ask("/nothing")[0], 404)
        self.assertEqual(self.server.ask("/v1/completions")[0], 405)
        self.assertEqual(self.server.ask("/health", "body")[0], 405)
        self.assertEqual(self.server.ask("/metrics", headers={"Host": "example.org"})[0], 403)

    def test_the_other_paths(self):
        self.assertEqual(self.server.ask("/health"), (200, ""))
        self.assertIn("version", json.loads(self.server.ask("/version")[1]))
        models = json.loads(self.server.ask("/v1/models")[1])
        self.assertTrue(models["data"][0]["id"].endswith(MODEL))
        self.assertGreater(models["data"][0]["max_model_len"], 100000)


class Metrics(unittest.TestCase):
    def test_they_are_what_clients_saw(self):
        with serving() as server:
            start = server.metrics()["process_start_time_seconds"]
            self.assertLess(abs(start - time.time()), 30)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                streams = list(pool.map(lambda i: server.stream(prompt="x" * 400 * (i % 4 + 1), max_tokens=10 + i), range(24)))
            metrics = server.metrics()
        outputs = sum(10 + i for i in range(24))
        prompts = sum(100 * (i % 4 + 1) for i in range(24))
        self.assertEqual([len(stream) for stream in streams], [10 + i for i in range(24)])
        self.assertEqual(metrics["vllm:generation_tokens_total"], outputs)
        self.assertEqual(metrics["vllm:prompt_tokens_total"], prompts)
        self.assertEqual(metrics["vllm:request_success_total", "length"], 24)
        for name, count in (("time_to_first_token", 24), ("inter_token_latency", outputs - 24), ("e2e_request_latency", 24),
                            ("request_time_per_output_token", 24), ("request_queue_time", 24)):
            self.assertEqual(metrics[f"vllm:{name}_seconds_count"], count, name)
            self.assertEqual(metrics[f"vllm:{name}_seconds_bucket", "+Inf"], count, name)
            buckets = [value for key, value in metrics.items() if key[0] == f"vllm:{name}_seconds_bucket"]
            self.assertEqual(buckets, sorted(buckets))
        steps = metrics["vllm:iteration_tokens_total_count"]
        self.assertEqual(metrics["vllm:iteration_tokens_total_sum"], prompts + outputs - 24)
        self.assertLess(steps, outputs)
        # A client sees a token a little later than the engine has it.
        first_s = sum(stream[0][0] for stream in streams)
        last_s = sum(stream[-1][0] for stream in streams)
        for name, seen_s in (("time_to_first_token", first_s), ("e2e_request_latency", last_s)):
            late_s = (seen_s - metrics[f"vllm:{name}_seconds_sum"]) / 24
            self.assertGreater(late_s, -0.001, name)
            self.assertLess(late_s, 0.05 * host.slowness(), name)

    def test_the_page_is_one_of_prometheus(self):
        host.find_packages()
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest("prometheus_client is missing")
        with serving() as server:
            server.complete(prompt="a", max_tokens=3)
            families = {family.name: family for family in text_string_to_metric_families(server.ask("/metrics")[1])}
        self.assertEqual(families["vllm:generation_tokens"].type, "counter")
        self.assertEqual(families["vllm:time_to_first_token_seconds"].type, "histogram")


class Clients(unittest.TestCase):
    def wait_for_idle(self, server, aborted):
        def is_idle():
            metrics = server.metrics()
            return metrics["vllm:num_requests_running"] == 0 and metrics["vllm:request_success_total", "abort"] == aborted

        self.assertIsNotNone(host.wait_for(is_idle, 2.0, 0.05), "requests of clients that left still run")

    def test_a_client_that_leaves_cancels_its_request(self):
        with serving("--max-num-seqs", "2") as server:
            for fields in ({"stream": True}, {}, {"n": 3}):  # one of the three waits in the queue
                with self.subTest(str(fields)):
                    before = server.metrics()["vllm:request_success_total", "abort"]
                    connection = server.open_request(**fields)
                    host.wait_for(lambda: server.metrics()["vllm:num_requests_running"] > 0, 5.0)
                    connection.close()
                    self.wait_for_idle(server, before + fields.get("n", 1))
            self.assertEqual(server.complete(prompt="x", max_tokens=3)[0], 200)
            self.assertEqual(server.stop()["requests"]["cancelled"], 5)

    def test_64_clients_at_once(self):
        with serving() as server:
            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                begin = time.monotonic()
                streams = list(pool.map(lambda i: server.stream(prompt="x" * 2000, max_tokens=30 + i % 7), range(192)))
                passed_s = time.monotonic() - begin
            outcome = server.stop()
        self.assertEqual([len(stream) for stream in streams], [30 + i % 7 for i in range(192)])
        self.assertEqual(outcome["requests"]["finished"], 192)
        self.assertLess(outcome["steps"], sum(map(len, streams)) / 8)  # they were computed together
        self.assertLess(passed_s, 30 * host.slowness())

    def test_a_slow_reader_delays_nobody(self):
        with serving() as server:
            slow = server.open_request(stream=True, max_tokens=5000)
            for _ in range(3):
                self.assertEqual(len(server.stream(prompt="x", max_tokens=20)), 20)
            slow.close()
            self.wait_for_idle(server, 1)


class Gpus(unittest.TestCase):
    def test_a_loaded_server_holds_memory_and_draws_active_idle_power(self):
        driver = Driver()
        with serving("--tensor-parallel", "2") as server:
            time.sleep(0.5)
            loaded_w, loaded_mib = driver.power_w(0.5), driver.used_mib()
            server.stop()
        self.assertGreater(loaded_mib, 70000)
        self.assertIsNotNone(host.wait_for(lambda: driver.power_w(0.3) < loaded_w - 10, 20.0))
        self.assertLess(driver.used_mib(), 2000)

    def test_power_rises_with_load(self):
        powers_w = []
        for rate in (1, 8, 32):
            with serving("--rate", str(rate), "--duration", "4", "--output-tokens", "100") as server:
                server.process.wait(timeout=60)
                outcome = server.stop()
                powers_w.append(outcome["energy"]["mean_w"])
        self.assertEqual(powers_w, sorted(powers_w))
        self.assertGreater(powers_w[2], powers_w[0] + 100)

    def test_steps_take_longer_at_a_lower_clock(self):
        driver, times_s = Driver(), []
        with serving() as server:
            for lock in (contextlib.nullcontext(), driver.locked(600)):
                with lock:
                    before = server.metrics()
                    server.complete(prompt="x", max_tokens=60, n=32)
                    after = server.metrics()
                times_s.append((after["vllm:inter_token_latency_seconds_sum"] - before["vllm:inter_token_latency_seconds_sum"]) /
                               (after["vllm:inter_token_latency_seconds_count"] - before["vllm:inter_token_latency_seconds_count"]))
        self.assertGreater(times_s[1], 1.15 * times_s[0])

    def test_one_slow_gpu_slows_the_group(self):
        driver = Driver()
        outcomes = []
        for lock in (contextlib.nullcontext(), driver.locked(600)):
            with lock, serving("--tensor-parallel", "2", "--rate", "8", "--duration", "3") as server:
                server.process.wait(timeout=60)
                outcomes.append(server.stop())
        self.assertGreater(outcomes[1]["tpot"]["p50_s"], 1.1 * outcomes[0]["tpot"]["p50_s"])


class Pools(unittest.TestCase):
    def test_each_engine_has_its_metrics(self):
        with serving("--prefill-gpus", "1") as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                streams = list(pool.map(lambda i: server.stream(prompt="x" * 4000, max_tokens=10 + i), range(12)))
            prefill, decode = (server.metrics(port) for port in server.pool_ports)
            self.assertEqual(server.ask("/metrics")[0], 404)
            self.assertEqual(server.ask("/v1/completions", "{}", port=server.pool_ports[0])[0], 404)
            outcome = server.stop()
        outputs = sum(10 + i for i in range(12))
        self.assertEqual([len(stream) for stream in streams], [10 + i for i in range(12)])
        # The first token ends a request of the prefill engine; the decode engine makes it again, as vLLM's does.
        self.assertEqual((prefill["vllm:generation_tokens_total"], decode["vllm:generation_tokens_total"]), (12, outputs))
        self.assertEqual((prefill["vllm:inter_token_latency_seconds_count"],
                          decode["vllm:inter_token_latency_seconds_count"]), (0, outputs - 12))
        for metrics in (prefill, decode):
            self.assertEqual(metrics["vllm:request_success_total", "length"], 12)
            self.assertEqual(metrics["vllm:time_to_first_token_seconds_count"], 12)
        self.assertEqual(prefill["vllm:request_time_per_output_token_seconds_sum"], 0)
        self.assertGreater(decode["vllm:request_time_per_output_token_seconds_sum"], 0)
        self.assertEqual((outcome["requests"]["finished"], outcome["output_tokens"]), (12, outputs))
        self.assertEqual([pool["name"] for pool in outcome["pools"]], ["prefill", "decode"])
        self.assertAlmostEqual(sum(pool["energy_j"] for pool in outcome["pools"]), outcome["energy"]["total_j"], places=3)
        # A client waits for both engines and for the hand-over.
        engines_s = [metrics["vllm:time_to_first_token_seconds_sum"] / 12 for metrics in (prefill, decode)]
        self.assertGreater(outcome["ttft"]["mean_s"], sum(engines_s))

    def test_a_client_that_leaves_cancels_its_request_in_its_pool(self):
        with serving("--prefill-gpus", "1") as server:
            connection = server.open_request(stream=True)
            decode = server.pool_ports[1]
            host.wait_for(lambda: server.metrics(decode)["vllm:num_requests_running"] == 1, 5.0)
            connection.close()
            self.assertIsNotNone(host.wait_for(lambda: server.metrics(decode)["vllm:num_requests_running"] == 0, 2.0))
            self.assertEqual(server.metrics(decode)["vllm:request_success_total", "abort"], 1)
            self.assertEqual(server.complete(prompt="x", max_tokens=3)[0], 200)
            outcome = server.stop()
        self.assertEqual((outcome["requests"]["cancelled"], outcome["requests"]["finished"]), (1, 1))

    def test_a_slow_link_delays_the_first_token(self):
        medians_s = []
        for gbs in ("0.5", "50"):  # a prompt of 1000 tokens takes 262 ms, or 2.6 ms
            with serving("--prefill-gpus", "1", "--handover-gbs", gbs) as server:
                server.complete(prompt="x" * 4000, max_tokens=5)
                medians_s.append(server.stop()["ttft"]["p50_s"])
        self.assertAlmostEqual(medians_s[0] - medians_s[1], 0.2595, delta=0.02 * host.slowness())

    def test_it_is_the_server_of_virtual_time(self):
        options = ("--rate", "8", "--duration", "10")
        with serving("--prefill-gpus", "1", *options) as server:
            server.process.wait(timeout=60)
            outcome = server.stop()
        simulated = json.loads(subprocess.run(
            [LULL, "simulate", "--json", "--server", MODEL, "--on", "1xH100", "--prefill-on", "1xH100", *options],
            capture_output=True, check=True, timeout=60).stdout)
        highest = simulated["modes"][0]
        self.assertEqual(outcome["requests"]["finished"], simulated["requests"])
        self.assertAlmostEqual(outcome["energy"]["per_output_token_j"] / highest["energy_per_token_j"], 1, delta=0.05 * host.slowness())
        for name in ("ttft", "tpot"):
            self.assertAlmostEqual(1e3 * outcome[name]["p50_s"] / highest[f"{name}_p50_ms"], 1, delta=0.1 * host.slowness(), msg=name)


class Life(unittest.TestCase):
    def test_sigterm_ends_streams_and_prints_the_outcome(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with serving() as server:
                connections = [server.open_request(stream=True), server.open_request()]
                connections[0].recv(100)
                os.kill(server.process.pid, number)
                outcome = server.stop()
                self.assertEqual(outcome["requests"]["unfinished"], 2)
                self.assertGreater(outcome["energy"]["total_j"], 0)
                for connection in connections:
                    ready, _, _ = select.select([connection], [], [], 10)
                    self.assertTrue(ready)
                    connection.close()

    def test_the_duration_ends_it(self):
        with serving("--duration", "1") as server:
            self.assertEqual(server.process.wait(timeout=30), 0)
            outcome = server.stop()
        self.assertGreater(outcome["time_s"], 1)
        self.assertIsNone(outcome["ttft"])
        self.assertIsNone(outcome["energy"]["per_output_token_j"])
        self.assertIn("no token", outcome["energy"]["unknown"])

    def test_requests_of_clients_are_judged(self):
        for objective, missed_ratio in (("ttft=10s,tpot=1s", 0), ("ttft=0.01ms", 1), ("tpot=0.01ms", 0.75)):
            with serving("--slo", objective) as server:
                for tokens in (1, 8, 8, 8):
                    server.complete(prompt="x" * 400, max_tokens=tokens)
                outcome = server.stop()
            self.assertEqual(outcome["requests"]["finished"], 4)
            self.assertEqual(outcome["missed_ratio"], missed_ratio, objective)

    def test_a_trace_plays_by_itself(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
            trace.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            trace.writelines(f"2023-11-16 18:00:{i // 10:02}.{i % 10}000000,{200 + i},{10 + i}\n" for i in range(40))
            trace.flush()
            with serving("--arrivals", trace.name, "--duration", "2", "--slo", "ttft=1s,tpot=1ms") as server:
                server.process.wait(timeout=60)
                slow = server.stop()
            with serving("--arrivals", trace.name, "--duration", "2", "--rate", "20", "--slo", "ttft=1s,tpot=1s") as server:
                server.process.wait(timeout=60)
                fast = server.stop()
        self.assertAlmostEqual(slow["requests"]["finished"], 20, delta=1)
        self.assertAlmostEqual(fast["requests"]["finished"], 40, delta=1)
        self.assertEqual((slow["missed_ratio"], fast["missed_ratio"]), (1.0, 0.0))
        self.assertGreater(slow["energy"]["per_output_token_j"], fast["energy"]["per_output_token_j"])
        self.assertEqual(slow["energy"]["per_output_token_j"], slow["energy"]["total_j"] / slow["output_tokens"])

    def test_errors_name_what_to_do(self):
        def run(*options, **keywords):
            return subprocess.run([LULL, "play", *options], capture_output=True, text=True, check=False, timeout=60, **keywords)

        outside = {name: value for name, value in os.environ.items() if name != "LULL_EMULATED_NODE"}
        cases = [(("--server", MODEL, "--port", "0"), 4, "lull emulate", {"env": outside}),
                 (("--server", MODEL, "--tensor-parallel", "4"), 4, "GPUs", {}),
                 (("--server", MODEL, "--tensor-parallel", "3"), 2, "1, 2, 4 or 8", {}),
                 (("--server", MODEL, "--prefill-gpus", "3"), 2, "1, 2, 4 or 8", {}),
                 (("--server", MODEL, "--prefill-gpus", "2", "--port", "0"), 4, "GPU 2", {}),
                 (("--server", MODEL, "--prefill-gpus", "1", "--port", "65400"), 2, "--port", {}),
                 (("--server", "nonsense"), 4, "language model", {}), (("--port", "0"), 2, "--server", {}),
                 (("--server", MODEL, "--load", "0.5"), 2, "--slo", {}), (("--slo", "ttft=1s"), 2, "--server", {}),
                 (("--server", MODEL, "--preset", "bert-ddp"), 2, "preset", {}),
                 (("--server", MODEL, "--arrivals", "/nowhere.csv", "--port", "0"), 1, "/nowhere.csv", {}),
                 (("--server", "Llama-3.1-70B-Instruct", "--port", "0"), 1, "do not fit", {})]
        for options, status, word, keywords in cases:
            with self.subTest(options):
                done = run(*options, **keywords)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(word, done.stderr)
        with serving() as server:
            done = run("--server", MODEL, "--port", str(server.port))
            self.assertEqual(done.returncode, 1)
            self.assertIn("--port", done.stderr)


if __name__ == "__main__":
    unittest.main()
