# SPDX-License-Identifier: Apache-2.0
"""Deadlines for tests in real time that hold on a busy host as well: they stretch by what the host itself is found to
be late at that time, so a promise of one second is held against one second wherever the host could have kept it."""
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import unittest

# A shell starts what runs in the background with INT and QUIT ignored, and nohup with HUP; every program of a test would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def print_durations():
    """For `make faults`: each case prints what it took, its preparation included."""
    run = unittest.TestCase.run

    def timed(case, result=None):
        begin = time.monotonic()
        try:
            return run(case, result)
        finally:
            print(f"took {(time.monotonic() - begin) * 1e3:.1f} ms: {case._testMethodName}", file=sys.stderr, flush=True)

    unittest.TestCase.run = timed


if "LULL_TEST_DURATIONS" in os.environ:
    print_durations()


def find_packages():
    """Lets Python find the packages that tools/install-deps has installed for tests alone."""
    packages = os.environ.get("LULL_PACKAGES") or os.path.expanduser("~/.cache/lull/packages")
    sys.path.append(os.path.join(packages, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages"))


def slowness():
    """How much longer than on an idle host things take here and now, at least 1: a piece of work against the time that
    it computed, and a short sleep against its length. What tests wait for takes several processes, each as late, so
    the lateness counts twice."""
    begin, computed = time.monotonic(), time.process_time()
    while time.process_time() - computed < 0.02:
        pass
    work = (time.monotonic() - begin) / 0.02
    begin = time.monotonic()
    time.sleep(0.02)
    sleep = (time.monotonic() - begin) / 0.02
    return 1.0 + 2.0 * (max(work, sleep, 1.0) - 1.0)


def wait_for(condition, limit_s, pause_s=0.005):
    """Seconds until the condition holds, None if it does not within limit_s of a host that is on time."""
    begin = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - begin
        waited_s = time.monotonic() - begin
        if waited_s > limit_s and waited_s > limit_s * slowness():
            return None
        time.sleep(pause_s)


def wait_restored(condition, limit_s, pause_s=0.005):
    """wait_for() a GPU that is put back; reports to `make faults` how long that took, by the case that waits."""
    taken_s = wait_for(condition, limit_s, pause_s)
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_name.startswith("test_"):
        frame = frame.f_back
    if frame is not None and taken_s is not None:
        print(f"restored after {taken_s * 1e3:.1f} ms: {frame.f_code.co_name}", file=sys.stderr, flush=True)
    return taken_s


class Lateness:
    """The longest that the host was late while the block ran: how much longer than asked a short sleep took, in seconds."""

    def __enter__(self):
        self.longest_s, self.is_over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.measure, daemon=True)
        self.thread.start()
        return self

    def measure(self):
        while not self.is_over.is_set():
            begin = time.monotonic()
            time.sleep(0.01)
            self.longest_s = max(self.longest_s, time.monotonic() - begin - 0.01)

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def run_on_time(run, is_known, late_s=0.05, tries=3):
    """The result of run(), repeated where is_known(result) does not hold and the host was more than late_s late meanwhile: a
    late host may keep a run from an outcome, and may not make one wrong."""
    for _ in range(tries - 1):
        with Lateness() as lateness:
            result = run()
        if is_known(result) or lateness.longest_s <= late_s:
            return result
        print(f"the host was {lateness.longest_s * 1e3:.0f} ms late: run again", file=sys.stderr, flush=True)
    return run()


def stop_all(processes):
    """Kills what still runs of these processes, whose standard output is a pipe, and waits for all."""
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def start_lulld(spawn, *command, **options):
    """Starts lulld by spawn(*words, pass_fds=...), and waits until it listens."""
    ready, write = os.pipe()
    daemon = spawn(*command, "--ready-fd", str(write), pass_fds=[write], **options)
    os.close(write)
    said = os.read(ready, 1)
    os.close(ready)
    assert said == b"\n", f"{command[0]} did not start"
    return daemon


def remove(directory):
    """Removes a directory in which a keeper may still be putting something away for a daemon that was killed."""
    def is_gone():
        shutil.rmtree(directory, ignore_errors=True)
        return not os.path.exists(directory)

    wait_for(is_gone, 5.0, 0.02)


def require_open(program):
    """Skips the test, which runs this program of the build as another user, where others cannot reach it: a checkout below
    /root, say."""
    path = os.path.realpath(program)
    while True:
        if not os.stat(path).st_mode & stat.S_IXOTH:
            raise unittest.SkipTest(f"{path} is closed to other users, as whom it runs programs of the build")
        if path == "/":
            return
        path = os.path.dirname(path)


class Directory:
    """A temporary directory that is removed like that."""

    def __init__(self):
        self.name = tempfile.mkdtemp(prefix="lull-")

    def cleanup(self):
        remove(self.name)
