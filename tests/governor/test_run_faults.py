"""What goes wrong around `lull run`, by the numbers of the fault list: F41 and the return of clients after it, F47 where
readings hang, F49, and standard error without a reader. The job never notices, and the exit status is its own.

Run as: test_run_faults.py LULL LULLD TOOL JOB [TEST...]. Each case runs itself again inside an emulated node.
SPDX-License-Identifier: Apache-2.0"""
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, TOOL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
IS_INSIDE = "LULL_EMULATED_NODE" in os.environ

# Ranks that come and go: 40 ms of computation, 60 ms of communication, and one after the other ends.
RANKS = r"""
for round in $(seq 200); do
    [ -e "$1/stop" ] && break
    "$2" $((round % 2)) 3 20 20 0 &
    "$2" $(((round + 1) % 2)) 4 20 20 0 || exit 98
    wait
done
exit 7
"""


def job(*words):
    return [str(word) for word in words]


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-faults-")
        self.addCleanup(host.remove, self.directory)
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory, "run")
        # ThreadSanitizer would let each program wait for a second at its end.
        os.environ["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=0"
        os.environ["LULL_STATE_DIR"] = os.path.join(self.directory, "state")
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with what has outlived it
            except ProcessLookupError:
                pass
            process.wait()
        if os.path.exists(self.errors()):
            with open(self.errors(), encoding="utf-8") as file:
                print(file.read(), file=sys.stderr)

    def errors(self):
        return os.path.join(self.directory, "errors")

    def said(self):
        with open(self.errors(), encoding="utf-8") as file:
            return file.read()

    def start_daemon(self):
        daemon = host.start_lulld(lambda *words, **more: subprocess.Popen(words, **more), LULLD, start_new_session=True)
        self.processes.append(daemon)
        return daemon

    def run_lull(self, *options, command, **process_options):
        with open(self.errors(), "a", encoding="utf-8") as errors:
            run = subprocess.Popen(
                [LULL, "run", "--quiet", "--report", os.path.join(self.directory, "report"), *options, "--", *command],
                stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True, **process_options)
        self.processes.append(run)
        return run

    def report(self):
        with open(os.path.join(self.directory, "report", "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def wait_for(self, condition, limit_s, what):
        took_s = host.wait_for(condition, limit_s)
        self.assertIsNotNone(took_s, f"{what}: not within {limit_s} s\n{self.said()}")
        return took_s

    def line_of(self, run):
        """The next line of its standard output, which a dead lull run would leave open without end."""
        line = b""
        while not line.endswith(b"\n"):
            while not select.select([run.stdout], [], [], 1)[0]:
                self.assertIsNone(run.poll(), "lull run has left its job alone")
            byte = os.read(run.stdout.fileno(), 1)
            self.assertTrue(byte, f"the job has closed its output: {self.said()}")
            line += byte
        return line.decode().rstrip("\n")

    def stop_after(self, run, limit_s):
        """The exit status of a run that has to end by then."""
        self.wait_for(lambda: run.poll() is not None, limit_s, "lull run does not end")
        return run.returncode


def leases():
    status = subprocess.run([LULL, "status", "--json"], capture_output=True, text=True, check=False)
    if status.returncode != 0:
        return []
    return [gpu["lease"] is not None for gpu in json.loads(status.stdout)["gpus"]]


def is_locked():
    return subprocess.check_output([TOOL, "truth", "0"], text=True).strip() == "locked"


class Leases(Case):
    NODE = "2xA100-SXM4-40GB"

    def test_f41_leases_are_lost_while_ranks_start(self):
        self.start_daemon()
        run = self.run_lull(command=["sh", "-c", RANKS, "sh", self.directory, JOB])
        for _ in range(4):
            self.wait_for(lambda: any(leases()), 10, "no lease")
            subprocess.run([LULL, "restore"], check=True, capture_output=True)
            self.wait_for(lambda: any(leases()), 2, "no lease after a revocation")
            self.assertIsNone(run.poll(), self.said())
        for _ in range(4):
            self.processes[0].kill()
            self.processes.pop(0).wait()
            time.sleep(0.7)
            self.assertIsNone(run.poll(), self.said())
            self.processes.insert(0, self.start_daemon())
            self.processes.pop()
            self.wait_for(lambda: any(leases()), 2, "no lease after a restart")
        with open(os.path.join(self.directory, "stop"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.stop_after(run, 30), 7)

    def test_f05_clients_come_back(self):
        daemon = self.start_daemon()
        run = self.run_lull("--tolerance", "5%", command=job(JOB, 0, 100000, 30, 120, 0))

        self.wait_for(is_locked, 60, "the GPU was never lowered")
        subprocess.run([LULL, "restore"], check=True, capture_output=True)
        print("back after a revocation:", self.wait_for(lambda: any(leases()), 2, "no lease after a revocation"))
        self.wait_for(is_locked, 60, "the GPU is not lowered again")
        daemon.kill()
        daemon.wait()
        self.wait_for(lambda: "reference" in self.said(), 5, "nothing is said")
        daemon = self.start_daemon()
        print("back after a restart:", self.wait_for(lambda: any(leases()), 2, "no lease after a restart"))
        self.wait_for(is_locked, 60, "the GPU is not lowered after a restart")
        self.assertEqual(self.said().count("until they can be leased again"), 2, "once for each reason")
        self.assertEqual(self.said().count("are leased again and managed"), 1)
        run.terminate()
        self.assertEqual(self.stop_after(run, 5), 128 + signal.SIGTERM)
        (gpu,) = [gpu for gpu in self.report()["gpus"] if gpu["sections"]]
        self.assertGreaterEqual(gpu["switches"], 3)
        self.assertEqual(gpu["switches_refused"], 0)


# Says what it has got of signals, then each that comes, until it is told to end with a status.
LISTENER = r"""
import os, signal, sys, time
mask = sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, []))
print("mask", *mask, flush=True)
ignored = sorted(int(n) for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN)
print("ignored", *ignored, flush=True)
numbers = {int(n) for n in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
while True:
    info = signal.sigwaitinfo(numbers)
    print("got", info.si_signo, flush=True)
    if info.si_signo == signal.SIGRTMAX:
        sys.exit(33)
"""
PASSED = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM,
          signal.SIGWINCH, signal.SIGCONT, signal.SIGPIPE, signal.SIGABRT, signal.SIGURG, signal.SIGRTMIN + 3]


class Signals(Case):
    NODE = "1xA100-SXM4-40GB"

    def listen(self, *options, **process_options):
        run = self.run_lull("--no-daemon", *options, command=[sys.executable, "-c", LISTENER],
                            stdout=subprocess.PIPE, **process_options)
        lines = {}
        while (line := self.line_of(run)) != "ready":
            words = line.split()
            lines[words[0]] = {int(number) for number in words[1:]}
        return run, lines

    def test_f49_signals_reach_the_job(self):
        run, _ = self.listen()
        for number in PASSED:
            run.send_signal(number)
            self.assertEqual(self.line_of(run), f"got {int(number)}")
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGRTMAX)
        self.assertEqual(self.line_of(run), f"got {int(signal.SIGRTMAX)}")
        self.assertEqual(self.stop_after(run, 5), 33)
        run.stdout.close()

    def test_f49_status_is_that_of_the_job(self):
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            run = self.run_lull("--no-daemon", command=["sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE)
            self.assertEqual(self.line_of(run), "ready")
            run.send_signal(number)
            self.assertEqual(self.stop_after(run, 5), 128 + number)
            run.stdout.close()

    def test_f49_dispositions_and_mask_are_inherited(self):
        def set_signals():
            for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2, signal.SIGTERM})

        plain = subprocess.run([sys.executable, "-c", LISTENER.split("numbers =", maxsplit=1)[0]], stdout=subprocess.PIPE,
                               text=True, check=True, preexec_fn=set_signals, restore_signals=False)
        run, lines = self.listen(preexec_fn=set_signals, restore_signals=False)
        expected = {words[0]: {int(number) for number in words[1:]} for words in map(str.split, plain.stdout.splitlines())}
        self.assertEqual(lines, expected)
        self.assertEqual(lines["mask"], {signal.SIGUSR2, signal.SIGTERM})
        self.assertIn(signal.SIGHUP, lines["ignored"])
        self.assertIn(signal.SIGCHLD, lines["ignored"])
        run.send_signal(signal.SIGRTMAX)
        self.assertEqual(self.stop_after(run, 5), 33)
        run.stdout.close()

    def test_f49_nobody_reads_what_is_said(self):
        reader, writer = os.pipe()
        os.close(reader)
        run = subprocess.Popen([LULL, "run", "--no-daemon", "--report", self.directory, "--", "sh", "-c", "exit 6"],
                               stderr=writer, stdin=subprocess.DEVNULL)
        os.close(writer)
        self.assertEqual(run.wait(30), 6)


class Hangs(Case):
    """A reading that does not return costs the samples, and nothing else."""
    NODE = "2xA100-SXM4-40GB"

    def hang(self, gpu, hang_ms):
        subprocess.run([TOOL, "fault", f"{gpu}:read_hang_ms={hang_ms}"], check=True)

    def limited(self):
        gpus = json.loads(subprocess.check_output([LULL, "gpus", "--json"], text=True))["gpus"]
        return gpus[0]["power_limit_w"] < gpus[1]["power_limit_w"]

    def plan(self, pipeline):
        profile, plan = (os.path.join(self.directory, name) for name in ("profile.csv", "plan.json"))
        subprocess.run([LULL, "play", *pipeline, "--measure", profile, "--model", "A100-SXM4-40GB", "--heat-w", "300"],
                       check=True, capture_output=True)
        subprocess.run([LULL, "plan", "--profile", profile, "--stages", "2", "--microbatches", "4",
                        "--latency-ms", "0.5", "--blocking-w", "100", "--slowdown", "0%", "--output", plan],
                       check=True, capture_output=True)
        return plan

    def start(self, mode, *options, job=(JOB, 0, 100000, 20, 30, 0), during=None, hang_ms=100000):
        """A run in whose course the readings of GPU 0 hang, which it has noticed."""
        if mode == "daemon":
            self.start_daemon()
        else:
            options = ("--no-daemon", *options)
        run = self.run_lull(*options, command=["sh", "-c", 'trap "exit 9" TERM; "$0" "$@" & echo ready; wait',
                                               *map(str, job)], stdout=subprocess.PIPE)
        self.assertEqual(self.line_of(run), "ready")
        if mode == "daemon":
            self.wait_for(lambda: any(leases()), 10, "no lease")
        if during is not None:
            self.wait_for(during, 60, "the mode has not begun")
        self.hang(0, hang_ms)
        self.wait_for(lambda: "does not return from a reading" in self.said(), 10, "nothing is said of the hang")
        return run

    def check(self, mode, *options, **job_options):
        run = self.start(mode, *options, **job_options)
        if mode == "daemon":
            time.sleep(4)  # longer than a lease lives without a heartbeat
            self.assertTrue(any(leases()), "no heartbeat came")
        begin = time.monotonic()
        run.terminate()
        self.assertEqual(self.stop_after(run, 2), 9)
        print(f"{mode} {' '.join(options)}: ended {time.monotonic() - begin:.2f} s after SIGTERM, with readings hung")
        self.assertEqual(self.said().count("does not return from a reading"), 1)
        run.stdout.close()

    def test_f47_readings_hang_before_the_job_starts(self):
        self.hang(0, 100000)
        run = self.run_lull("--no-daemon", command=["sh", "-c", "exit 4"])
        self.assertEqual(self.stop_after(run, 7), 4)
        self.assertIn("runs unmanaged: the driver does not respond", self.said())

    def test_f47_readings_hang_with_lulld(self):
        self.check("daemon")

    def test_f47_readings_hang_without_lulld(self):
        self.check("local")

    def test_f47_readings_hang_before_a_limit_is_searched(self):
        self.check("local", "--power-limit", "auto")
        self.assertIn("there are no readings of the GPUs", self.said())

    def test_f47_readings_hang_while_a_limit_is_searched(self):
        run = self.start("local", "--power-limit", "auto", "--slice-s", "1.5", "--limit-step-w", "125",
                         during=self.limited, hang_ms=5000)
        self.wait_for(lambda: "there are no readings of the GPUs" in self.said(), 5, "the lost search is not reported")
        self.hang(0, 0)
        self.wait_for(lambda: not self.limited(), 20, "the limit that was tried stays")
        self.assertIsNone(run.poll())
        run.terminate()
        self.assertEqual(self.stop_after(run, 2), 9)
        run.stdout.close()

    def test_f47_readings_hang_while_a_limit_is_held(self):
        self.check("daemon", "--power-limit", "200", during=self.limited)

    def test_f47_readings_hang_with_a_steady_clock(self):
        self.check("local", "--steady", "5%")

    def test_f47_readings_hang_while_a_plan_is_carried_out(self):
        pipeline = ["--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--forward-ms", "40"]
        self.check("local", "--plan", self.plan(pipeline), job=(LULL, "play", *pipeline, "--iterations", "1000"))


class Unread(Case):
    """Standard error is a pipe that is full, and has no reader: no message blocks the run."""
    NODE = "1xA100-SXM4-40GB"

    def setUp(self):
        super().setUp()
        reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(self.writer, 4096 * b"x")
        self.addCleanup(os.close, self.writer)
        self.addCleanup(os.close, reader)

    def errors(self):
        return os.devnull

    def test_lulld_serves(self):
        daemon = host.start_lulld(lambda *words, **more: subprocess.Popen(words, **more), LULLD, stderr=self.writer,
                                  env=dict(os.environ, LULL_LOG="debug"), start_new_session=True)
        self.processes.append(daemon)
        run = self.run_lull("--tolerance", "5%", command=job(JOB, 0, 100000, 30, 120, 0))
        self.wait_for(is_locked, 60, "the GPU was never lowered")
        for _ in range(4):
            time.sleep(1)  # longer together than a lease lives without a heartbeat
            self.assertTrue(any(leases()), "the lease is lost")
        subprocess.run([LULL, "restore"], check=True, capture_output=True)
        self.wait_for(lambda: any(leases()), 2, "no lease after a revocation")
        self.wait_for(is_locked, 60, "the GPU is not lowered again")
        run.kill()
        self.wait_for(lambda: not is_locked(), 2, "the GPU stays low")
        daemon.terminate()
        self.assertEqual(self.stop_after(daemon, 5), 0)

    def test_lull_run_manages_its_job(self):
        self.start_daemon()
        with subprocess.Popen([LULL, "run", "--tolerance", "5%", "--report", os.path.join(self.directory, "report"), "--",
                               *job(JOB, 0, 100000, 30, 120, 0)], stdin=subprocess.DEVNULL, stderr=self.writer,
                              env=dict(os.environ, LULL_LOG="debug")) as run:
            self.wait_for(lambda: any(leases()), 10, "no lease")
            subprocess.run([LULL, "restore"], check=True, capture_output=True)  # which is said
            self.wait_for(lambda: any(leases()), 2, "no lease after a revocation")
            self.wait_for(is_locked, 60, "the GPU was never lowered")
            run.terminate()
            self.assertEqual(self.stop_after(run, 2 + 1), 128 + signal.SIGTERM)
        self.assertTrue(self.report()["notes"], "nothing was said")


def outside(name, case):
    """The same test inside an emulated node."""
    def test(self):
        done = subprocess.run([LULL, "emulate", "--seed", "0", case.NODE, "--", sys.executable, __file__, LULL, LULLD, TOOL, JOB,
                               f"{case.__name__}.{name}"], capture_output=True, text=True, check=False)
        print(done.stdout, end="")
        self.assertEqual(done.returncode, 0, done.stderr)
    return test


if not IS_INSIDE:
    for case_class in (Leases, Signals, Hangs, Unread):
        for test_name in [name for name in dir(case_class) if name.startswith("test_")]:
            setattr(case_class, test_name, outside(test_name, case_class))

if __name__ == "__main__":
    del Case
    unittest.main(verbosity=2)
