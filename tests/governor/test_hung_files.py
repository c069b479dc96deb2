#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""F56: a file system hangs under a path of `lull run`: the job starts, runs and returns its status, and one sentence says what is missing.
Usage: test_hung_files.py LULL, on an emulated node as root."""
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402
import hung_files  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))
PLENTY_S = 60  # far more than the checks of all paths take together


class Case(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="lull-hung-")
        self.addCleanup(host.remove, self.place)
        self.hung = os.path.join(self.place, "hung")
        self.well = os.path.join(self.place, "well")
        os.mkdir(self.hung)
        os.mkdir(self.well)

    def mount_files(self, files, directory):
        try:
            files.mount(directory)
        except OSError as error:
            self.skipTest(f"no FUSE file system can be mounted here: {error}")
        self.addCleanup(files.close)
        return files

    def hang(self, takes_requests):
        self.mount_files(hung_files.HungFiles(takes_requests), self.hung)

    def run_job(self, options, environment=(), job=("sh", "-c", "exit 7")):
        """What is said; the job's status must come through. A variable of value None is unset."""
        variables = {**os.environ, "LULL_RUNTIME_DIR": os.path.join(self.place, "runtime"), **dict(environment)}
        done = subprocess.run([LULL, "run", "--no-daemon", *options, "--", *job], capture_output=True, text=True, check=False,
                              timeout=PLENTY_S, cwd=self.place,
                              env={name: value for name, value in variables.items() if value is not None})
        self.assertEqual(done.returncode, 7, done.stderr)
        return done.stderr


class Hung(Case):
    def check_paths(self, takes_requests):
        self.hang(takes_requests)
        report = ("--report", os.path.join(self.well, "report"))
        missing = r"{}: {}\S*: its file system does not answer"
        inside = os.path.join(self.hung, "inside")
        for name, options, environment, what in (
                ("report", ("--report", inside), {}, "no report"),
                ("root", ("--report", self.hung), {}, "no report"),
                ("json", ("--json", "--report", inside), {}, "no report"),
                ("scalars", (*report, "--scalars", inside), {}, "no scalars"),
                ("plan", (*report, "--plan", inside), {}, "no plan is followed"),
                ("configuration", report, {"LULL_CONFIG": inside}, "no price of energy"),
                ("home", report, {"LULL_CONFIG": None, "HOME": self.hung, "XDG_CONFIG_HOME": self.hung}, "no price of energy"),
                ("state", report, {"LULL_STATE_DIR": self.hung}, "calibration: warning")):
            with self.subTest(name):
                said = self.run_job(options, environment)
                self.assertRegex(said, missing.format(what, self.hung))
                self.assertEqual(said.count("does not answer"), 1, said)

    def test_paths_that_take_no_request(self):
        self.check_paths(False)

    def test_paths_that_take_requests_and_never_answer(self):
        self.check_paths(True)

    def test_stored_power_limits(self):
        self.hang(True)
        said = self.run_job(("--report", os.path.join(self.well, "report"), "--power-limit", "auto"), {"LULL_STATE_DIR": self.hung})
        self.assertIn("does not answer", said)

    def test_serve(self):
        """The GPUs are served on, and the server ends."""
        self.hang(True)
        serve = subprocess.Popen([LULL, "serve", "--port", "0", "--runs", self.hung], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        address = serve.stdout.readline().strip()
        for path, status in (("metrics", 200), ("", 200), ("api/v1/node", 200), ("runs/inside", None)):
            with self.subTest(path):
                try:
                    with urllib.request.urlopen(address + path, timeout=PLENTY_S) as answer:
                        self.assertEqual(answer.status, status)
                except urllib.error.HTTPError as refused:
                    self.assertIsNone(status, refused)
        serve.terminate()
        _, said = serve.communicate(timeout=PLENTY_S)
        self.assertRegex(said, rf"no list of runs for now: {self.hung}: its file system does not answer")

    def test_a_file_system_that_hangs_while_the_job_runs(self):
        started = os.path.join(self.well, "started")
        failed = []

        def hang_later():
            while not os.path.exists(started):
                time.sleep(0.05)
            try:
                self.hang(True)
            except unittest.SkipTest as skipped:
                failed.append(str(skipped))
            with open(os.path.join(self.well, "hangs"), "w", encoding="utf-8"):
                pass

        thread = threading.Thread(target=hang_later)
        thread.start()
        said = self.run_job(("--report", self.hung), job=("sh", "-c", 'touch "$0/started"; while [ ! -e "$0/hangs" ]; do sleep 0.1; done; '
                                                          'exit 7', self.well))
        thread.join()
        if failed:
            self.skipTest(failed[0])
        self.assertRegex(said, rf"no report: {self.hung}: its file system does not answer")


class HungOperations(Case):
    """The file system answers the look of lull run, and hangs in one operation of the write after it. All at once: each waits long."""

    def mount(self, operation):
        directory = os.path.join(self.place, operation)
        os.mkdir(directory)
        return self.mount_files(hung_files.PartlyHungFiles([operation]), directory)

    def run_all(self, operations, options, prepare=lambda files: None, **more):
        """What is said in each case, by operation; options: of the directory."""
        mounted = {operation: self.mount(operation) for operation in operations}
        for files in mounted.values():
            prepare(files)
            files.hang()
        with concurrent.futures.ThreadPoolExecutor(len(mounted)) as pool:
            runs = {operation: pool.submit(self.run_job, *options(files.directory), **more) for operation, files in mounted.items()}
        said = {operation: run.result() for operation, run in runs.items()}
        for operation, files in mounted.items():
            self.assertTrue(files.met.is_set(), operation)
        return said

    def test_report(self):
        for operation, said in self.run_all(("make", "open", "write", "fsync", "rename", "close"),
                                            lambda folder: (("--report", os.path.join(folder, "inside")),)).items():
            with self.subTest(operation):
                self.assertRegex(said, rf"no report: {self.place}/{operation}/inside: its file system does not answer")
                self.assertEqual(said.count("does not answer"), 1, said)

    def test_report_in_the_working_directory(self):
        """Another folder is found for it."""
        folder = self.mount("make")
        folder.hang()
        self.place = folder.directory
        said = self.run_job((), {"LULL_RUNTIME_DIR": self.well, "TMPDIR": self.well})
        self.assertRegex(said, rf"lull-report: its file system does not answer.*; the report goes to {self.well}/")

    def test_scalars(self):
        for operation, said in self.run_all(("open", "write", "close"), lambda folder: (
                ("--report", os.path.join(self.well, os.path.basename(folder)), "--scalars", os.path.join(folder, "inside")),)).items():
            with self.subTest(operation):
                self.assertRegex(said, rf"{self.place}/{operation}/inside: the disk does not answer; its end is missing")

    def test_configuration(self):
        def prepare(files):
            with open(os.path.join(files.directory, "lull.conf"), "wb") as file:
                file.write(b"[energy]\n")

        said = self.run_all(("open", "read"), lambda folder: (
            ("--report", os.path.join(self.well, os.path.basename(folder))), {"LULL_CONFIG": os.path.join(folder, "lull.conf")}), prepare)
        for operation, text in said.items():
            with self.subTest(operation):
                self.assertRegex(text, rf"no price of energy: {self.place}/{operation}/lull.conf: its file system does not answer")

    def test_serve(self):
        """The GPUs are served on, and the server ends, while the folder of runs cannot be listed, or a report in it not be read."""
        for operation in ("list", "open", "read"):
            with self.subTest(operation):
                files = self.mount(operation)
                os.mkdir(os.path.join(files.directory, "run"))
                with open(os.path.join(files.directory, "run", "report.json"), "wb") as file:
                    file.write(b"{}")
                files.hang()
                serve = subprocess.Popen([LULL, "serve", "--port", "0", "--runs", files.directory], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(serve.kill)
                address = serve.stdout.readline().strip()
                self.assertTrue(files.met.wait(PLENTY_S))
                with urllib.request.urlopen(address + "api/v1/node", timeout=PLENTY_S) as answer:
                    self.assertEqual(answer.status, 200)
                serve.terminate()
                serve.communicate(timeout=PLENTY_S)
                self.assertEqual(serve.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
