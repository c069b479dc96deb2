"""`lull run --launcher-fd`: another program starts the job, and the two communicate over a socket.

Run as: test_launcher.py LULL JOB. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Launcher(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-")
        self.addCleanup(host.remove, self.directory)
        self.own, self.its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.own.close)
        self.own.settimeout(30)
        self.process = None

    def start(self, *command, node="2xA100-SXM4-40GB", **variables):
        """Starts lull run; returns the variables that it sends, by name."""
        environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "NCCL_PROFILER_PLUGIN")}
        words = [LULL, "run", "--quiet", "--no-daemon", "--report", os.path.join(self.directory, "report"),
                 "--launcher-fd", str(self.its.fileno()), "--", *command]
        if node:
            words = [LULL, "emulate", node, "--", "sh", "-c", 'echo $LULL_EMULATED_NODE; exec "$@"', "sh", *words]
        self.process = subprocess.Popen(words, pass_fds=[self.its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, start_new_session=True,
                                    env=dict(environment, LULL_RUNTIME_DIR=self.directory, LULL_STATE_DIR=self.directory, **variables))
        self.addCleanup(self.stop)
        self.its.close()
        packet = self.own.recv(1 << 16)
        self.assertEqual(packet[-1:], b"\0")
        return dict(line.split("=", 1) for line in packet.decode()[:-1].split("\0") if line)

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with what `lull emulate` has started
        except ProcessLookupError:
            pass
        self.process.communicate()

    def report(self):
        """The report, which is written before the socket ends."""
        self.assertEqual(self.own.recv(100), b"")
        with open(os.path.join(self.directory, "report", "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_a_job_is_managed_that_another_starts(self):
        variables = self.start(JOB)
        node = self.process.stdout.readline().strip()
        job = subprocess.run([JOB, "0", "30", "10", "20", "0"], env=dict(os.environ, LULL_EMULATED_NODE=node, **variables), check=False,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(job.returncode, 0)
        self.own.send(b"5")
        report = self.report()
        self.assertEqual((report["status"], report["command"]), (5, [JOB]))
        self.assertGreater(report["managed"]["iterations"], 10)
        self.assertEqual(self.process.wait(10), 5)

    def test_lists_are_told_complete(self):
        variables = self.start("python3", "train.py", LD_PRELOAD="libm.so.6", NCCL_PROFILER_PLUGIN="inspector",
                               ASAN_OPTIONS="detect_leaks=1")
        preloaded = variables["LD_PRELOAD"].split(":")
        names = [os.path.basename(path) for path in preloaded]
        # Open MPI's shim, if it is built, comes before MPICH's.
        self.assertEqual(names, [name for name in ("liblull-mpi-openmpi.so", "liblull-mpi-mpich.so", "liblull-gloo.so", "libm.so.6")
                                 if name in names])
        self.assertEqual(names[-2:], ["liblull-gloo.so", "libm.so.6"])
        self.assertTrue(all(os.path.exists(path) for path in preloaded[:-1]))
        self.assertEqual(variables["ASAN_OPTIONS"], "verify_asan_link_order=0:detect_leaks=1")
        self.assertIn("libnccl-profiler-lull.so", variables["NCCL_PROFILER_PLUGIN"])
        self.assertEqual(variables["LULL_NCCL_CHAIN"], "inspector")
        self.assertTrue(os.path.exists(variables["LULL_JOB"]))

    def test_a_launcher_that_is_killed_ends_the_run(self):
        variables = self.start("true")
        self.own.close()
        self.assertEqual(self.process.wait(10), 128 + signal.SIGKILL)
        self.assertFalse(os.path.exists(variables["LULL_JOB"]))

    def test_what_is_no_status_counts_as_killed(self):
        for word in (b"256", b"-1", b"x", b"5 "):
            with self.subTest(word):
                self.setUp()
                self.start("true")
                self.own.send(word)
                self.assertEqual(self.process.wait(10), 128 + signal.SIGKILL)

    def test_without_gpus_the_job_is_told_all_the_same(self):
        self.start("true", node=None, LULL_NVML="/nowhere/libnvidia-ml.so.1", LULL_VENDOR="nvidia")
        self.own.send(b"0")
        self.assertEqual(self.report()["status"], 0)
        self.assertEqual(self.process.wait(10), 0)

    def test_it_does_not_go_with_a_comparison(self):
        done = subprocess.run([LULL, "run", "--launcher-fd", "3", "--compare", "--", "true"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("exclude each other", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
