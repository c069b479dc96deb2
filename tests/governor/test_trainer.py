"""The main job, small: the trainer on an emulated node under lull run, through lulld.

Here it is shown that the whole path works; how much it saves and that it costs no time is measured
by `make demo` and `make bench`, since these machines are shared.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import subprocess
import sys
import unittest

BUILD, TOOLS = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
sys.path[:0] = [TOOLS, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import emulated_run  # noqa: E402
import host  # noqa: E402

LULL = emulated_run.program(BUILD, "src/cli/lull")


def is_lowered(result):
    return all(gpu["switches"] > 10 for gpu in result.report["gpus"])


class Trainer(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)

    def test_sections_are_lowered_and_the_loss_stays_the_same(self):
        setup = emulated_run.Setup(ranks=2, node="2xA100-SXM4-40GB", steps=90, gpu_ms=60.0, hidden=512,
                                   link_gbs=0.015)
        result = host.run_on_time(lambda: emulated_run.run(BUILD, setup, self.directory.name), is_lowered)
        report = result.report
        self.assertTrue(result.same_losses())
        self.assertEqual(len(result.losses[0]), setup.steps)
        self.assertEqual(report["status"], 0)
        self.assertEqual(len(report["gpus"]), 2)
        for gpu in report["gpus"]:
            self.assertEqual(gpu["calls_per_iteration"], 3)
            # A busy machine may add a wait between two calls.
            named = [section for section in gpu["sections"] if section["name"] == "allreduce"]
            self.assertEqual(len(named), 1, gpu["sections"])
            self.assertEqual(named[0]["kind"], "communication")
            self.assertGreater(gpu["switches"], 10)
            # Whether 80 iterations are enough for a verdict is up to the noise of this machine.
            for step in named[0]["descent"][:1]:
                self.assertEqual(step["sm_mhz"], 210)
            self.assertEqual(gpu["events_lost"], 0)
        self.assertGreater(report["unmanaged"]["iterations"], 10)
        self.assertGreater(report["managed"]["iterations"] + report["descent"]["iterations"], 10)
        for name in ("unmanaged", "managed"):
            part = report[name]
            # The proof may come with the last iterations, and leave hardly any to what is managed.
            if part["energy_j"] is not None:
                self.assertAlmostEqual(part["energy_j"], part["average_power_w"] * part["span_s"], delta=1.0)
        with open(os.path.join(self.directory.name, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertTrue(any(event["name"] == "210 MHz" for event in events))
        self.assertTrue(any(event["name"] == "allreduce" for event in events))

    def test_without_a_daemon_as_root(self):
        report = os.path.join(self.directory.name, "report")
        command = [LULL, "emulate", "2xA100", "--", LULL, "run", "--no-daemon", "--report", report, "--",
                   "mpirun.openmpi", "-n", "2", emulated_run.program(BUILD, "examples/train_mpi"),
                   "--steps", "40", "--hidden", "256", "--gpu-ms", "40", "--link-gbs", "0.006"]
        environment = dict(emulated_run.mpi_environment(), LULL_RUNTIME_DIR=self.directory.name)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
            self.assertTrue(all(gpu["switches"] > 0 for gpu in json.load(file)["gpus"]))
        self.assertEqual(os.listdir(os.path.join(self.directory.name, "saved")), [])


class Deaths(unittest.TestCase):
    """SIGKILL in the middle of a lowered section: the previous setting is back within a second."""

    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(emulated_run.mpi_environment(), LULL_RUNTIME_DIR=self.directory.name)

    def on_node(self, body):
        """Runs this file's body function inside an emulated node; its output."""
        done = subprocess.run([LULL, "emulate", "2xA100", "--", sys.executable, __file__, BUILD, TOOLS,
                               "--body", body, self.directory.name],
                              env=self.environment, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_job_dies(self):
        self.assertIn("restored", self.on_node("kill_job"))

    def test_the_governor_dies(self):
        self.assertIn("restored", self.on_node("kill_governor"))

    def test_the_daemon_dies_and_starts_again(self):
        self.assertIn("restored", self.on_node("kill_daemon_then_start"))

    def test_the_daemon_dies_and_lull_restore_undoes(self):
        self.assertIn("restored", self.on_node("kill_daemon_then_restore"))


def journals(runtime_dir):
    saved = os.path.join(runtime_dir, "saved")
    return os.listdir(saved) if os.path.isdir(saved) else []


def clocks():
    """SM clocks of the GPUs, MHz. In use and unlocked, a GPU runs at its highest clock."""
    shown = subprocess.run([LULL, "gpus", "--json"], capture_output=True, text=True, check=True)
    return [gpu["sm_clock_mhz"] for gpu in json.loads(shown.stdout)["gpus"]]


def wait_until(condition, seconds, what):
    if host.wait_for(condition, seconds) is None:
        sys.exit(f"not within {seconds} s: {what}")


class Scene:
    """A managed trainer on this node, caught in the middle of a lowered section."""

    def __init__(self, runtime_dir):
        self.runtime_dir = runtime_dir
        self.daemon = emulated_run.Daemon(BUILD, runtime_dir)
        self.governor = subprocess.Popen(
            [LULL, "run", "--quiet", "--report", os.path.join(runtime_dir, "report"), "--",
             "mpirun.openmpi", "-n", "2", emulated_run.program(BUILD, "examples/train_mpi"), "--steps", "400",
             "--hidden", "256", "--gpu-ms", "60", "--link-gbs", "0.002"],
            stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until(lambda: min(clocks()) > 1000, 20, "a trainer at work")
            wait_until(lambda: min(clocks()) < 600, 40, "a lowered section")
        except SystemExit:
            self.end()
            raise

    def wait_restored(self, seconds):
        """A journal is removed only when its GPU has been restored and read back."""
        wait_until(lambda: not journals(self.runtime_dir), seconds, "no journal")
        print("restored")

    def end(self):
        try:
            os.killpg(self.governor.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.governor.wait()
        self.daemon.stop()


def kill_job(scene):
    children = subprocess.run(["pgrep", "-P", str(scene.governor.pid)], capture_output=True, text=True,
                              check=True).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    scene.wait_restored(1.0)


def kill_governor(scene):
    scene.governor.kill()
    scene.wait_restored(1.0)


def kill_daemon_then_start(scene):
    scene.daemon.process.kill()
    scene.daemon.process.wait()
    assert journals(scene.runtime_dir)
    scene.daemon = emulated_run.Daemon(BUILD, scene.runtime_dir)
    assert not journals(scene.runtime_dir), "restored only after it was listening"
    print("restored")


def kill_daemon_then_restore(scene):
    scene.daemon.process.kill()
    scene.daemon.process.wait()
    subprocess.run([LULL, "restore"], check=True, timeout=30)
    scene.wait_restored(1.0)


if __name__ == "__main__":
    if "--body" in sys.argv:
        scene = Scene(sys.argv[3])
        try:
            globals()[sys.argv[2]](scene)
        finally:
            scene.end()
    else:
        unittest.main(verbosity=2)
