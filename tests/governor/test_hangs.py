"""A job that hangs is reported with the rank that is missing, and the report is withdrawn when it goes on: a rank of a job on
four emulated GPUs is stopped by a signal. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, MPI_JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
RANKS, MISSING = 4, 2
BOUND_S, LATE_S = 5.0, 10.0
LOWEST_MHZ, HIGHEST_MHZ = 210, 1410


def children(pid):
    """The children of a process, the first one that it started first."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return sorted(int(word) for word in file.read().split())
    except FileNotFoundError:
        return []


def words(pid):
    """The command line of a process."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except FileNotFoundError:
        return []


def resume(pid):
    """Lets a process go on, so that a failed test leaves none that is stopped."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


class Hangs(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.directory.name, "run"))
        self.said = []

    def start(self, seconds, *options):
        self.start_job(options, LULL, "play", "--preset", "resnet50-ddp", "--ranks", str(RANKS), "--seconds", str(seconds))

    def start_job(self, options, *command):
        self.job = subprocess.Popen(
            [LULL, "emulate", f"{RANKS}xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--report", self.directory.name, *options,
             "--", *command], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.job.wait)
        self.addCleanup(self.job.terminate)
        reader = threading.Thread(target=lambda: self.said.extend(iter(self.job.stderr.readline, "")), daemon=True)
        reader.start()
        self.addCleanup(self.job.stderr.close)
        self.addCleanup(reader.join)

    def find(self, *words):
        return [line for line in list(self.said) if all(word in line for word in words)]

    def processes(self, is_meant):
        """The processes of the job whose command line is meant."""
        pids, found = [self.job.pid], []
        while pids:
            pids = [child for pid in pids for child in children(pid)]
            found += [pid for pid in pids if is_meant(words(pid))]
        return found

    def ranks(self):
        """The processes of the ranks: all that play, but for the one that has started the others."""
        playing = self.processes(lambda line: line[1:2] == ["play"])
        self.assertEqual(len(playing), RANKS + 1)
        return playing[1:]

    def shown(self):
        """The run, as viewers see it."""
        done = subprocess.run([LULL, "top", "--json"], env=self.environment, capture_output=True, text=True, check=False)
        runs = json.loads(done.stdout)["runs"] if done.returncode == 0 else []
        own = [run for run in runs if run["report"] == self.directory.name] # those of other tests are seen as well
        return own[0] if own else {"iterations": 0, "gpus": []}

    def clocks(self):
        """The clocks that the run wants."""
        return [gpu["wanted_mhz"] for gpu in self.shown()["gpus"]]

    def report(self):
        self.assertEqual(self.job.wait(timeout=120), 0, self.said)
        with open(os.path.join(self.directory.name, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_the_stopped_rank_is_named(self):
        self.start(15, "--hang-after", f"{BOUND_S:g}s")
        self.assertIsNotNone(host.wait_for(lambda: self.shown()["iterations"] > 5, 30.0, 0.2), self.said)
        stopped = self.ranks()[MISSING]
        begin = time.monotonic()
        os.kill(stopped, signal.SIGSTOP)
        self.addCleanup(resume, stopped)
        self.assertIsNotNone(host.wait_for(lambda: self.find("the job hangs"), BOUND_S + LATE_S), self.said)
        self.assertGreaterEqual(time.monotonic() - begin, BOUND_S - 1.0)
        self.assertEqual(len(self.find("the job hangs", f"rank {MISSING} is missing", f"process {stopped} on GPU {MISSING}",
                                       "stopped by a signal", "allreduce", "ranks 0-1, 3 are in")), 1, self.said)
        self.assertIsNotNone(host.wait_for(lambda: self.shown().get("hung"), 5.0, 0.1))
        shown = self.shown()
        self.assertEqual(shown["missing_rank"], MISSING)
        self.assertGreater(shown["hang_s"], BOUND_S)
        # The GPUs that only wait are low, and that of the missing rank is not.
        low = [LOWEST_MHZ] * RANKS
        low[MISSING] = HIGHEST_MHZ
        self.assertIsNotNone(host.wait_for(lambda: self.clocks() == low, 5.0, 0.1), self.clocks())
        os.kill(stopped, signal.SIGCONT)
        self.assertIsNotNone(host.wait_for(lambda: self.find("the job communicates again"), 5.0), self.said)
        self.assertIsNotNone(host.wait_for(lambda: min(self.clocks()) > LOWEST_MHZ, 5.0, 0.1), self.clocks())
        self.assertIsNotNone(host.wait_for(lambda: not self.shown().get("hung"), 5.0, 0.1))
        hang, = self.report()["hangs"]
        self.assertEqual((hang["kind"], hang["waiting_ranks"], hang["missing_ranks"]), ("missing rank", RANKS - 1, 1))
        self.assertLessEqual(hang["begin_s"] + BOUND_S, hang["reported_s"])
        self.assertLess(hang["reported_s"], hang["end_s"])
        missing, = hang["missing"]
        self.assertEqual((missing["rank"], missing["pid"], missing["gpu"], missing["process"]),
                         (MISSING, stopped, MISSING, "stopped"))
        self.assertEqual(len(self.find("the job hangs")), 1)

    def test_a_rank_of_mpi(self):
        if not os.path.exists(MPI_JOB):
            self.skipTest("Open MPI is not installed")
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                                OMPI_MCA_mpi_yield_when_idle="1")
        self.start_job(("--hang-after", "3s"), "mpirun", "-n", "2", MPI_JOB, "300")
        self.assertIsNotNone(host.wait_for(lambda: len(self.processes(lambda line: line[0] == MPI_JOB)) == 2, 20.0), self.said)
        time.sleep(2.0)
        stopped = self.processes(lambda line: line[0] == MPI_JOB)[1]
        self.addCleanup(resume, stopped)
        os.kill(stopped, signal.SIGSTOP)
        self.assertIsNotNone(host.wait_for(lambda: self.find("the job hangs"), 3.0 + LATE_S), self.said)
        self.assertEqual(len(self.find("rank 0 is in allreduce", "rank 1 is missing", f"process {stopped} of")), 1, self.said)
        os.kill(stopped, signal.SIGCONT)
        self.assertEqual(len(self.report()["hangs"]), 1)

    def test_a_job_that_goes_on_does_not_hang(self):
        self.start(8, "--hang-after", "4s")
        self.assertEqual(self.report()["hangs"], [])
        self.assertEqual(self.find("hangs"), [])

    def test_nothing_is_reported_at_0(self):
        self.start(10, "--hang-after", "0")
        self.assertIsNotNone(host.wait_for(lambda: self.shown()["iterations"] > 5, 30.0, 0.2), self.said)
        stopped = self.ranks()[MISSING]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(7.0)
        os.kill(stopped, signal.SIGCONT)
        self.assertEqual(self.report()["hangs"], [])
        self.assertEqual(self.find("hangs"), [])

    def test_bad_bounds_are_refused(self):
        for bad in ("5", "min", "5m", "-1s", "nan", "1e9h", ""):
            done = subprocess.run([LULL, "run", f"--hang-after={bad}", "--", "true"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 2, bad)
            self.assertIn("hang-after", done.stderr)


if __name__ == "__main__":
    unittest.main()
