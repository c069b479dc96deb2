"""Random bytes as arguments, section, job name and folder of a run: its JSON, report, timeline and page, and what it prints, are
UTF-8 without control characters, and nothing is lost. Usage: test_any_text.py LULL SECTION_JOB, on an emulated node.
LULL_TEXTS is the number of runs of 600 texts each (default 5). SPDX-License-Identifier: Apache-2.0"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
RUNS = int(os.environ.get("LULL_TEXTS", "5"))
TEXTS = 600
REORDERING = {0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}


def draw(choice):
    """Any bytes, broken UTF-8, or characters that mean something to terminals and pages; without NUL, as all arguments."""
    count, kind = choice.randrange(1, 40), choice.randrange(3)
    if kind == 0:
        return bytes(choice.randrange(1, 256) for _ in range(count))
    if kind == 1:
        return bytes(choice.randrange(0x80, 256) for _ in range(count))
    return "".join(chr(choice.choice((0x1B, 0x202E, 0x2028, 0x85, 0x41, 0x22, 0x5C, 0x3C, 0x1F600, 0xE4))) for _ in range(count)).encode()


def is_harmful(code):
    return (code < 0x20 and chr(code) not in "\n\t") or 0x7F <= code < 0xA0 or code in REORDERING


class AnyText(unittest.TestCase):
    def check_shown(self, text):
        self.assertEqual([hex(ord(char)) for char in text.decode() if is_harmful(ord(char))], [])

    def check_run(self, directory, choice):
        name, words = draw(choice).replace(b"/", b"_"), [draw(choice) for _ in range(TEXTS)]
        folder = os.path.join(os.fsencode(directory), b"r-" + name)
        environment = {**os.environb, b"LULL_RUNTIME_DIR": os.fsencode(directory), b"SLURM_JOB_NAME": draw(choice),
                       b"SLURM_JOB_ID": draw(choice)}
        done = subprocess.run([LULL, "run", "--no-daemon", "--json", "--report", folder, "--", "sh", "-c", 'exec "$0" 0 4 1 1 0 "$1"',
                               JOB, name, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_shown(done.stderr)
        # Each argument keeps its place, and those that are UTF-8 keep their text.
        command = json.loads(done.stdout)["command"]
        self.assertEqual(len(command), 5 + TEXTS)
        for shown, word in zip(command[5:], words):
            if "\ufffd" not in word.decode(errors="replace"):
                self.assertEqual(shown, word.decode())
        for file in (b"report.json", b"trace.json"):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                json.load(text)
        with open(os.path.join(folder, b"report.html"), "rb") as text:
            self.check_shown(text.read())
        shown = subprocess.run([LULL, "report", folder], env=environment, capture_output=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.check_shown(shown.stdout + shown.stderr)

    def test_any_text(self):
        choice = random.Random(36)
        for number in range(RUNS):
            with self.subTest(number), tempfile.TemporaryDirectory(prefix="lull-") as directory:
                self.check_run(directory, choice)
        print(f"{RUNS * (TEXTS + 4)} texts")


if __name__ == "__main__":
    unittest.main(verbosity=2)
