"""What people get wrong, and what a machine may lack: a clear message, the right exit status, and a
job that runs all the same. SPDX-License-Identifier: Apache-2.0"""
import glob
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv.pop(1))


def lull(*arguments, env=None, cwd=None):
    return subprocess.run([LULL, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(env or {})), cwd=cwd, check=False)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.directory.cleanup)
        self.report = os.path.join(self.directory.name, "report")

    def run_on_node(self, *command, options=(), emulate=(), env=None):
        environment = {"LULL_RUNTIME_DIR": self.directory.name, **(env or {})}
        return lull("emulate", *emulate, "1xA100-SXM4-40GB", "--", LULL, "run", "--report", self.report,
                    *options, "--", *command, env=environment)

    def test_what_a_killed_run_leaves_is_removed_by_the_next(self):
        killed = self.run_on_node("sh", "-c", "echo $PPID; kill -9 $PPID", options=["--quiet"])
        self.assertNotEqual(killed.returncode, 0)
        segments = f"/dev/shm/lull-job-{killed.stdout.strip()}-*"
        self.assertEqual(len(glob.glob(segments)), 1)
        self.assertEqual(self.run_on_node("true").returncode, 0)
        self.assertEqual(glob.glob(segments), [])

    def test_unknown_model(self):
        done = lull("emulate", "4xZ9000", "--", "true")
        self.assertEqual(done.returncode, 4)
        self.assertIn("Z9000", done.stderr)
        self.assertIn("A100-SXM4-40GB", done.stderr)

    def test_malformed_spec(self):
        for spec in ("", "0xA100", "4x", "-1xA100", "4A100x", "99999xA100", "2xA100,,"):
            done = lull("emulate", spec, "--", "true")
            self.assertEqual(done.returncode, 2, spec + done.stderr)
            self.assertNotEqual(done.stderr, "")

    def test_no_command_and_bad_options(self):
        for arguments in ((), ("--tolerance", "x", "--", "true"), ("--tolerance", "0%", "--", "true"),
                          ("--confidence", "20%", "--", "true"), ("--descent", "fall", "--", "true"),
                          ("--nonsense", "--", "true")):
            done = lull("run", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("lull run", done.stderr)
        self.assertEqual(lull("nonsense").returncode, 2)
        self.assertEqual(lull().returncode, 2)

    def test_a_command_that_does_not_exist(self):
        for done in (self.run_on_node("/nonexistent/train"), lull("emulate", "1xA100", "--", "/nonexistent/x")):
            self.assertEqual(done.returncode, 127)
            self.assertIn("/nonexistent/", done.stderr)
        for done in (self.run_on_node("/etc/passwd"), lull("emulate", "1xA100", "--", "/etc/passwd")):
            self.assertEqual(done.returncode, 126)

    def test_no_nvml(self):
        environment = {"LULL_NVML": "/nonexistent/libnvidia-ml.so.1"}
        done = lull("gpus", env=environment)
        self.assertEqual(done.returncode, 4)
        self.assertIn("libnvidia-ml", done.stderr)
        done = lull("run", "--report", self.report, "--", "sh", "-c", "echo out; exit 7", env=environment)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stdout, "out\n")
        self.assertIn("unmanaged", done.stderr)

    def test_the_jobs_status_is_returned(self):
        self.assertEqual(self.run_on_node("sh", "-c", "exit 3").returncode, 3)
        self.assertEqual(self.run_on_node("sh", "-c", "kill -TERM $$").returncode, 128 + 15)
        self.assertEqual(self.run_on_node("true").returncode, 0)

    def test_no_daemon_running(self):
        done = self.run_on_node("sh", "-c", "echo out")
        self.assertEqual((done.returncode, done.stdout), (0, "out\n"))
        self.assertIn("lulld", done.stderr)
        with open(os.path.join(self.report, "report.json"), encoding="utf-8") as file:
            self.assertTrue(any("lulld" in note for note in json.load(file)["notes"]))

    def test_no_permission(self):
        done = self.run_on_node("sh", "-c", "exit 5", options=["--no-daemon"], emulate=["--fault", "no_permission"])
        self.assertEqual(done.returncode, 5)

    def test_a_missing_probe_library(self):
        copy = os.path.join(self.directory.name, "bin", "lull")
        os.mkdir(os.path.dirname(copy))
        os.link(LULL, copy) if os.stat(LULL).st_dev == os.stat(self.directory.name).st_dev else \
            subprocess.run(["cp", LULL, copy], check=True)
        done = lull("emulate", "1xA100", "--", copy, "run", "--report", self.report, "--",
                    "true",
                    env={"LULL_RUNTIME_DIR": self.directory.name})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("libnccl-profiler-lull.so", done.stderr)

    def test_a_report_that_cannot_be_written(self):
        for directory in ("/proc/nowhere", "/dev/full/x"):
            done = lull("emulate", "1xA100", "--", LULL, "run", "--report", directory, "--", "sh", "-c",
                        "echo started; exit 6", env={"LULL_RUNTIME_DIR": self.directory.name})
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"lull run: --report: .*{directory.split('/x')[0]}.*use another directory")

    def test_a_working_directory_that_takes_no_report(self):
        """The job runs all the same; its report goes elsewhere, which is said."""
        work = os.path.join(self.directory.name, "taken")
        os.mkdir(work)
        open(os.path.join(work, "lull-report"), "w", encoding="ascii").close()
        os.chmod(os.path.join(work, "lull-report"), 0o444)
        done = lull("emulate", "1xA100", "--", LULL, "run", "--", "sh", "-c", "echo started; exit 6", cwd=work,
                    env={"LULL_RUNTIME_DIR": self.directory.name, "TMPDIR": self.directory.name})
        self.assertEqual((done.returncode, done.stdout), (6, "started\n"), done.stderr)
        self.assertIn("the report goes to " + self.directory.name, done.stderr)

    def test_runs_keep_their_reports_apart(self):
        both = '"$0" run --quiet -- true & "$0" run --quiet -- sh -c "exit 3"; wait'
        work = os.path.join(self.directory.name, "work")
        os.mkdir(work)
        for rounds in (1, 2):
            done = lull("emulate", "1xA100", "--", "sh", "-c", both, LULL, cwd=work,
                        env={"LULL_RUNTIME_DIR": self.directory.name})
            self.assertEqual(done.returncode, 0, done.stderr)
            found = []
            for name in os.listdir(os.path.join(work, "lull-report")):
                self.assertRegex(name, r"^\d{4}-\d\d-\d\d-\d{6}(-\d+)?$")
                with open(os.path.join(work, "lull-report", name, "report.json"), encoding="utf-8") as file:
                    found.append(json.load(file)["status"])
                self.assertTrue(os.path.exists(os.path.join(work, "lull-report", name, "report.html")))
            self.assertEqual(sorted(found), [0] * rounds + [3] * rounds)

    def test_what_energy_costs(self):
        config = os.path.join(self.directory.name, "lull.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("[energy]\nprice-per-kwh = 0.30 EUR\nco2-g-per-kwh = 380\n")
        for options, expected in (((), (0.3, "EUR", 380)), (("--price-per-kwh", "2"), (2, None, 380)),
                                  (("--price-per-kwh", "0.1USD", "--co2-g-per-kwh", "0"), (0.1, "USD", 0))):
            done = lull("emulate", "1xA100", "--", LULL, "run", "--report", self.report, *options, "--", "sleep", "1.5",
                        env={"LULL_RUNTIME_DIR": self.directory.name, "LULL_CONFIG": config})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(self.report, "report.json"), encoding="utf-8") as file:
                report = json.load(file)
            cost = report["cost"]
            self.assertEqual((cost["price_per_kwh"], cost["currency"], cost["co2_g_per_kwh"]), expected)
            self.assertAlmostEqual(cost["energy_kwh"], report["energy"]["run"]["energy_j"] / 3.6e6, places=9)
            self.assertAlmostEqual(cost["money"], expected[0] * cost["energy_kwh"], places=9)
            self.assertAlmostEqual(cost["co2_g"], expected[2] * cost["energy_kwh"], places=6)
        for price in ("EUR", "-1", "1e9", "0.3 EUR 4", "1" * 40, "nan"):
            done = lull("run", "--price-per-kwh", price, "--", "true")
            self.assertEqual(done.returncode, 2, price)
            self.assertIn("such as 0.30 EUR", done.stderr)
        for text, message in (("price-per-kwh = 1\n", ":1: a key precedes"), ("[energy]\nprice = 1\n", ":2: the keys of"),
                              ("[energy]\n\nco2-g-per-kwh = much\n", ":3: co2-g-per-kwh wants grams")):
            with open(config, "w", encoding="ascii") as file:
                file.write(text)
            done = lull("emulate", "1xA100", "--", LULL, "run", "--report", self.report, "--", "sh", "-c", "exit 9",
                        env={"LULL_RUNTIME_DIR": self.directory.name, "LULL_CONFIG": config})
            self.assertEqual(done.returncode, 9)  # a wrong figure costs no job
            self.assertIn(config + message, done.stderr)

    def test_a_plan_that_is_not_there(self):
        done = lull("emulate", "1xA100", "--", LULL, "run", "--report", self.report, "--plan", "nothere.json", "--", "sh", "-c",
                    "echo started", env={"LULL_RUNTIME_DIR": self.directory.name})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nothere.json", done.stderr)

    def test_few_descriptors(self):
        """The command has its own status with any limit of open files, and one sentence says what is missing. With 3 files no
        dynamic program starts."""
        for most in (*range(4, 41), 66):
            done = subprocess.run(
                [LULL, "run", "--no-daemon", "--quiet", "--report", self.report, "--", "sh", "-c", "ulimit -n; exit 7"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
            with self.subTest(most=most):
                self.assertEqual((done.returncode, done.stdout), (7, f"{most}\n"), done.stderr)
                self.assertEqual(done.stderr.count("fewer than 64 files can be opened"), 1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_few_descriptors_of_a_command_that_is_missing(self):
        done = subprocess.run([LULL, "run", "--report", self.report, "--", "no-such-command"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot start no-such-command", done.stderr)

    def test_a_full_disk_for_the_report(self):
        small = os.path.join(self.directory.name, "small")
        os.mkdir(small)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", small],
                               capture_output=True, check=False)
        if mount.returncode:
            self.skipTest("cannot mount a small file system here")
        self.addCleanup(subprocess.run, ["umount", small], check=False)
        with open(os.path.join(small, "filler"), "wb") as file:
            file.write(b"x" * 4096)
        done = lull("emulate", "1xA100", "--", LULL, "run", "--report", small, "--", "sh", "-c", "exit 6",
                    env={"LULL_RUNTIME_DIR": self.directory.name})
        self.assertEqual(done.returncode, 6)
        self.assertIn("report.json", done.stderr)
        self.assertEqual(os.listdir(small), ["filler"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
