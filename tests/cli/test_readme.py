"""The README's commands: every one is there as it is written, and those that need no GPU print what it shows.

usage: test_readme.py SOURCE LULL LULL_REPRODUCE    SPDX-License-Identifier: Apache-2.0"""
import glob
import os
import re
import resource
import shlex
import subprocess
import sys
import unittest

SOURCE, LULL, REPRODUCE = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
PROGRAMS = {"lull": LULL, "build/src/cli/lull": LULL, "lull-reproduce": REPRODUCE}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
    README = file.read()
# Blocks between fences, each with its language; those without one are what the command before has printed.
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)


def commands():
    """The words of each command, without comments."""
    blocks = [block for language, block in FENCED if language == "console"]
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    lines += re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S), re.M)
    for line in lines:
        for command in re.split(r" && ", re.sub(r"\s+#.*", "", line)):
            yield [word for word in shlex.split(command) if word != "sudo"]


def of_lull(words):
    """The commands of lull in one command: `lull emulate ... -- lull run ... -- lull play ...`."""
    while words and words[0] in PROGRAMS:
        rest = words.index("--") if "--" in words else len(words)
        yield words[:rest]
        words = words[rest + 1:]


class Commands(unittest.TestCase):
    def test_every_command_is_there(self):
        checked = set()
        for words in commands():
            program = words[0]
            checked.add(os.path.basename(program))
            if program == "make":
                with open(os.path.join(SOURCE, "Makefile"), encoding="utf-8") as file:
                    makefile = file.read()
                for target in [word for word in words[1:] if "=" not in word] or ["all"]:
                    self.assertRegex(makefile, rf"(?m)^{target}:")
                for name in [word.split("=")[0] for word in words[1:] if "=" in word]:
                    self.assertRegex(makefile, rf"(?m)^{name} \?=")
            elif program == "man":
                self.assertTrue(glob.glob(os.path.join(SOURCE, "docs", "man", words[1] + ".?.scd")), words)
            elif program.startswith("tools/"):
                self.assertTrue(os.access(os.path.join(SOURCE, program), os.X_OK), words)
            else:
                self.assertIn(program, {*PROGRAMS, "meson", "systemctl"}, words)
        self.assertLessEqual({"make", "lull", "lull-reproduce", "man"}, checked)

    def test_every_option_is_known(self):
        """--help comes last, so that what stands before it has been taken."""
        count = 0
        for words in commands():
            for command in of_lull(words):
                count += 1
                done = subprocess.run([PROGRAMS[command[0]], *command[1:], "--help"], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                name = " ".join(word for word in command[1:3] if re.fullmatch("[a-z]+", word))
                self.assertIn(name.split(" ")[0], done.stdout, command)
        self.assertGreater(count, 20)


class Output(unittest.TestCase):
    def shown(self, name):
        """A command of the README, and the lines that it shows of what that prints."""
        for place, (language, block) in enumerate(FENCED):
            for line in block.splitlines():
                if language == "console" and f"lull {name} " in line:
                    return shlex.split(line[2:]), FENCED[place + 1][1].splitlines()
        raise AssertionError(name)

    def run_shown(self, name):
        """Runs it, and finds the lines that are shown, in their order, with any numbers; returns both first lines."""
        words, shown = self.shown(name)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([LULL, *words[1:]], cwd=SOURCE, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime - before.ru_utime, 20.0)
        printed = iter([NUMBER.sub("#", line).split() for line in done.stdout.splitlines()])
        for line in shown:
            if line != "...":
                self.assertIn(NUMBER.sub("#", line).split(), printed, line)
        return shown[0], done.stdout.splitlines()[0]

    def check_numbers(self, lines):
        shown, printed = ([float(number) for number in NUMBER.findall(line)] for line in lines)
        for a, b in zip(shown, printed, strict=True):
            self.assertAlmostEqual(a, b, delta=max(1.0, 0.05 * abs(a)))

    def test_simulate(self):
        self.check_numbers(self.run_shown("simulate"))

    def test_analyze(self):
        words, _ = self.shown("analyze")
        if not os.path.exists(os.path.join(SOURCE, words[-1])):
            self.skipTest("measured data are not here (../shared/data)")
        self.check_numbers(self.run_shown("analyze"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
