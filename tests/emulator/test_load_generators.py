#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull play --server under clients as people have them: Locust, and OpenAI's own client. tools/install-deps installs both;
without them the tests are skipped. usage, within lull emulate --seed 0 2xH100: test_load_generators.py LULL"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = sys.argv.pop(1)
PYTHON = os.path.join(os.environ.get("LULL_LOAD") or os.path.expanduser("~/.cache/lull/load"), "bin/python")
MODEL = "Llama-3.1-8B-Instruct"

LOCUST = """
import json
import locust


class Reader(locust.HttpUser):
    wait_time = locust.constant(0)

    @locust.task
    def complete(self):
        body = {"prompt": "x" * 1200, "max_tokens": 20, "stream": True}
        with self.client.post("/v1/completions", json=body, stream=True, catch_response=True) as answer:
            events = [line[6:] for line in answer.iter_lines() if line.startswith(b"data: ")]
            texts = [json.loads(event)["choices"][0]["text"] for event in events[:-1]]
            if events[-1:] == [b"[DONE]"] and len(texts) == 20:
                answer.success()
            else:
                answer.failure(f"{len(texts)} tokens")
"""

OPENAI = """
import asyncio, json, sys, time
import openai


async def chat(client, number):
    begin, first_s, tokens, usage = time.monotonic(), None, 0, None
    stream = await client.chat.completions.create(model=sys.argv[2], messages=[{"role": "user", "content": "x" * 1200}], stream=True,
                                                  max_tokens=20 + number % 5, stream_options={"include_usage": True})
    async for chunk in stream:
        usage = chunk.usage or usage
        if chunk.choices and chunk.choices[0].delta.content:
            tokens += 1
            first_s = first_s or time.monotonic() - begin
    return {"tokens": tokens, "usage": usage.completion_tokens, "ttft_s": first_s}


async def main():
    client = openai.AsyncOpenAI(base_url=sys.argv[1] + "v1", api_key="none")
    answers = await asyncio.gather(*(chat(client, number) for number in range(64)))
    whole = await client.completions.create(model=sys.argv[2], prompt=["a", "b"], max_tokens=4)
    try:
        await client.completions.create(model="another", prompt="a")
        refused = None
    except openai.NotFoundError as error:
        refused = error.body["message"]
    models = [model.id async for model in client.models.list()]
    print(json.dumps({"answers": answers, "choices": len(whole.choices), "refused": refused, "models": models}))

asyncio.run(main())
"""


@unittest.skipUnless(os.access(PYTHON, os.X_OK), f"{PYTHON} is missing; tools/install-deps installs it")
class LoadGenerators(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([LULL, "play", "--server", MODEL, "--port", "0", "--json"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.addCleanup(self.server.kill)
        self.address = self.server.stderr.readline().strip()

    def run_client(self, *words):
        done = subprocess.run([PYTHON, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def stop(self):
        self.server.terminate()
        return json.loads(self.server.communicate(timeout=60)[0])

    def test_locust(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "locustfile.py")
            with open(path, "w", encoding="ascii") as file:
                file.write(LOCUST)
            stats = self.run_client("-m", "locust", "-f", path, "--headless", "--json", "--users", "32", "--spawn-rate", "32", "--run-time",
                                    "6s", "--host", self.address.rstrip("/"))[0]
        requests = self.stop()["requests"]
        self.assertEqual(stats["num_failures"], 0)
        self.assertGreater(stats["num_requests"], 100)
        # What Locust stops at its end, it does not count.
        self.assertGreaterEqual(requests["finished"], stats["num_requests"])
        self.assertLessEqual(requests["finished"], stats["num_requests"] + 32)

    def test_openais_client(self):
        seen = self.run_client("-c", OPENAI, self.address, MODEL)
        outcome = self.stop()
        self.assertEqual([(answer["tokens"], answer["usage"]) for answer in seen["answers"]], [(20 + i % 5,) * 2 for i in range(64)])
        self.assertEqual(seen["choices"], 2)
        self.assertIn("does not exist", seen["refused"])
        self.assertEqual([model.rsplit("/", 1)[-1] for model in seen["models"]], [MODEL])
        self.assertEqual(outcome["requests"]["finished"], 66)
        self.assertEqual(outcome["output_tokens"], sum(20 + i % 5 for i in range(64)) + 8)
        seen_s = sorted(answer["ttft_s"] for answer in seen["answers"])
        self.assertGreaterEqual(seen_s[32], outcome["ttft"]["p50_s"] - 0.005)


if __name__ == "__main__":
    unittest.main()
