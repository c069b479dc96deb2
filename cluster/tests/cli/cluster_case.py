"""What the tests of lull simulate cluster share: running it, and tables that it wrote.
SPDX-License-Identifier: Apache-2.0"""
import csv
import json
import subprocess


class Runner:
    def __init__(self, lull, policy):
        self.lull = lull
        self.policy = policy  # unless told; "": none

    def run(self, *options, text=None, policy=None):
        policy = self.policy if policy is None else policy
        words = [self.lull, "simulate", "cluster"] + (["--policy", policy] if policy else [])
        return subprocess.run(words + [str(option) for option in options], input=text, capture_output=True, text=True,
                              check=False)

    def answer(self, *options, text=None, policy=None):
        done = self.run(*options, "--json", text=text, policy=policy)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))
