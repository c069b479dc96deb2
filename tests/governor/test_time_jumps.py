"""The wall clock of lulld and of lull run jumps by a year, back and forth, ten times a second: leases stay, and what is lowered is
restored as soon as with a steady clock. Usage: test_time_jumps.py LULL LULLD SECTION_JOB JUMPING_CLOCK.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, JOB, CLOCK = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))


class TimeJumps(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-", ignore_cleanup_errors=True)
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.log, self.told = (open(os.path.join(self.directory, name), "w+", encoding="utf-8") for name in ("lulld.txt", "run.txt"))
        self.addCleanup(self.log.close)
        self.addCleanup(self.told.close)
        self.spawn([LULLD, "--allow-all"], stderr=self.log)
        self.assertIsNotNone(host.wait_for(lambda: os.path.exists(os.path.join(self.directory, "lulld.sock")), 10))

    def spawn(self, words, **options):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, LD_PRELOAD=CLOCK),
                                   **{"stdout": subprocess.DEVNULL, **options})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def has_lease(self):
        done = subprocess.run([LULL, "status", "--json"], env=dict(os.environ, LULL_RUNTIME_DIR=self.directory),
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["gpus"][0]["lease"] is not None

    def run_job(self, steps):
        return self.spawn([LULL, "run", "--quiet", "--tolerance", "20%", "--report", os.path.join(self.directory, "report"), "--",
                           JOB, "0", str(steps), "6", "40", "0"], stderr=self.told, start_new_session=True)

    def test_a_lease_lives_through_a_run(self):
        job = self.run_job(150)
        status = job.wait(120)
        self.told.seek(0)
        error = self.told.read()
        self.assertEqual(status, 0, error)
        with open(os.path.join(self.directory, "report", "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertGreater(report["gpus"][0]["switches"], 0)
        self.assertNotRegex(error + json.dumps(report["notes"]), r"lost|took .* back|lease")
        self.log.seek(0)
        self.assertNotRegex(self.log.read(), re.compile(r"silent|heartbeat|revoked", re.IGNORECASE))

    def test_serve_tells_right_ages_and_rates(self):
        """Nothing is stale or too frequent because the clock was set; a run and the energy of its GPU are seen."""
        serve = self.spawn([LULL, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(serve.stdout.close)
        address = serve.stdout.readline().strip()
        job = self.run_job(100000)
        self.addCleanup(os.killpg, job.pid, signal.SIGKILL)

        def look():
            with urllib.request.urlopen(address + "api/v1/node", timeout=60) as answer:
                return json.load(answer)

        def own_run(node):
            """Other runs of this machine may be shown too."""
            return next((run for run in node["jobs"] if run["pid"] == job.pid), None)

        self.assertIsNotNone(host.wait_for(lambda: own_run(look()), 30, 0.5))
        looks = [look() for _ in range(8) if not time.sleep(0.5)]
        for node in looks:
            gpu, run = node["gpus"][0], own_run(node)
            self.assertTrue(gpu["answers"])
            for age in (gpu["age_s"], gpu["slow_age_s"], node["serve"]["age_s"], run["age_s"]):
                self.assertGreaterEqual(age, 0)
                self.assertLess(age, 60)
            self.assertLess(run["run_s"], 600)
            self.assertEqual(node["serve"]["refused"], 0)
        energies = [node["gpus"][0]["energy_j"] for node in looks]
        self.assertEqual(energies, sorted(energies))
        self.assertGreater(energies[-1], energies[0])

    def end_of_lease(self, kill, seconds):
        job = self.run_job(100000)
        self.assertIsNotNone(host.wait_for(self.has_lease, 20))
        time.sleep(1)
        kill(job)
        self.addCleanup(os.killpg, job.pid, signal.SIGKILL)
        self.assertIsNotNone(host.wait_restored(lambda: not self.has_lease(), seconds))

    def test_a_killed_client_loses_its_lease_at_once(self):
        self.end_of_lease(lambda job: job.send_signal(signal.SIGKILL), 2)

    def test_a_silent_client_loses_its_lease(self):
        self.end_of_lease(lambda job: job.send_signal(signal.SIGSTOP), 8)


if __name__ == "__main__":
    unittest.main()
