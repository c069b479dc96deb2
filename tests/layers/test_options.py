#!/usr/bin/env python3
"""The options of all commands of all programs: one meaning each, help, the manual and completion that are made from the
same rows, typos, exit codes.

Run as: test_options.py SOURCE_ROOT LULL [PROGRAM...]. SPDX-License-Identifier: Apache-2.0"""
import collections
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT, *PATHS = (os.path.abspath(path) for path in sys.argv[1:])
ALL = PATHS
LULL = PATHS[0]
del sys.argv[1:]


def load(path):
    loader = importlib.machinery.SourceFileLoader("options", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("options", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


OPTIONS = load(os.path.join(SOURCE_ROOT, "tools", "options"))
C_API = load(os.path.join(SOURCE_ROOT, "tools", "c_api.py"))
PAGES = sorted(glob.glob(os.path.join(SOURCE_ROOT, "docs", "man", "**", "*.scd"), recursive=True))
PROGRAMS = OPTIONS.merge(PATHS)
PATHS = [next(path for path in PATHS if os.path.basename(path) == program.name) for program in PROGRAMS]
PROGRAM = PROGRAMS[0]
COMMANDS = {command: rows for program in PROGRAMS for command, rows in program.options.items() if rows}
ROWS = [row for rows in COMMANDS.values() for row in rows]
# The command line of each command, which is the program's where it has only one.
LINES = {command: [path] + ([] if command == program.name else command.split())
         for path, program in zip(PATHS, PROGRAMS) for command in program.options}


# A command of a part that is not built has no options here.
HAS_CLUSTER, HAS_LAB = "simulate cluster" in PROGRAM.options, "model fit" in PROGRAM.options


def run(command, *arguments):
    return subprocess.run([*LINES[command], *arguments], capture_output=True, text=True, check=False)


def name_of(command):
    return " ".join([os.path.basename(LINES[command][0]), *LINES[command][1:]])


def lull(*arguments, **more):
    return subprocess.run([LULL, *arguments], capture_output=True, text=True, check=False, **more)


class Rows(unittest.TestCase):
    def test_there_are_rows(self):
        self.assertGreater(len(ROWS), 80)
        for command in ("run", "calibrate", "analyze", "simulate", "emulate", "limit", "gpus", "restore", "status", "revoke", "reload", "job add",
                        "play", "batch run", "batch show", "plan", *(["simulate cluster"] if HAS_CLUSTER else [])):
            self.assertGreater(len(PROGRAM.options[command]), 0, command)

    def test_names_are_unique_in_a_command(self):
        for command, rows in COMMANDS.items():
            names = [name for row in rows for name in [row.name, row.letter] if name]
            self.assertEqual([name for name, count in collections.Counter(names).items() if count > 1], [], command)

    def test_an_option_means_the_same_everywhere(self):
        meaning, letters = {}, {}
        for row in (row for rows in PROGRAM.options.values() for row in rows):
            if (row.command, row.name) == ("plan", "wake-ms"):
                continue  # two times, of a stage; that of lull attach is one, of a GPU
            what = (row.value, row.letter)
            self.assertEqual(meaning.setdefault(row.name, what), what, row)
            if row.letter:
                self.assertEqual(letters.setdefault(row.letter, row.name), row.name, row)

    def test_defaults_and_words_are_values(self):
        for row in ROWS:
            default_value = row.default_value.rsplit(" or ")[-1] if "value of" not in row.default_value else ""
            values = [] if row.completion.startswith("@") else row.completion.split()
            if re.fullmatch(r"[^ $][^ ]*", default_value):  # not the name of a variable
                values.append(default_value)
            for value in values:
                done = run(row.command, f"--{row.name}={value}", "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""), (row, value))

    def test_wrong_values_are_refused_in_one_form(self):
        for row in ROWS:
            done = run(row.command, f"--{row.name}=@", "--help")
            if done.returncode == 0:
                continue  # a text
            self.assertIn(done.returncode, (2, 4), row)
            message = rf"{name_of(row.command)}: --{row.name}.*\nTry `{name_of(row.command)} --help`.\n"
            self.assertRegex(done.stderr, message, row)

    def test_help_is_a_sentence(self):
        for row in ROWS:
            self.assertRegex(row.help, r"^[A-Z{].*[.]$", row)
            if row.more:
                self.assertRegex(row.more, r"^[A-Z$a-z].*[.]$", row)
            self.assertNotIn("\n", row.help + row.more)


class Derived(unittest.TestCase):
    def test_help_lists_each_row_once_and_no_empty_group(self):
        for command, rows in COMMANDS.items():
            text = run(command, "--help").stdout
            if command in PROGRAM.options:
                self.assertEqual(text, lull("help", *command.split()).stdout)
            found = re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M)
            self.assertEqual(found, [row.name for row in rows] + ["help", "version"])
            self.assertNotRegex(text, r":\n\n", command)
            self.assertLess(max(len(line) for line in text.split("\nExample")[0].splitlines()), 100)

    def test_manual_lists_each_row_once(self):
        text = "".join(OPTIONS.manual(page, PROGRAMS) for page in PAGES)
        self.assertNotIn("@OPTIONS", text)
        for command, rows in COMMANDS.items():
            if command in ("batch list", "batch forget"):
                continue  # as batch show
            for row in rows:
                self.assertIn("\n" + OPTIONS.item(row), text)

    def test_a_manual_begins_as_the_list_of_commands(self):
        """A page of one command has its summary, that of lull its own line. The list says the same of a part's commands."""
        names = {}
        for page in PAGES:
            with open(page, encoding="utf-8") as file:
                name, summary = re.search(r"^# NAME\n\n(\S+) - (.*)$", file.read(), re.M).groups()
            names[name] = summary
        listed = lull("help").stdout
        self.assertIn(names["lull"].replace("lower ", "Lowers ", 1) + ".\n", listed)
        seen = 0
        for path in ALL:
            rows = subprocess.run([path, "--print-options"], capture_output=True, text=True, check=True).stdout.splitlines()
            for _, command, summary, *_ in (row.split("\t") for row in rows if row.startswith("command\t")):
                if command in PROGRAM.options:
                    self.assertRegex(listed, rf"(?m)^  {command} +{re.escape(summary)}$")
                page = command if os.path.basename(path) == command else "lull-" + command.replace(" ", "-")
                if page in names:
                    self.assertEqual(names[page], summary, page)
                    seen += 1
        self.assertGreater(seen, 12)

    def test_each_command_and_function_has_a_page(self):
        """A page of its own, or that of its first word; and each page is in the build. liblull(3) has all functions."""
        with open(os.path.join(SOURCE_ROOT, "docs", "meson.build"), encoding="utf-8") as file:
            built = file.read()
        pages = {os.path.basename(page)[:-4] for page in PAGES}
        for program in PROGRAMS:
            for command in program.operands:
                names = [f"{program.name}-{command}".replace(" ", "-"), f"{program.name}-{command.split()[0]}"]
                names += [] if program is PROGRAM else [program.name]
                self.assertTrue(any(f"{name}.{section}" in pages or f"'{name}.1':" in built for name in names for section in "18"), command)
        for page in PAGES:
            self.assertIn(os.path.relpath(page, os.path.join(SOURCE_ROOT, "docs")), built)
        with open(os.path.join(SOURCE_ROOT, "include", "lull", "lull.h"), encoding="utf-8") as file:
            functions = re.findall(r"^LULL_API .*?\b(lull_\w+)\(", file.read(), re.M)
        text = C_API.manual(os.path.join(SOURCE_ROOT, "include", "lull", "lull.h"))
        self.assertGreater(len(functions), 5)
        for function in functions:
            self.assertRegex(text, rf"(?m)^\w[\w ]*\*?\b{function}\(", function)

    def test_manuals_name_pages_that_exist(self):
        """References to manual pages of Lull and to documents lead somewhere, and no help refers to a section of a page."""
        pages = {os.path.basename(page)[:-4] for page in PAGES} | {"liblull.3"}
        for page in PAGES:
            text = OPTIONS.manual(page, PROGRAMS)
            self.assertNotRegex(text, r"(?m)^@", page)
            for name, section in re.findall(r"\b(lulld?[\w.-]*|liblull)\*?\((\d)\)", text):
                self.assertIn(f"{name}.{section}", pages, page)
        for row in ROWS:
            self.assertNotRegex(row.help + row.default_value, r"\b[sS]ee [A-Z]{4}", row)

    def test_the_list_of_commands_has_the_order_of_help(self):
        text = OPTIONS.manual(next(page for page in PAGES if page.endswith("/lull.1.scd")), PROGRAMS)
        listed = re.findall(r"^  (\w[\w-]*(?: \w+)?) {2,}", lull("help").stdout, re.M)
        self.assertEqual(re.findall(r"^\*(\w[\w-]*(?: \w+)?)\*\n", text.split("# OPTIONS")[0], re.M), listed)

    def complete(self, *words, program=PROGRAM):
        with tempfile.NamedTemporaryFile("w", suffix=".bash") as file:
            file.write(OPTIONS.completion(program))
            file.flush()
            done = subprocess.run(
                ["bash", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                 f'_{program.name.replace("-", "_")}; printf "%s\\n" "${{COMPREPLY[@]}}"', file.name, program.name,
                 *words],
                capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion_lists_each_row(self):
        for program in PROGRAMS:
            for command, rows in program.options.items():
                if rows:
                    self.assertEqual(self.complete(*LINES[command][1:], "--", program=program),
                                     [f"--{row.name}" for row in rows] + ["--help", "--version"])

    def test_completion_of_commands_and_values(self):
        self.assertEqual(self.complete("rest"), ["restore"])
        self.assertEqual(self.complete("batch", "s"), ["show"])
        self.assertEqual(self.complete("run", "--descent", "b"), ["bisect"])
        self.assertEqual(self.complete("run", "--descent", "=", "g"), ["gallop"])
        self.assertEqual(self.complete("batch", "run", "--lr-rule", "="), ["sqrt", "linear"])
        self.assertIn("A40", self.complete("simulate", "--model", "A4"))
        self.assertIn("2xA40", self.complete("emulate", "2xA4"))
        self.assertEqual(self.complete("batch", ""), ["run", "list", "show", "forget"])
        self.assertEqual(self.complete("limit", "ho"), ["hold"])
        self.assertEqual(self.complete("help", "cal"), ["calibrate"])
        self.assertEqual(self.complete("help", "batch", ""), ["run", "list", "show", "forget"])
        self.assertEqual(self.complete("help", "limit", "h"), ["hold"])
        if HAS_CLUSTER:
            self.assertEqual(self.complete("simulate", "cluster", "--policy", "fi"), ["fifo"])


class Program(unittest.TestCase):
    def refused(self, arguments, *words, status=2):
        done = lull(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""), (arguments, done.stderr))
        for word in words:
            self.assertIn(word, done.stderr)

    def test_help_and_version(self):
        version = lull("--version").stdout
        self.assertRegex(version, r"^lull \d+\.\d+\.\d+\n$")
        for arguments in (["-V"], ["run", "--version"], ["gpus", "-V"]):
            self.assertEqual(lull(*arguments).stdout, version)
        text = lull("help").stdout
        for command in PROGRAM.operands:
            self.assertIn(f"\n  {command} ", text)
        for arguments in (["--help"], ["-h"]):
            self.assertEqual(lull(*arguments).stdout, text)
        self.assertEqual(lull("help", "batch").stdout, lull("batch", "--help").stdout)
        if HAS_CLUSTER:
            self.assertIn("--policy", lull("help", "simulate", "cluster").stdout)

    def test_a_program_of_one_command_takes_its_options_at_once(self):
        for path, program in zip(PATHS, PROGRAMS):
            if list(program.options) != [program.name]:
                continue
            text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
            self.assertTrue(text.startswith(f"Usage: {program.name} [OPTION...]"), text)
            for option in ("-V", "--version"):
                done = subprocess.run([path, option], capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, lull("-V").stdout.replace("lull", program.name))
            done = subprocess.run([path, "--nonsense"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"{program.name}: unknown option --nonsense\nTry `{program.name} --help`.\n")

    def test_a_part_that_is_not_installed_names_its_package(self):
        with tempfile.TemporaryDirectory() as directory:
            alone = shutil.copy(LULL, directory)
            done = subprocess.run([alone, "model", "fit", "x"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, "lull model fit: this command is not installed. Install the package lull-lab.\n")

    @unittest.skipUnless(HAS_LAB, "skipped: lab/ is not built")
    def test_a_part_is_the_command_by_another_name(self):
        folder = os.path.dirname(next(path for path in ALL if path.endswith("/lull-model")))
        for words in ([], ["fit"], ["fit", "--help"], ["nonsense"]):
            part = subprocess.run([os.path.join(folder, "lull-model"), *words], capture_output=True, text=True, check=False)
            whole = lull("model", *words)
            if words:
                self.assertEqual((part.returncode, part.stdout, part.stderr), (whole.returncode, whole.stdout, whole.stderr))
            self.assertEqual(part.returncode == 0, words == ["fit", "--help"], words)

    def test_a_word_that_no_command_has_may_be_a_program_on_the_path(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "lull-weather")
            with open(path, "w", encoding="ascii") as file:
                file.write('#!/bin/sh\necho "$0" "$@"\nexit 7\n')
            os.chmod(path, 0o755)
            done = lull("weather", "--today", env={"PATH": directory + ":/usr/bin:/bin"})
            self.assertEqual((done.returncode, done.stdout), (7, f"{path} --today\n"))
            self.assertIn("unknown command 'rain'", lull("rain", env={"PATH": directory}).stderr)

    def test_typos_get_the_nearest_word(self):
        self.refused(["emulat"], "'emulat'; did you mean 'emulate'?")
        self.refused(["batch", "shwo", "x"], "did you mean 'batch show'?")
        self.refused(["help", "rum"], "did you mean 'run'?")
        self.refused(["run", "--tolerence", "1%", "--", "true"], "did you mean --tolerance?")
        self.refused(["run", "--descent", "bisct", "--", "true"], "did you mean bisect?")
        self.refused(["play", "--preset", "bert-dpp"], "did you mean bert-ddp?")

    def test_a_bare_number_is_no_slowdown(self):
        for words in ("run --tolerance 1 -- true", "run --steady 1 -- true",
                      "run --tail-tolerance 2 -- true", "run --power-limit auto --choose slowdown=1 -- true",
                      "limit --choose slowdown=5", "plan --profile x --slowdown 1",
                      "simulate --tolerance 1 x"):
            self.refused(words.split(), "would be ", "; write ")
        self.refused(["run", "--tolerance", "1", "--", "true"], "--tolerance 1: that would be 100 %; write 1% or 0.01\n")
        done = lull("run", "--tolerance", "0.49", "--confidence", "0.95", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_options_without_their_main_option_are_refused(self):
        for words in ("--choose cost", "--eta 0.3", "--clocks", "--profile-again", "--limit-step-w 5", "--slice-s 1",
                      "--stages 4", "--microbatches 4", "--profiling sweep", "--blocking-w 60",
                      "--together-key k", "--node 0/2", "--power-limit 250 --clocks", "--schedule 1f1b"):
            self.refused(["run", *words.split(), "--", "touch", "/nonexistent/x"], "has no effect alone")
        self.refused(["run", "--power-limit", "auto", "--choose", "energy", "--eta", "0.3", "--", "true"],
                     "--eta weighs energy against time in the cost", "--choose cost")
        self.refused(["run", "--power-limit", "auto", "--eta", "0.3", "--", "true"], "give --choose cost as well")
        self.refused(["run", "--power-limit", "auto", "--plan", "x", "--", "true"], "exclude each other")
        for words in ("--clocks", "--pipelines --clocks", "--elastic 2", "--class host", "--network ethernet", "--rates x",
                      "--peak-ratio 1", "--repair-minutes 5", "--failure-seed 2", "--rack-nodes 2", "--sweep 3") if HAS_CLUSTER else ():
            self.refused(["simulate", "cluster", *words.split(), "x"], "has no effect alone")
        for words in ("--memory 2", "--memory 2 --schedule 1f1b", "--replica-profile x", "--driver-ms 1", "--nodes 2",
                      "--wake-ms 1,2"):
            self.refused(["plan", "--profile", "x", *words.split()], "has no effect alone")
        self.refused(["plan", "--verify", "x", "--schedule", "1f1b"], "exclude each other")
        self.refused(["play", "--stages", "3", "--preset", "bert-ddp"], "give --schedule as well")
        self.refused(["play", "--stride", "3", "--preset", "bert-ddp"], "give --oracle or --measure as well")
        self.refused(["limit", "--forget"], "--forget needs a command")

    def test_what_is_wrong_together_is_refused(self):
        batch = ["batch", "run", "--job", "j", "--sizes", "8,16", "--target", "1", "--metric"]
        self.refused([*batch, "a(b)c", "--", "true"], "add {batch}")
        self.refused([*batch, "a(b", "--", "true", "{batch}"], "--metric a(b: ")
        self.refused([*batch, "a(b)c", "--lr", "1", "--lr-rule", "sqrt", "--", "true", "{batch}"], "needs {lr}")
        self.refused([*batch, "a(b)c", "--", "true", "{batch}", "{lr}"], "needs --lr")
        self.refused([*batch, "a(b)c", "--default-size", "9", "--", "true", "{batch}"], "9 is not among --sizes")
        self.refused(["batch", "run", "--sizes", "8,4"], "must be in ascending order: 4 follows 8")
        self.refused(["batch", "run", "--sizes", "8,8"], "8 is there twice")
        self.refused(["batch", "run", "--sizes", "8,"], "invalid batch size")
        self.refused(["simulate"], "pass either traces or --preset")
        self.refused(["play", "--preset", "bert-ddp", "trace"], "give one of: traces, --preset, --schedule")
        self.refused(["run", *["--plan=x"] * 20, "--", "true"], "plans at most")

    def test_an_unknown_model_ends_all_commands_alike(self):
        for command in ("analyze", "simulate", "play"):
            self.refused([command, "--model", "B300", "x"], "A100-SXM4-40GB", status=4)
        self.refused(["emulate", "1xB300", "--", "true"], "A100-SXM4-40GB", status=4)

    def test_a_full_disk_fails(self):
        for arguments in (["help"], ["run", "--help"], ["--version"], ["simulate", "--preset", "moe-alltoall",
                                                                       "--periods", "20"], ["batch", "--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([LULL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("standard output cannot be written: No space left", done.stderr)

    def test_run_prints_its_report_alone(self):
        with tempfile.TemporaryDirectory(prefix="lull-options-") as directory:
            command = ["emulate", "1xA100", "--", LULL, "run", "--json", "--report", directory, "--runtime-dir",
                       directory, "--", "sh", "-c", "echo out; exit 3"]
            done = lull(*command)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("out\n", done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                self.assertEqual(json.loads(done.stdout), json.load(file))
            os.remove(os.path.join(directory, "report.json"))
            os.mkdir(os.path.join(directory, "report.json"))
            done = lull(*command)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn("--json prints none", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
