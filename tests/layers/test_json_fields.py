#!/usr/bin/env python3
"""Each key that a command prints with --json is described: in docs/reference/json.md, report-json.md or the command's manual page.

usage: test_json_fields.py SOURCE LULL LULLD    SPDX-License-Identifier: Apache-2.0"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, LULL, LULLD = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:]
SAMPLES = os.path.join(SOURCE, "data/samples/")
NODE = [LULL, "emulate", "--seed", "1", "2xA100-SXM4-40GB", "--"]
PIPELINE = ["--profile", SAMPLES + "gpt3-stages.csv", "--stages", "8", "--microbatches", "16", "--blocking-w", "83.64"]


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def keys(value):
    """The keys of a document and of all objects in it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def described(*pages):
    """The words of a text that are marked as names."""
    marked = []
    for page in pages:
        text = re.sub(r"\\(.)", r"\1", page)
        marked += re.findall(r"`([^`]*)`", text)
        marked += re.findall(r"(?<!\w)[_*]([a-z][^*]*?)[_*](?!\w)", text)
    return set(re.findall(r"\w+", " ".join(marked)))


PAGES = {os.path.basename(path)[:-6]: os.path.relpath(path, SOURCE) for path in glob.glob(SOURCE + "/docs/man/**/*.1.scd", recursive=True)}
GENERAL = described(read("docs/reference/json.md"), read("docs/reference/report-json.md"))


class Json(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def run_in_directory(self, *words, text=None, status=0):
        done = subprocess.run(words, input=text, stdin=subprocess.DEVNULL if text is None else None, cwd=self.directory, capture_output=True,
                              text=True, check=False)
        if "is not installed" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, status, (words, done.stderr))
        return done.stdout

    def check(self, page, document):
        names = GENERAL | (described(read(PAGES[page])) if page is not None else set())
        self.assertEqual(sorted(set(keys(document)) - names), [], page)

    def see(self, page, *words, **more):
        self.check(page, json.loads(self.run_in_directory(*words, **more)))

    def test_the_report(self):
        self.check(None, json.loads(read("docs/user/report-example.json")))

    def test_a_node(self):
        for command in ("gpus", "doctor", "top"):
            self.see(None, *NODE, "sh", "-c", f'"$0" {command} --json || [ $? -eq 1 ]', LULL)

    def test_lulld(self):
        script = '"$1" --allow-all --runtime-dir run & pid=$!; for i in 1 2 3 4 5 6 7 8 9; do "$0" status --json --runtime-dir run >out 2>/dev/null && break; ' \
            'sleep 0.3; done; "$0" job add j --user root --gpus 0 --runtime-dir run; "$0" status --json --runtime-dir run; kill $pid; wait $pid'
        document = json.loads(self.run_in_directory(*NODE, "sh", "-c", script, LULL, LULLD))
        self.assertTrue(document["jobs"] or os.geteuid() != 0)
        self.check(None, document)

    def test_lines(self):
        for line in self.run_in_directory(*NODE, LULL, "meter", "--windows", text="begin\nend 0\nend 7\n").splitlines():
            self.check(None, json.loads(line))

    def test_batch(self):
        self.run_in_directory(*NODE, LULL, "batch", "run", "--job", "j", "--sizes", "8,16", "--metric", "acc=([0-9.]+)", "--target", "0.5", "--", "sh",
                              "-c", "sleep 0.5; echo acc=0.9 {batch}")
        for words in (["list"], ["show", "j"], ["forget", "j"]):
            document = json.loads(self.run_in_directory(*NODE, LULL, "batch", words[0], "--json", *words[1:]))
            self.assertNotEqual(document, {"jobs": []})
            self.check(None, document)

    def test_limits(self):
        """Without measurements the document has no entries; those of a run are in the report too."""
        self.see(None, LULL, "limit", "--json")
        text = read("src/governor/report/limits_report.c")
        self.assertEqual(sorted(set(re.findall(r'(?:lull_field_\w+|limits_report_set_clock)\(\w+, "(\w+)"', text)) - GENERAL), [])

    def test_virtual_time(self):
        self.see("lull-play", LULL, "play", "--oracle", "--json", "--preset", "resnet50-ddp", "--ranks", "2")
        self.see("lull-play", *NODE, LULL, "play", "--json", "--server", "Llama-3.1-8B-Instruct", "--port", "0", "--rate", "20", "--duration", "0.5")
        self.see("lull-simulate", LULL, "simulate", "--json", "--preset", "resnet50-ddp", "--ranks", "2", "--periods", "30")
        self.see("lull-simulate", LULL, "simulate", "--json", "--server", "Llama-3.1-8B", "--rate", "2", "--duration", "20")

    def test_files(self):
        self.see("lull-analyze", LULL, "analyze", "--json", SAMPLES + "rank0-of-128.json.gz")
        self.see("lull-energy", LULL, "energy", "--json", SAMPLES + "power.csv")
        self.see("lull-plan", LULL, "plan", "--json", *PIPELINE, "--slowdown", "0%")

    def test_cluster(self):
        self.see("lull-simulate-cluster", LULL, "simulate", "cluster", "--json", "--policy", "fifo", SAMPLES + "valued-jobs.csv", "--nodes", "4")
        self.see("lull-model-job", LULL, "model", "job", "--json", SAMPLES + "training-job.json")

    def test_lab(self):
        self.see("lull-model", LULL, "model", "evaluate", "--json", SAMPLES + "kernels.csv")

    def test_each_command_with_json_has_a_row(self):
        text = read("docs/reference/json.md").split("## lull limit")[0]
        listed = subprocess.run([LULL, "--print-options"], capture_output=True, text=True, check=True).stdout
        commands = [line.split("\t")[1] for line in listed.splitlines() if re.match(r"option\t[^\t]*\t[^\t]*\tjson\t", line)]
        self.assertGreater(len(commands), 10)
        for command in commands:
            self.assertRegex(text, rf"`(?:lull )?{command}\b|`lull {command.split()[0]} [^|]*`{command.split()[-1]}`", command)


if __name__ == "__main__":
    unittest.main(verbosity=2)
