#!/usr/bin/env python3
"""Slurm's plugin on a real cluster: its options, jobs that are lowered and restored, everything that may go wrong beside
a job that never notices, and users who keep away from each other.

Run as: lull emulate SPEC -- test_spank.py LULL LULLD TOOL JOB PLUGIN CLUSTER_TOOLS. SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as slurm  # noqa: E402
from cluster import host, run, wait_idle  # noqa: E402

LULL, LULLD, TOOL, JOB, PLUGIN, TOOLS = (os.path.abspath(sys.argv.pop(1)) for _ in range(6))
PORT = 17100
# Users that every Debian has, and no group of theirs.
ALICE, BOB = ({"user": uid, "group": uid, "extra_groups": []} for uid in (1, 2))
# Computes 10 ms and exchanges 60 ms, on the first GPU that it was given.
WORK = 'exec "$0" "${SLURM_STEP_GPUS%%,*}" "$1" 10 60 0'


def truth(gpu):
    return run(TOOL, "truth", gpu).stdout.strip()


def lowered():
    return [gpu for gpu in range(8) if truth(gpu) == "locked"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm.Cluster(TOOLS, LULLD, PLUGIN, PORT, plugin_options=[f"lull={LULL}"])
        cls.addClassCleanup(cls.cluster.stop)
        os.chdir(cls.cluster.work)

    def setUp(self):
        self.jobs = []
        self.addCleanup(self.end)

    def end(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.communicate()
        for user in ("root", "daemon", "bin"):
            run("scancel", "-u", user)
        if self.cluster.daemon is None:
            self.cluster.start_lulld()
        self.cluster.load_plugin(f"lull={LULL}")
        self.assertIsNotNone(wait_idle())
        os.chdir(self.cluster.work)

    def start(self, *words, **options):
        job = subprocess.Popen(["srun", "-Q", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, **options)
        self.jobs.append(job)
        return job

    def start_work(self, *options, steps=2000, **more):
        return self.start("--lull", *options, "sh", "-c", WORK, JOB, str(steps), **more)

    def await_lowered(self, gpu, job):
        took_s = host.wait_for(lambda: truth(gpu) == "locked" or job.poll() is not None, 30)
        self.assertIsNotNone(took_s, "nothing is lowered")
        self.assertIsNone(job.poll(), "the job has ended before anything was lowered")

    def await_restored(self, gpu, limit_s=2):
        self.assertIsNotNone(host.wait_restored(lambda: truth(gpu) == "free", limit_s), f"GPU {gpu} is still lowered")

    def report(self):
        """What the one step here has written; it may come after srun has ended."""
        pattern = os.path.join(os.getcwd(), "lull-report-*", "report.json")
        self.assertIsNotNone(host.wait_for(lambda: glob.glob(pattern), 10), "no report")
        paths = glob.glob(pattern)
        self.assertEqual(len(paths), 1, paths)
        with open(paths[0], encoding="utf-8") as file:
            return json.load(file)

    def assert_told(self, words, said):
        """The words are there, or, on a busy host, the folder that they will be in."""
        if "the step ends before its report" in said:
            self.assertIn("lull-report-", said)
        else:
            self.assertIn(words, said)

    def enter(self, name):
        os.mkdir(name)
        os.chmod(name, 0o1777)
        os.chdir(name)


class Options(Case):
    def test_the_three_commands_know_them(self):
        for command in ("srun", "sbatch", "salloc"):
            said = run(command, "--help").stdout
            for option in ("--lull=", "--lull-tolerance=", "--lull-deadline=", "--lull-batch-job="):
                self.assertIn(option, said, command)

    def test_wrong_values_are_refused_before_the_job_is_there(self):
        for option, expected in (("--lull=hard", "on, off, steady or limit"), ("--lull-tolerance=2", "below 1"),
                                 ("--lull-tolerance=-1%", "below 1"), ("--lull-tolerance=nan", "below 1"),
                                 ("--lull-deadline=tomorrow", "local time"), ("--lull-deadline=2027-13-01T00:00", "local time"),
                                 ("--lull-batch-job=a/b", "recurring job")):
            for command in (["srun", "-J", "wrong", option, "true"], ["sbatch", "-J", "wrong", option, "--wrap", "true"],
                                ["salloc", "-J", "wrong", option, "true"]):
                done = run(*command)
                self.assertNotEqual(done.returncode, 0, command)
                self.assertIn(expected, done.stderr, command)
        self.assertEqual(run("squeue", "-h", "-t", "all", "-n", "wrong").stdout, "")

    def test_right_values_reach_what_a_batch_script_starts(self):
        self.enter("inherited")
        script = 'srun sh -c "echo step $LULL_BATCH_JOB; exit 3"'
        for option in ("--lull", "--lull=on", "--lull=steady"):
            done = run("sbatch", "-Q", "-W", option, "--lull-tolerance=0.5%", "--lull-deadline=2-00", "--lull-batch-job=nightly", "--gres=gpu:1",
                       "-o", "out", "--wrap", script)
            self.assertEqual(done.returncode, 3, done.stderr)
            with open("out", encoding="utf-8") as file:
                said = file.read()
            self.assertIn("step nightly\n", said)
            self.assertNotIn("nvalid", said)
        # The job manages itself.
        self.assertEqual(glob.glob("lull-report*"), [])


class Jobs(Case):
    def test_a_job_is_lowered_on_its_gpu_alone_and_restored(self):
        self.enter("alone")
        other = self.start("--gres=gpu:2", "sleep", "100")
        self.assertIsNotNone(host.wait_for(lambda: run("squeue", "-h", "-t", "R").stdout, 10))
        job = self.start_work("--gres=gpu:1", "--lull-tolerance=5%", steps=150)
        self.await_lowered(2, job)
        seen = set()
        while job.poll() is None:
            seen.update(lowered())
            time.sleep(0.01)
        self.assertEqual(seen, {2})
        self.assertEqual(job.returncode, 0)
        said = job.communicate()[1]
        self.assert_told("  Energy: ", said)
        self.await_restored(2)
        self.assertIsNone(other.poll())
        report = self.report()
        self.assertEqual([gpu["index"] for gpu in report["gpus"]], [2])
        self.assertEqual((report["status"], report["tolerance_ratio"]), (0, 0.05))
        self.assertEqual(report["command"][:2], ["sh", "-c"])

    def test_a_batch_job_is_managed_too(self):
        self.enter("batch")
        done = run("sbatch", "-Q", "-W", "--lull", "--gres=gpu:1", "-o", "out", "--wrap", f"{JOB} 0 40 10 60 0; exit 5")
        self.assertEqual(done.returncode, 5, done.stderr)
        report = self.report()
        self.assertEqual(report["status"], 5)
        self.assertGreater(report["managed"]["iterations"], 20)

    def test_each_rank_has_a_gpu_and_the_highest_status_counts(self):
        self.enter("ranks")
        done = run("srun", "-Q", "--lull", "-n", "4", "--gres=gpu:4", "sh", "-c", '"$0" $SLURM_PROCID 12 10 20 0; exit $SLURM_PROCID', JOB)
        self.assertEqual(done.returncode, 3, done.stderr)
        report = self.report()
        self.assertEqual((report["status"], [gpu["index"] for gpu in report["gpus"]]), (3, [0, 1, 2, 3]))

    def test_without_the_option_nothing_happens(self):
        self.enter("without")
        done = run("srun", "-Q", "--gres=gpu:1", "env")
        self.assertNotIn("LULL_JOB=", done.stdout)
        self.assertEqual(glob.glob("lull-report*"), [])
        self.cluster.load_plugin("default=on", f"lull={LULL}")
        done = run("srun", "-Q", "--gres=gpu:1", "env")
        self.assertIn("LULL_JOB=", done.stdout)
        self.assertEqual(done.stderr, "")
        done = run("srun", "-Q", "--lull=off", "--gres=gpu:1", "env")
        self.assertNotIn("LULL_JOB=", done.stdout)

    def test_a_job_without_gpus_is_told(self):
        done = run("srun", "-Q", "--lull", "sh", "-c", "exit 4")
        self.assertEqual(done.returncode, 4)
        self.assertIn("no GPU", done.stderr)

    def test_a_fixed_frequency_is_respected(self):
        self.enter("frequency")
        job = self.start_work("--gres=gpu:1", "--gpu-freq=900", steps=40)
        while job.poll() is None:
            self.assertEqual(lowered(), [])
            time.sleep(0.05)
        self.assertEqual(job.returncode, 0)
        self.assertIn("--gpu-freq=900 fixes the clocks", job.communicate()[1])
        self.assertEqual(self.report()["status"], 0)


class Failures(Case):
    def test_f01_a_killed_job_is_restored(self):
        self.enter("killed")
        job = self.start_work("--gres=gpu:1")
        self.await_lowered(0, job)
        run("scancel", "-s", "KILL", "-u", "root")
        self.assertNotEqual(job.wait(20), 0)
        self.await_restored(0)
        # Slurm asks a step's processes to end before it kills them.
        self.assertIn(self.report()["status"], (128 + signal.SIGTERM, 128 + signal.SIGKILL))

    def test_f04_the_daemon_is_killed(self):
        self.enter("daemon")
        job = self.start("--lull", "--gres=gpu:1", "sh", "-c", f"{JOB} 0 120 10 60 0; exit 6")
        self.await_lowered(0, job)
        self.cluster.stop_lulld(kill=True)
        self.assertEqual(job.wait(30), 6)
        self.cluster.start_lulld()
        self.assertEqual(truth(0), "free")

    def test_there_is_no_daemon(self):
        self.enter("none")
        self.cluster.stop_lulld()
        done = run("srun", "-Q", "--lull", "--gres=gpu:1", "sh", "-c", "sleep 0.5; exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertIn("observed, not managed", done.stderr)

    def test_lull_is_missing_or_hangs_or_is_mad(self):
        self.enter("mad")
        programs = {"hang": "exec sleep 10", "fail": "exit 1", "garbage": "printf 'x=y\\0z' >&3; exit 0",
                    "escape": r"printf 'a\033[31mb\n' >&2; sleep 0.2", "flood": "while :; do echo flood >&2; done"}
        for name, text in programs.items():
            with open(name, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(name, 0o755)
        for name in (*programs, "missing"):
            self.cluster.load_plugin("start_ms=300", f"lull={os.path.abspath(name)}")
            begin = time.monotonic()
            done = run("srun", "-Q", "--lull", "--gres=gpu:1", "sh", "-c", "echo out; exit 9")
            self.assertEqual((done.returncode, done.stdout), (9, "out\n"), name)
            self.assertLess(time.monotonic() - begin, 4 * host.slowness(), name)
            if name == "hang":
                self.assertIn("the step ends before its report", done.stderr)
            if name == "missing":
                self.assertIn(f"lull: cannot start {os.path.abspath(name)}; ", done.stderr)
            wait_idle()
        self.assertNotIn("\033", self.cluster.log())

    def test_a_folder_that_cannot_be_written_costs_the_management_only(self):
        host.require_open(TOOL)
        os.mkdir("closed")
        os.chdir("closed")
        done = run("srun", "-Q", "--lull", "--gres=gpu:1", "sh", "-c", "sleep 0.5; exit 8", **ALICE)
        self.assertEqual(done.returncode, 8)
        self.assertIn("cannot create the directory", done.stderr)


class Users(unittest.TestCase):
    """Two of them, neither of whom has any right but by jobs."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        self.addCleanup(host.remove, folder)
        policy = os.path.join(folder, "policy.conf")
        with open(policy, "w", encoding="utf-8") as file:
            file.write("[gpu all]\nmin-sm-mhz = 900\n")
        os.chmod(policy, 0o644)
        self.cluster = slurm.Cluster(TOOLS, LULLD, PLUGIN, PORT, plugin_options=[f"lull={LULL}"], policy=policy)
        self.addCleanup(self.cluster.stop)
        os.chdir(self.cluster.work)
        os.environ["HOME"] = self.cluster.work
        gpus = json.loads(run(LULL, "gpus", "--json").stdout)["gpus"]
        self.uuids = [gpu["uuid"] for gpu in gpus]

    def in_job(self, user, *words):
        return run("srun", "-Q", "--lull", "--gres=gpu:1", "--overlap", *words, **user)

    def test_f27_each_has_the_own_gpu_within_the_band(self):
        host.require_open(TOOL)
        # Outside jobs no process has a GPU.
        self.assertEqual(run(TOOL, "rules", "daemon", self.uuids[0], **ALICE).returncode, 3)
        hers = subprocess.Popen(["srun", "-Q", "--lull", "--gres=gpu:1", "sleep", "100"], stdin=subprocess.DEVNULL, **ALICE)
        self.addCleanup(hers.wait)
        self.addCleanup(hers.kill)
        self.assertIsNotNone(host.wait_for(lambda: "job 1 of user 1 has" in self.cluster.log("lulld.log"), 10))
        # His job has GPU 1, hers GPU 0.
        done = self.in_job(BOB, TOOL, "rules", "daemon", self.uuids[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        clamped = [line for line in done.stdout.splitlines() if line.startswith("clamped")]
        self.assertIn("900", clamped[0])
        done = self.in_job(BOB, TOOL, "rules", "daemon", self.uuids[0])
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("belongs to a job of another user", done.stderr)
        done = run(TOOL, "rules", "daemon", self.uuids[1], **ALICE)
        self.assertEqual(done.returncode, 3, done.stdout)
        # Nor may they speak for jobs.
        done = self.in_job(BOB, LULL, "job", "add", "999", "--user", "2", "--gpus", "0")
        self.assertNotEqual(done.returncode, 0)
        run("scancel", "-u", "daemon")
        self.assertIsNotNone(host.wait_for(lambda: self.cluster.log("lulld.log").count("has ended") >= 4, 10))
        self.assertEqual(run(TOOL, "rules", "daemon", self.uuids[0], **ALICE).returncode, 3)

    def test_f53_a_user_names_gpus_of_others(self):
        """Whatever a job's environment says, it has the GPUs that Slurm has given it, and no others."""
        host.require_open(PLUGIN)

        def await_log(words):
            self.assertIsNotNone(host.wait_for(lambda: words in self.cluster.log("lulld.log"), 10))

        def registered():
            return [line for line in self.cluster.log("lulld.log").splitlines() if "of user 2 has" in line]

        claims = [dict(BOB, env=dict(os.environ, **{name: "0,1,2,3", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}))
                  for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")]
        hers = subprocess.Popen(["srun", "-Q", "--lull", "--gres=gpu:1", "sleep", "100"], stdin=subprocess.DEVNULL, **ALICE)
        self.addCleanup(hers.wait)
        self.addCleanup(hers.kill)
        await_log("of user 1 has")
        for claim in claims:
            for command in (["srun", "-Q", "--lull", "true"], ["sbatch", "-Q", "-W", "--lull", "-o", "/dev/null", "--wrap", "true"],
                            ["sbatch", "-Q", "-W", "--lull-batch-job=x", "-o", "/dev/null", "--wrap", "true"]):
                self.assertEqual(run(*command, **claim).returncode, 0)
        self.assertEqual(registered(), [])
        # His own GPU he has all the same.
        for claim in claims:
            done = run("srun", "-Q", "--lull", "--gres=gpu:1", "true", **claim)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(registered())
        self.assertFalse([line for line in registered() if self.uuids[0] in line], registered())


if __name__ == "__main__":
    reason = slurm.reason_to_skip(TOOLS)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
