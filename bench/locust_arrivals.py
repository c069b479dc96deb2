"""A Locust file that sends completions to a server at given times, whether earlier ones were answered or not.

ARRIVALS names a JSON file: a list of [seconds since the begin, prompt tokens, output tokens]. Run by bench_serving_realtime.py as:
ARRIVALS=FILE locust -f locust_arrivals.py --headless --users 1 --host http://ADDRESS
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import time

import gevent
import locust


class Replay(locust.HttpUser):
    concurrency = 1000  # connections of this user

    def send(self, prompt_tokens, output_tokens):
        body = {"prompt": [1] * prompt_tokens, "max_tokens": output_tokens, "ignore_eos": True}
        self.client.post("/v1/completions", json=body)

    @locust.task
    def replay(self):
        with open(os.environ["ARRIVALS"], encoding="ascii") as file:
            arrivals = json.load(file)
        begin, pending = time.monotonic(), []
        for at, *tokens in arrivals:
            gevent.sleep(max(begin + at - time.monotonic(), 0))
            pending.append(gevent.spawn(self.send, *tokens))
        gevent.joinall(pending)
        self.environment.runner.quit()
