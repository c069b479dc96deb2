#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lull batch run on an emulated node: what the command and its user see, what is kept, and that
nothing is lost when it is killed at any moment, alone and with others.

usage: test_batch_run.py LULL TRAINER [CASE...], within lull emulate
"""
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL = sys.argv[1]
TRAINER = sys.argv[2]
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "batch_job.py")
SIZES = "16,32,64,128,512"
METRIC = "val_acc=([0-9.]+)"


def shell(script):
    return ["--", "sh", "-c", script, "sh", "{batch}"]


class Case(unittest.TestCase):
    def setUp(self):
        self.place = host.Directory()
        self.environment = dict(os.environ, LULL_STATE_DIR=self.place.name)
        self.environment.pop("LULL_BATCH_STORE", None)
        self.addCleanup(self.place.cleanup)

    def start(self, *options, **more):
        return subprocess.Popen([LULL, "batch", *options], env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def lull(self, *options):
        process = self.start(*options)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    def run_job(self, *options, sizes=SIZES, target="0.93", metric=METRIC, command=None, name="job"):
        command = command or ["--", sys.executable, JOB, "{batch}"]
        return self.lull("run", "--job", name, "--sizes", sizes, "--metric", metric, "--target", target,
                         *options, *command)

    def show(self, name="job"):
        status, out, err = self.lull("show", name, "--json")
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def last(self):
        return self.show()["runs"][-1]


class Command(Case):
    def test_output_passes_through_unchanged(self):
        script = r"printf 'a\0b\r\n\377 no end'; printf 'other' >&2; exit 0"
        process = self.start("run", "--quiet", "--job", "job", "--sizes", "8", "--metric", "(x)", "--target", "1",
                             *shell(script))
        out, err = process.communicate(timeout=60)
        self.assertEqual(out, b"a\0b\r\n\xff no end")
        self.assertTrue(err.startswith(b"other"), err)
        self.assertIn(b"no line matched", err)

    def test_status_of_a_crash_is_the_commands(self):
        status, _, _ = self.run_job(command=shell("echo val_acc=0.5; exit 7"))
        self.assertEqual((status, self.last()["state"]), (7, "failed"))

    def test_a_size_that_fails_falls_back_to_another(self):
        """In the same recurrence; and after two failures it is not tried again."""
        script = '[ $1 -lt 64 ] || exit 1; echo val_acc=0.95'
        given_up = 0
        for _ in range(8):
            status, _, err = self.run_job("--default-size", "64", sizes="32,64", command=shell(script))
            self.assertEqual(status, 0, err)
            given_up += "it is not tried again" in err
        failed = sum(run["size"] == 64 for run in self.show()["runs"])
        self.assertIn((failed, given_up), ((1, 0), (2, 1)))
        self.assertEqual(self.show()["by_size"][1]["failed_in_row"], failed)

    def test_every_size_fails_once(self):
        status, _, _ = self.run_job("--tries", "9", sizes="32,64,128", command=shell("exit 3"))
        self.assertEqual((status, sorted(run["size"] for run in self.show()["runs"])), (3, [32, 64, 128]))

    def test_nan_is_an_epoch_that_reaches_nothing(self):
        for word, lower in (("nan", ("--lower-is-better",)), ("-inf", ("--lower-is-better",)), ("inf", ()), ("NaN", ())):
            status, _, err = self.run_job("--epochs-max", "2", "--tries", "1", *lower, name="x" + word, target="0.5",
                                          metric="loss=([^ ]+)", command=shell(f"for i in 1 2 3 4; do echo loss={word}; "
                                                                               "done; sleep 30"))
            run = self.show("x" + word)["runs"][-1]
            self.assertEqual((status, run["state"], run["epochs"]), (1, "missed", 2), err)

    def test_no_value_of_the_metric_is_a_failure(self):
        status, _, err = self.run_job(command=shell("echo accuracy 0.95"))
        self.assertEqual(status, 1, err)
        self.assertIn("no line matched --metric", err)
        status, _, err = self.run_job(metric="val_acc=(.*)", command=shell("echo val_acc=93,412"))
        self.assertEqual(status, 1, err)
        self.assertIn("matched '93,412', which is not a number", err)

    def test_numbers_as_they_are_printed(self):
        for text, metric in (("95.4%", 0.954), ("95.4 %", 0.954), (" +0.95.", 0.95), ("0,95", 0.95), ("9.5e-1", 0.95),
                             ("1,095.5", 1095.5), (".95", 0.95)):
            status, _, err = self.run_job(metric="val_acc=(.*)", command=shell(f"echo 'val_acc={text}'"))
            self.assertEqual((status, self.last()["metric"]), (0, metric), err)
        status, _, err = self.run_job(metric="val_acc=(.*)", target="93", command=shell("echo val_acc=95.4%"))
        self.assertEqual((status, self.last()["metric"]), (0, 95.4), err)

    def test_a_command_that_is_not_there(self):
        status, _, err = self.run_job(command=["--", "/nowhere/train", "{batch}"])
        self.assertNotEqual(status, 0)
        self.assertIn("/nowhere/train", err)
        self.assertEqual(self.last()["state"], "lost")

    def test_stops_at_the_target(self):
        status, out, _ = self.run_job(command=shell("echo val_acc=0.95; sleep 30; echo late"))
        self.assertEqual((status, self.last()["state"]), (0, "reached"))
        self.assertNotIn("late", out)

    def test_kills_what_ignores_the_stop(self):
        script = "trap '' TERM; echo val_acc=0.95; while :; do sleep 0.1; done"
        status, _, _ = self.run_job("--grace", "0.2", command=shell(script))
        self.assertEqual((status, self.last()["state"]), (0, "reached"))

    def test_metric_on_standard_error_and_without_newline(self):
        status, _, _ = self.run_job(command=shell("printf val_acc=0.94 >&2"))
        self.assertEqual((status, self.last()["metric"]), (0, 0.94))

    def test_lower_is_better(self):
        status, _, _ = self.run_job("--lower-is-better", target="0.3", metric="loss ([0-9.e-]+)",
                                    command=shell("echo loss 1.5; echo loss 0.31; echo loss 2.5e-1; sleep 30"))
        run = self.last()
        self.assertEqual((status, run["state"], run["epochs"], run["metric"]), (0, "reached", 3, 0.25))

    def test_epochs_max(self):
        status, _, _ = self.run_job("--epochs-max", "2", "--tries", "1",
                                    command=shell("for i in 1 2 3 4; do echo val_acc=0.$i; done; sleep 30"))
        run = self.last()
        self.assertEqual((status, run["state"], run["epochs"]), (1, "missed", 2))

    def test_stops_what_is_too_dear(self):
        self.assertEqual(self.run_job(command=shell("sleep 0.2; echo val_acc=0.95"))[0], 0)
        status, _, err = self.run_job("--tries", "1", command=shell("echo val_acc=0.5; sleep 30"))
        run = self.last()
        self.assertEqual((status, run["state"]), (1, "missed"), err)
        self.assertGreater(run["cost_j"], run["bound_j"])
        self.assertIn("too dear", err)

    def test_success_beyond_the_bound_is_success(self):
        self.assertEqual(self.run_job(command=shell("sleep 0.2; echo val_acc=0.95"))[0], 0)
        # Says that it has reached the target only when it is being stopped.
        script = "trap 'echo val_acc=0.95; exit 0' TERM; while :; do sleep 0.05; done"
        status, _, err = self.run_job("--tries", "1", command=shell(script))
        self.assertEqual((status, self.last()["state"]), (0, "reached"), err)
        self.assertGreater(self.last()["cost_j"], self.last()["bound_j"])

    def test_a_signal_is_handed_on(self):
        process = self.start("run", "--job", "job", "--sizes", "8", "--metric", METRIC, "--target", "1",
                             *shell("trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual((process.returncode, self.last()["state"]), (5, "lost"))

    def test_learning_rate(self):
        for rule, rate in (("sqrt", "0.05"), ("linear", "0.025")):
            _, out, _ = self.run_job("--lr", "0.1", "--lr-rule", rule, "--default-size", "16", sizes="4,16",
                                     name=rule, command=["--", "sh", "-c", "echo val_acc=0 rate={lr}@$1", "sh", "{batch}"])
            self.assertEqual([line.split("=")[-1] for line in out.splitlines()[:2]], ["0.1@16", f"{rate}@4"])

    def test_without_gpu_it_runs_all_the_same(self):
        self.environment["LULL_NVML"] = "/nowhere"
        status, out, err = self.run_job("--default-size", "64")
        self.assertEqual(status, 0, err)
        self.assertIn("val_acc=0.9500", out)
        self.assertIn("nothing is learnt", err)

    def test_without_store_it_runs_all_the_same(self):
        self.environment["LULL_STATE_DIR"] = "/dev/null/nowhere"
        status, _, err = self.run_job("--default-size", "64")
        self.assertEqual(status, 0, err)
        self.assertIn("nothing is learnt", err)


class BadInput(Case):
    def refuse(self, word, *options, status=2, **more):
        got, _, err = self.run_job(*options, **more)
        self.assertEqual(got, status, err)
        self.assertIn(word, err)

    def test_usage(self):
        self.refuse("has 0 groups", metric="val_acc")
        self.refuse("has 2 groups", metric="(a)(b)")
        self.refuse("val_acc=(", metric="val_acc=(")
        self.refuse("ascending", sizes="32,16")
        self.refuse("twice", sizes="16,16,32")
        self.refuse("invalid batch size", sizes="16,x")
        self.refuse("not among", "--default-size", "17")
        self.refuse("{batch}", command=["--", "true"])
        self.refuse("--lr", command=["--", "true", "{batch}", "{lr}"])
        self.refuse("--lr", "--lr", "0.1", command=["--", "true", "{batch}"])
        self.refuse("nan", target="nan")
        self.refuse("0.5", "--beta", "0.5")

    def test_another_job_of_this_name(self):
        self.assertEqual(self.run_job()[0], 0)
        before = self.show()
        self.refuse("other sizes", sizes="16,32", status=1)
        self.refuse("another default size", "--default-size", "64", status=1)
        self.refuse("another eta", "--eta", "1", status=1)
        self.refuse("another beta", "--beta", "inf", status=1)
        self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        self.refuse("other GPUs", status=1)
        self.assertEqual(self.show(), before)

    def test_no_such_job(self):
        for command in ("show", "forget"):
            self.assertEqual(self.lull(command, "job")[0], 1)
        self.assertEqual(self.lull("list"), (0, "", ""))
        self.run_job()
        self.assertIn("no such job", self.lull("show", "other")[2])
        self.assertEqual(self.lull("forget", "job")[0], 0)
        self.assertEqual(json.loads(self.lull("list", "--json")[1]), {"jobs": []})

    def test_a_job_of_an_emulated_node_is_not_known_on_hardware(self):
        self.run_job("--default-size", "64")
        self.assertEqual(os.listdir(self.place.name), ["emulated"])
        self.assertIn("job", self.lull("list")[1])
        self.assertIn("job", self.lull("list", "--store", self.place.name)[1])
        del self.environment["LULL_EMULATED_NODE"]
        for options in ((), ("--store", self.place.name)):
            self.assertEqual(json.loads(self.lull("list", "--json", *options)[1]), {"jobs": []})

    def test_a_damaged_store(self):
        os.mkdir(os.path.join(self.place.name, "emulated"))
        with open(os.path.join(self.place.name, "emulated", "batch.db"), "w", encoding="ascii") as file:
            file.write("no database at all " * 100)
        status, _, err = self.run_job("--default-size", "64")
        self.assertEqual(status, 0, err)
        self.assertIn("nothing is learnt", err)
        self.assertEqual(self.lull("show", "job")[0], 2)


class Search(Case):
    def test_finds_the_cheapest_size(self):
        # Epochs so long that the sizes differ by more than the start of a program takes on a busy host.
        command = ["--", sys.executable, JOB, "{batch}", "64", "0.05"]
        for _ in range(12):
            self.assertEqual(self.run_job("--quiet", "--default-size", "16", command=command)[0], 0)
        job = self.show()
        self.assertIn(job["best_size"], (32, 64, 128), job["by_size"])
        self.assertLessEqual(sum(run["state"] == "missed" for run in job["runs"]), 2)

    def test_a_run_that_missed_is_repeated(self):
        status, _, _ = self.run_job("--default-size", "512", sizes="128,512")
        runs = self.show()["runs"]
        self.assertEqual((status, [run["size"] for run in runs]), (0, [512, 128]))
        self.assertEqual([run["state"] for run in runs], ["missed", "reached"])
        self.assertEqual(runs[1]["retry_of"], runs[0]["run"])


class Kill(Case):
    """SIGKILL at random moments; what had ended before stays as it was, to the last digit."""

    def check_history(self, before, after):
        """Ended runs are the same; others have ended as lost, or are new."""
        old = {run["run"]: run for run in before}
        new = {run["run"]: run for run in after}
        self.assertEqual(set(old) - set(new), set())
        for number, run in old.items():
            if run["state"] in ("reached", "missed", "lost"):
                self.assertEqual(new[number], run)
            elif run["state"] == "died":
                self.assertIn(new[number]["state"], ("died", "lost"))

    def check_store(self):
        path = os.path.join(self.place.name, "emulated", "batch.db")
        if not os.path.exists(path):
            return
        with sqlite3.connect(path) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        database.close()

    @staticmethod
    def read(path):
        if not os.path.exists(path):
            return ""
        with open(path, encoding="ascii") as file:
            return file.read()

    def start_run(self, period_s, log):
        return self.start("run", "--quiet", "--job", "job", "--sizes", SIZES, "--default-size", "32", "--metric",
                          METRIC, "--target", "0.93", "--", sys.executable, JOB, "{batch}", "64", str(period_s), log)

    def history(self):
        status, out, err = self.lull("show", "job", "--json")
        if status != 0 and ("no such job" in err or "No such file" in err):
            return []
        self.assertEqual(status, 0, err)
        return json.loads(out)["runs"]

    def kill_at_random(self, seed, rounds, together):
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        log = os.path.join(self.place.name, "log")
        before = []
        for _ in range(rounds):
            processes = [self.start_run(0.01, log) for _ in range(together)]
            time.sleep(chance.uniform(0.0, 0.25))
            processes[0].kill()
            for process in processes:
                process.communicate(timeout=60)
            for process in processes[1:]:
                self.assertEqual(process.returncode, 0)
            after = self.history()
            self.check_history(before, after)
            self.check_store()
            self.assertNotIn("running", [run["state"] for run in after])
            before = after
        return before

    def finish(self, before):
        self.assertEqual(self.run_job("--quiet", "--default-size", "32")[0], 0)
        runs = self.show()["runs"]
        self.check_history(before, runs)
        self.assertNotIn("died", [run["state"] for run in runs])
        self.assertEqual(runs[-1]["state"], "reached")
        return runs

    def test_alone(self):
        runs = self.finish(self.kill_at_random(random.randrange(1 << 30), 25, 1))
        # How many of the kills hit a run in its middle is the host's to say.
        self.assertGreater(sum(run["state"] == "lost" for run in runs), 1)

    def test_beside_another(self):
        runs = self.finish(self.kill_at_random(random.randrange(1 << 30), 8, 2))
        self.assertGreaterEqual(sum(run["state"] == "reached" for run in runs), 8)

    def test_the_command_ends_too(self):
        log = os.path.join(self.place.name, "log")
        process = self.start_run(5.0, log)
        while not self.read(log).endswith("\n"):
            time.sleep(0.01)
        pid = int(self.read(log).split()[1])
        process.kill()
        process.communicate(timeout=60)  # the pipes close when the command has ended
        self.assertEqual(self.history()[-1]["state"], "died")
        self.assertFalse(os.path.exists(f"/proc/{pid}/exe"))

    def test_a_killed_run_keeps_its_energy(self):
        log = os.path.join(self.place.name, "log")
        process = self.start_run(60.0, log)
        for _ in range(600):
            runs = self.history()
            if runs and runs[-1]["energy_j"]:
                break
            time.sleep(0.05)
        self.assertEqual(self.lull("forget", "job")[0], 1)  # it is under way
        process.kill()
        process.communicate(timeout=60)
        runs = self.finish(runs)
        self.assertEqual(runs[0]["state"], "lost")
        self.assertGreater(runs[0]["energy_j"], 0.0)
        # Neither a success nor a failure of its size.
        counts = {arm["size"]: arm["runs"] for arm in self.show()["by_size"]}
        self.assertEqual(counts[runs[0]["size"]],
                         sum(run["size"] == runs[0]["size"] for run in runs[1:]))


class Together(Case):
    def test_many_at_once(self):
        processes = [self.start("run", "--quiet", "--job", "job", "--sizes", SIZES, "--metric", METRIC, "--target",
                                "0.93", "--default-size", "64", "--", sys.executable, JOB, "{batch}")
                     for _ in range(6)]
        for process in processes:
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
        runs = self.show()["runs"]
        self.assertEqual(sum(run["state"] == "reached" for run in runs), 6)
        self.assertEqual(len({run["run"] for run in runs}), len(runs))


class Trainer(Case):
    # Exhaustively (tools/bench batch_run) 32 is the cheapest of 8 to 256 by a third.
    def test_a_real_job(self):
        self.environment["OPENBLAS_NUM_THREADS"] = "1"
        self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        command = ["--", TRAINER, "--steps", "4000", "--epoch", "1024", "--hidden", "64", "--noise", "4",
                   "--learning-rate", "0.01", "--batch", "{batch}", "--gpu-ms", "10", "--sample-ms", "0.1",
                   "--profile", "training"]
        for _ in range(5):
            status, _, err = self.run_job("--default-size", "128", sizes="32,128", target="0.95", command=command)
            self.assertEqual(status, 0, err)
        state = self.show()
        self.assertEqual(state["best_size"], 32, state["by_size"])
        epochs = {}
        for run in state["runs"]:
            if run["state"] == "reached":
                # Real convergence: the same each time, however slow this machine is.
                self.assertEqual(epochs.setdefault(run["size"], run["epochs"]), run["epochs"])
            self.assertGreater(run["energy_j"], 50.0 * run["time_s"])
        self.assertLess(epochs[32], epochs[128])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
