"""What the tests of lull-reproduce's commands share: running them, and tables that they wrote.
SPDX-License-Identifier: Apache-2.0"""
import csv
import json
import os
import subprocess


class Runner:
    def __init__(self, program, command):
        self.words = [os.path.abspath(program), command]

    def run(self, *options, text=None):
        return subprocess.run(self.words + [str(option) for option in options], input=text, capture_output=True,
                              text=True, check=False)

    def answer(self, *options, text=None):
        done = self.run(*options, "--json", text=text)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))
