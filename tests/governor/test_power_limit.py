"""lull run --power-limit on an emulated node: a limit is found, held, stored, used again, and the
administrator's is back at the end. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

INSIDE = sys.argv[1] == "--inside" and sys.argv.pop(1)
LULL, TOOL, JOB, LULLD = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
SCRIPT = r"""
uuid=$("$LULL" gpus --json | sed -n 's/.*"uuid": "\(.*\)",*/\1/p' | head -1)
"$TOOL" admin "$uuid" 350 || exit 99
"$@"
status=$?
"$LULL" gpus --json > "$LULL_RUNTIME_DIR/after.json"
exit $status
"""

# A job that lasts until its profile has been stored, however long that takes on a busy machine.
UNTIL_STORED = r"""
"$@" &
job=$!
# With a stored profile its limit is set at once, on a late host after some seconds.
[ -e "$LULL_STATE_DIR/emulated/limits.db" ] && sleep 6
for turn in $(seq 90); do
    sleep 2
    [ -e "$LULL_STATE_DIR/emulated/limits.db" ] && break
done
kill $job
wait $job
echo 42
"""


class PowerLimit(unittest.TestCase):
    def setUp(self):
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        self.report = os.path.join(self.directory.name, "report")
        self.until_stored = os.path.join(self.directory.name, "until_stored")
        with open(self.until_stored, "w", encoding="ascii") as file:
            file.write(UNTIL_STORED)
        self.environment = dict(os.environ, LULL_RUNTIME_DIR=self.directory.name, LULL_STATE_DIR=self.directory.name,
                                LULL=LULL, TOOL=TOOL)

    def lull(self, *arguments):
        return subprocess.run([LULL, *arguments], env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)

    def limit(self, *arguments):
        """lull limit on an emulated node, whose profiles are kept apart."""
        return self.lull("emulate", "1xA100-SXM4-40GB", "--", LULL, "limit", *arguments)

    def run_job(self, *options, job=(JOB, "0", "40", "100", "20", "0")):
        done = self.lull("emulate", "--warm", "300", "--truth", os.path.join(self.directory.name, "truth.json"),
                         "1xA100-SXM4-40GB", "--", "sh", "-c", SCRIPT, "sh", LULL, "run",
                         "--verbose", "--no-daemon", "--report", self.report, *options, "--", *job)
        with open(os.path.join(self.report, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        with open(os.path.join(self.directory.name, "after.json"), encoding="utf-8") as file:
            (after,) = json.load(file)["gpus"]
        self.assertEqual(after["power_limit_w"], 350, "the administrator's limit is not back")
        return done, report

    def test_found_stored_and_used_again(self):
        job = ("sh", self.until_stored, JOB, "0", "100000", "100", "20", "0")
        done, report = self.run_job("--power-limit", "auto", "--choose", "cost", "--slice-s", "1.5", "--limit-step-w", "125",
                                    job=job)
        self.assertEqual((done.returncode, done.stdout), (0, "42\n"), done.stderr)
        limit = report["power_limit"]
        self.assertEqual((limit["state"], limit["from_stored_profile"]), ("held", False))
        settings = limit["profile"]["settings"]
        # From the administrator's 350 W down to the device's 100 W; the last is hopeless or was pruned.
        self.assertEqual([row["limit_w"] for row in settings], [350, 225, 100][:len(settings)])
        self.assertEqual([row["limit_w"] for row in settings if row["chosen"]], [limit["held_w"]])
        self.assertEqual(limit["held_w"], min(settings, key=lambda row: row["cost_per_iteration_j"])["limit_w"])
        self.assertGreater(settings[1]["saving_ratio"], 0.05)
        self.assertIn("power limit", done.stderr)
        self.assertTrue(report["settled"])

        done, report = self.run_job("--power-limit", "auto", job=job)
        limit = report["power_limit"]
        self.assertEqual((limit["state"], limit["from_stored_profile"], limit["profiling_s"]), ("held", True, 0))
        # 225 W costs more than 1 % of time, which is the tolerance.
        self.assertEqual((limit["held_w"], limit["profile"]["aim"]), (350, "slowdown"))

        # What was learnt on an emulated node is not known on hardware.
        self.assertIn("no profiles yet", self.lull("limit").stdout)
        (profile,) = json.loads(self.limit("--choose", "energy", "--json").stdout)["profiles"]
        self.assertEqual((profile["program"], profile["gpu_count"]), (" ".join(job), 1))
        self.assertEqual(profile["chosen_limit_w"],
                         min(profile["settings"], key=lambda row: row["energy_per_iteration_j"])["limit_w"])
        self.assertIn("350 W", self.limit("--choose", "time", "--", *job).stdout)
        self.assertEqual(self.limit("--forget", "--", *job).returncode, 0)
        self.assertIn("no profile of", self.limit("--", *job).stderr)

    def test_clocks_under_the_best_limit(self):
        done, report = self.run_job("--power-limit", "auto", "--clocks", "--tolerance", "5%", "--slice-s", "0.6",
                                    "--limit-step-w", "250",
                                    job=("sh", self.until_stored, JOB, "0", "100000", "60", "5", "0"))
        self.assertEqual(done.returncode, 0, done.stderr)
        limit = report["power_limit"]
        self.assertEqual(limit["state"], "held", done.stderr)
        settings = limit["profile"]["settings"]

        def least(rows):
            return min((row for row in rows if row["slowdown_ratio"] <= 0.05), key=lambda row: row["energy_per_iteration_j"])

        free = [row for row in settings if row["sm_mhz"] is None]
        locked = [row for row in settings if row["sm_mhz"] is not None]
        best = least(free)
        self.assertGreaterEqual(len(locked), 2, settings)
        self.assertEqual({row["limit_w"] for row in locked}, {best["limit_w"]})
        clocks = [row["sm_mhz"] for row in locked]
        self.assertEqual(clocks, sorted(set(clocks), reverse=True))
        self.assertEqual([row for row in settings if row["chosen"]], [least(settings)])
        # The locks were there: the last clock was given up because it was too slow.
        self.assertGreater(locked[-1]["slowdown_ratio"], 0.05)
        with open(os.path.join(self.directory.name, "truth.json"), encoding="utf-8") as file:
            (truth,) = json.load(file)["gpus"]
        self.assertGreater(truth["kernels_started_low"], 0)
        self.assertFalse(truth["is_locked"])

    def test_killed_while_profiling(self):
        """The administrator's limit is back: by the daemon at once, without one by lull restore."""
        for mode in ("daemon", "local"):
            done = self.lull("emulate", "--warm", "340", "1xA100-SXM4-40GB", "--", sys.executable, __file__, "--inside", LULL,
                             TOOL, JOB, LULLD, mode)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_held_as_given(self):
        done, report = self.run_job("--power-limit", "150")
        self.assertEqual(done.returncode, 0)
        limit = report["power_limit"]
        self.assertEqual((limit["held_w"], limit["read_back_w"], limit["profile"]), (150, 150, None))
        # It is held after iterations at the administrator's 350 W, which tell what it costs.
        self.assertGreaterEqual(report["descent"]["iterations"], 10)
        self.assertIsNone(limit["slowdown_reason"])
        self.assertGreater(limit["slowdown_ratio"], 0.1)
        self.assertRegex(done.stderr, r"power limit of 150 W held; the GPUs have 150 W; slowdown [+]\d+[.]\d+ % .*more than "
                         "--tolerance")
        # This job draws 316 W where nothing holds it; a busy host begins to measure before the limit has settled.
        self.assertLess(report["managed"]["average_power_w"], 200)
        swing = report["swing"]
        self.assertEqual((swing["piece_s"], swing["band_from_hz"], swing["band_to_hz"]), (1, 1, 5))
        # Five times in a second the job computes and waits, and at the limit with less power.
        self.assertLess(swing["managed"]["peak_to_peak_w"], swing["unmanaged"]["peak_to_peak_w"])
        self.assertLess(swing["managed"]["average_power_w"], swing["unmanaged"]["average_power_w"])

    def test_a_limit_beyond_the_devices_range(self):
        for limit in ("20", "900"):
            done = self.lull("emulate", "1xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--report", self.report,
                             "--power-limit", limit, "--", "echo", "started")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"--power-limit {limit}: GPU 0 \(.*A100.*\) takes 100 to 400 W")

    def test_variables_as_a_pod_has_them(self):
        """The values of annotations; an annotation that is missing gives an empty variable."""
        def run(*options, **variables):
            self.environment.update(variables)
            return self.lull("emulate", "1xA100-SXM4-40GB", "--", LULL, "run", "--no-daemon", "--report", self.report,
                             *options, "--", "echo", "started")

        self.assertIn("takes 100 to 400 W", run(LULL_POWER_LIMIT="900").stderr)
        self.assertIn("--power-limit 20: GPU 0", run("--power-limit", "20").stderr)
        self.assertIn("LULL_POWER_LIMIT is set", run("--plan", "x").stderr)
        done = run(LULL_POWER_LIMIT="", LULL_TOLERANCE="7")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("LULL_TOLERANCE=7: ", done.stderr)
        done = run("--power-limit", "auto", LULL_POWER_LIMIT="900", LULL_TOLERANCE="")
        self.assertEqual((done.returncode, done.stdout), (0, "started\n"))

    def test_nothing_to_measure(self):
        done, report = self.run_job("--power-limit", "auto", job=("sh", "-c", "exit 3"))
        self.assertEqual(done.returncode, 3)
        self.assertEqual(report["power_limit"]["state"], "waiting")
        self.assertIn("no iteration was found", done.stderr)

    def test_what_people_get_wrong(self):
        for options in (["--power-limit", "much"], ["--power-limit", "-5"], ["--eta", "2"], ["--choose", "luck"],
                        ["--choose", "slowdown=x"], ["--slice-s", "0"], ["--limit-step-w", "0"],
                        ["--power-limit", "auto", "--plan", "x"]):
            self.assertEqual(self.lull("run", *options, "--", "true").returncode, 2, options)
        for arguments in (["--choose", "luck"], ["--eta", "x"], ["--forget"]):
            self.assertEqual(self.limit(*arguments).returncode, 2, arguments)
        self.assertEqual(self.limit().stdout, "no profiles yet; lull run --power-limit auto makes them\n")
        os.mkdir(os.path.join(self.directory.name, "emulated"))
        with open(os.path.join(self.directory.name, "emulated", "limits.db"), "w", encoding="ascii") as file:
            file.write("no database" * 100)
        self.assertIn("limits.db", self.limit().stderr)
        done, report = self.run_job("--power-limit", "auto", job=(JOB, "0", "20", "50", "10", "0"))
        self.assertEqual((done.returncode, report["status"]), (0, 0))  # never the job's failure
        # It ended long before anything could be known, and it says how long a job has to be.
        self.assertTrue(any("ended before its GPUs had come to their temperature" in note and "takes up to 100 s more" in note
                            for note in report["notes"]), report["notes"])
        self.assertEqual([gpu["state"] for gpu in report["gpus"]], ["left at its power limit: no other one was chosen"])


def gpu():
    return json.loads(subprocess.check_output([LULL, "gpus", "--json"]))["gpus"][0]


def wait_for_limit(is_there, what):
    until = time.monotonic() + 60
    while not is_there(gpu()["power_limit_w"]):
        if time.monotonic() > until:
            sys.exit(f"{what}: the power limit is {gpu()['power_limit_w']} W")
        time.sleep(0.05)


def start_daemon():
    return host.start_lulld(lambda *words, **more: subprocess.Popen(words, **more), LULLD)


def kill_while_profiling(mode):
    """On the node: SIGKILL for lull run once it has lowered the limit."""
    subprocess.check_call([TOOL, "admin", gpu()["uuid"], "350"])
    daemon = start_daemon() if mode == "daemon" else None
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        command = [LULL, "run", "--quiet", "--report", os.path.join(directory, "report"), "--power-limit", "auto", "--slice-s",
                   "2", "--limit-step-w", "50", *(["--no-daemon"] if daemon is None else []), "--", JOB, "0", "2000",
                   "40", "5", "0"]
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_for_limit(lambda limit_w: limit_w < 350, "profiling has not begun")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        if daemon is None:
            subprocess.check_call([LULL, "restore"])
        wait_for_limit(lambda limit_w: limit_w == 350, "not restored")
        try:
            os.killpg(run.pid, signal.SIGKILL)  # the job, where it has outlived lull run
        except ProcessLookupError:
            pass
    if daemon is not None:
        daemon.terminate()
        daemon.wait()


if INSIDE:
    kill_while_profiling(sys.argv[1])
elif __name__ == "__main__":
    unittest.main()
