#!/usr/bin/env python3
"""A run is seen while it goes on: what its governor publishes, by `lull top --json`, as text, and on a terminal, where
keys pause it and restore the node.

Run as: lull emulate SPEC -- test_top.py TOOL LULL JOB LULLD. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

TOOL, LULL, JOB, LULLD = (os.path.abspath(word) for word in sys.argv[1:5])
TMUX = shutil.which("tmux")


def call(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def is_locked(gpu=0):
    return call(TOOL, "truth", str(gpu)).stdout.strip() == "locked"


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory.name, "run")
        self.processes = []

    def tearDown(self):
        """Runs have to end by themselves: what the keeper of one that was killed restores a little later would be the
        next one's state of before. Jobs of those that were killed end here."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        host.stop_all(self.processes)
        self.assertIsNotNone(host.wait_restored(lambda: not is_locked(), 10.0))
        self.directory.cleanup()

    def start(self, *command, options=("--no-daemon",), **environment):
        """A run on GPU 0, the only one that it may use."""
        process = subprocess.Popen(
            [LULL, "run", "--quiet", "--tolerance", "5%", "--report", self.directory.name, *options, "--",
             *(command or (JOB, "0", "100000", "30", "120", "0"))],
            env=dict(os.environ, CUDA_VISIBLE_DEVICES="0", **environment), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.processes.append(process)
        return process

    def look(self, process):
        """What `lull top --json` says of a run; None: it is not listed."""
        done = call(LULL, "top", "--json", str(process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.document = json.loads(done.stdout)
        runs = self.document["runs"]
        return runs[0] if runs else None

    def wait_run(self, process, condition, limit_s=20.0):
        def is_so():
            self.run_seen = self.look(process)
            return self.run_seen is not None and condition(self.run_seen)
        self.assertIsNotNone(host.wait_for(is_so, limit_s, 0.2), self.run_seen)
        return self.run_seen


class Published(Case):
    def test_one_job_on_one_of_several_gpus(self):
        process = self.start(SLURM_JOB_ID="4711", SLURM_STEP_ID="0")
        run = self.wait_run(process, lambda run: run["iterations"] > 10 and run["energy_j"] is not None
                            and run["gpus"][0]["switches"] > 0 and any(
                                part["class"] == "communication" and part["count"] > 10
                                for part in run["gpus"][0]["sections"]))
        self.assertEqual((run["slurm_job"], run["slurm_step"], run["pod"]), ("4711", "0", None))
        self.assertEqual((run["pid"], run["tolerance_ratio"], run["ruler"]), (process.pid, 0.05, "sections"))
        self.assertIn(os.path.basename(JOB), run["command"])
        (gpu,) = run["gpus"]
        self.assertEqual((gpu["index"], gpu["ranks"], gpu["state"], gpu["leased"]), (0, 1, "managed", True))
        self.assertEqual((gpu["lowest_mhz"], gpu["highest_mhz"], gpu["power_limit_w"]), (210, 1410, 400))
        self.assertIn(gpu["wanted_mhz"], range(210, 1411))
        self.assertGreater(gpu["events"], 20)
        self.assertEqual(gpu["lost_events"], 0)
        (waiting,) = [part for part in gpu["sections"] if part["class"] == "communication"]
        self.assertAlmostEqual(waiting["seconds"] / waiting["count"], 0.12, delta=0.03)
        # Whatever is not known is null and has a reason, and nothing else has one.
        for part in (run, gpu):
            for name, reason in part["unknown"].items():
                self.assertIsNone(part[name], name)
                self.assertTrue(reason)
        self.assertIn("saving_ratio", run["unknown"] if run["saving_ratio"] is None else ["saving_ratio"])
        # The node has two GPUs, and the run's is the first of them.
        self.assertEqual([gpu["run"] for gpu in self.document["gpus"]], [run["name"], None])
        self.assertIn("lulld", self.document["lulld_reason"])
        text = call(LULL, "top", "--once", str(process.pid)).stdout
        self.assertRegex(text, rf"(?m)^run {process.pid} of .*Slurm job 4711: ")
        self.assertRegex(text, r"(?m)^   0 +\d+ +\d+ +210-1410 +\d+ +400 ")
        self.assertRegex(text, r"(?m)^   1 .* no run$")

    def test_four_ranks_on_one_gpu(self):
        job = f"{JOB} 0 100000 30 120 0 & " * 4 + "wait"
        process = self.start("/bin/sh", "-c", job)
        run = self.wait_run(process, lambda run: run["gpus"] and run["gpus"][0]["ranks"] == 4)
        (gpu,) = run["gpus"]
        self.assertEqual(gpu["state"], "left alone")
        self.assertIn("several ranks", gpu["state_text"])
        self.assertIsNone(run["saving_ratio"])
        self.assertFalse(is_locked())

    def test_a_power_limit_rules_and_the_governor_dies(self):
        process = self.start(options=("--no-daemon", "--power-limit", "300"))
        run = self.wait_run(process, lambda run: run["gpus"])
        self.assertEqual(run["ruler"], "power limit")
        self.assertIsNone(run["saving_ratio"])
        self.assertIn("saving_ratio", run["unknown"])
        process.kill()
        process.wait()
        self.assertIsNone(self.look(process))

    def test_nothing_to_see(self):
        done = call(LULL, "top", "--once", "--jobs-dir", self.directory.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no active run", done.stdout)
        self.assertIn("no lulld is running", done.stdout)
        self.assertEqual(done.stdout.count("no run\n"), 2)
        done = call(LULL, "top", "--json", "--jobs-dir", "/nonexistent", env=dict(os.environ, LULL_NVML="/nonexistent"))
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual((document["runs"], document["gpus"]), ([], []))
        self.assertTrue(document["driver_reason"])

    def test_usage(self):
        self.assertEqual(call(LULL, "top", "--once", "x").returncode, 2)
        done = call(LULL, "top", stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--once", done.stderr)


@unittest.skipIf(TMUX is None, "no tmux to show lull top in")
class Screen(Case):
    """lull top in a terminal of its own."""

    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.directory.name, "tmux")

    def tearDown(self):
        self.tmux("kill-server")
        super().tearDown()

    def tmux(self, *words):
        return call(TMUX, "-S", self.socket, "-f", "/dev/null", *words).stdout

    def open(self, *options):
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", LULL, "top", "--every", "0.2", *options)
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def screen(self):
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    def wait_screen(self, pattern, limit_s=20.0):
        def is_there():
            self.seen = self.screen()
            return any(re.search(pattern, line) for line in self.seen)
        self.assertIsNotNone(host.wait_for(is_there, limit_s, 0.1), pattern + "\n" + "\n".join(self.seen))
        return self.seen

    def quit(self):
        """tmux sees that the pane's program has gone before it has waited for it, if it ever does."""
        self.tmux("send-keys", "q")
        self.assertIsNotNone(host.wait_for(lambda: self.tmux("list-panes", "-F", "#{pane_dead}") == "1\n", 20.0, 0.1))

    def test_keys_pause_resume_and_restore(self):
        process = self.start()
        self.open(str(process.pid))
        self.wait_screen(r"^   0 +\d+ +\d+ +210-1410")
        self.tmux("send-keys", "p")
        self.wait_screen(r"Pause run .*\(y/n\)")
        self.tmux("send-keys", "n")
        self.wait_screen("nothing has changed")
        self.assertFalse(self.look(process)["paused"])
        self.tmux("send-keys", "p")
        self.wait_screen(r"\(y/n\)")
        self.tmux("send-keys", "y")
        self.wait_screen(rf"^run {process.pid} is paused: ")
        self.assertFalse(is_locked())
        run = self.look(process)
        self.assertEqual((run["paused"], run["learning"], run["gpus"][0]["leased"]), (True, "paused", False))
        self.assertEqual(run["gpus"][0]["unknown"]["wanted_mhz"], "the GPU is not leased")
        self.tmux("send-keys", "p")
        self.wait_screen(rf"Resume run {process.pid}\?")
        self.tmux("send-keys", "y")
        self.wait_screen("continues as before")
        self.wait_run(process, lambda run: run["gpus"][0]["leased"])
        # The governor drives the GPUs itself, so no other process can restore them.
        self.tmux("send-keys", "r")
        self.wait_screen("Restore all GPUs of this node")
        self.tmux("send-keys", "y")
        self.wait_screen("not restored: |are restored")
        process.send_signal(signal.SIGKILL)
        self.wait_screen("no active run")
        self.quit()

    def test_with_lulld(self):
        host.start_lulld(lambda *words, **options: self.processes.append(subprocess.Popen(
            words, stdout=subprocess.PIPE, **options)), LULLD)
        process = self.start(options=())
        self.wait_run(process, lambda run: run["gpus"] and run["gpus"][0]["leased"])
        self.assertEqual([gpu["lulld"]["lease"] is not None for gpu in self.document["gpus"]], [True, False])
        self.open(str(process.pid))
        self.wait_screen("lulld: 1 of 2 GPUs leased")
        self.wait_screen("^   1 .* free$")
        self.tmux("send-keys", "p", "y")
        self.wait_screen(rf"^run {process.pid} is paused: ")
        self.assertFalse(is_locked())
        self.wait_screen("lulld: 0 of 2 GPUs leased")
        self.tmux("send-keys", "p", "y")
        self.wait_screen("lulld: 1 of 2 GPUs leased")
        self.tmux("send-keys", "r", "y")
        self.wait_screen("lulld has revoked all leases")
        self.quit()

    def test_sizes(self):
        process = self.start()
        self.open(str(process.pid))
        seen = self.wait_screen(rf"^run {process.pid} of ")
        self.assertTrue(seen[0].startswith(" lull top"), seen[0])
        self.assertIn("q quit", seen[23])
        self.tmux("resize-window", "-x", "60", "-y", "9")
        seen = self.wait_screen(r"lines 1-5 of \d+")
        self.assertEqual(len(seen), 9)
        self.tmux("send-keys", "End")
        seen = self.wait_screen(r"lines [2-9]\d?-(\d+) of \1")
        self.tmux("send-keys", "Home")
        self.wait_screen("lines 1-5 of")
        self.tmux("resize-window", "-x", "20", "-y", "3")
        self.wait_screen("q quit")
        self.tmux("resize-window", "-x", "120", "-y", "30")
        seen = self.wait_screen(rf"^run {process.pid} of ")
        self.assertIn("q quit", seen[29])
        self.quit()


class Vanished(Case):
    """Comes last: the GPU does not come back."""

    def test_a_gpu_that_is_lost(self):
        process = self.start()
        self.wait_run(process, lambda run: run["gpus"] and run["gpus"][0]["power_w"] is not None)
        call(TOOL, "fault", "0:lost_ms=600000x1")
        call(LULL, "gpus")
        run = self.wait_run(process, lambda run: run["gpus"][0]["power_w"] is None)
        self.assertEqual(run["gpus"][0]["unknown"]["power_w"], "the driver has lost the GPU")
        self.assertIsNone(run["power_w"])
        self.assertEqual(run["unknown"]["power_w"], "the driver has lost the GPU")
        text = call(LULL, "top", "--once", str(process.pid)).stdout
        self.assertIn("power not known", text)
        self.assertIn("the driver has lost the GPU", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
