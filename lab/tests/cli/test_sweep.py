#!/usr/bin/env python3
"""`lull sweep` on emulated nodes whose time runs 20 times as fast.

Run as: test_sweep.py LULL LULLD [CLASS...]. What the rows should say is worked out by tools/emulated_gpu.py. Sweeps are
small: their windows are tenths of a second of the node's time, as their sidecars say; lab/bench/bench_sweep.py has whole ones.
SPDX-License-Identifier: Apache-2.0
"""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tools")]
import emulated_gpu  # noqa: E402
import host  # noqa: E402

LULL, LULLD = map(os.path.abspath, sys.argv[1:3])
QUICK = ["--warm-up", "0", "--idle", "1", "--soak", "0.2", "--window", "0.4", "--window-most", "1.2", "--launches", "2",
         "--refreshes", "2", "--repeats", "1"]

# Marks of rows in which a busy host was late, which the node's time makes 20 times as late.
LATE = {"noise", "counter"}


def reasons_of(row):
    """Why a row is not valid, but for what the host may have done."""
    return set(row["invalid_reason"].split("+")) - LATE - {""}


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-sweep-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.file = self.path("rows.csv")

    def path(self, name):
        return os.path.join(self.directory, name)

    def emulated(self, *command, spec="V100-SXM2-16GB", scale=20, faults=(), warm=0, truth=None):
        arguments = [LULL, "emulate", spec, "--seed", "0", "--time-scale", str(scale)]
        arguments += ["--fault", ",".join(faults)] if faults else []
        arguments += ["--warm", str(warm)] if warm else []
        arguments += ["--truth", truth] if truth else []
        return [*arguments, "--", *command]

    def sweep(self, *options, grid="sm=2", **node):
        return self.emulated(LULL, "sweep", "--no-daemon", "--runtime-dir", self.path("run"), "--output", self.file,
                             "--grid", grid, *QUICK, *options, **node)

    def call(self, command, status=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def rows(self, path=None):
        with open(path or self.file, encoding="ascii") as file:
            return list(csv.DictReader(file))

    def sidecar(self):
        with open(self.file + ".json", encoding="utf-8") as file:
            return json.load(file)


class Whole(Case):
    def test_rows_are_what_the_node_does(self):
        done = self.call(self.sweep("--suite", "--json", "--window", "2", "--window-most", "4",
                                    grid="sm=1380/1005/705/405"))
        model, rows = emulated_gpu.Model("V100-SXM2-16GB"), self.rows()
        self.assertEqual(json.loads(done.stdout)["rows"], len(rows))
        # The base (1530) first and last in each kernel's block.
        self.assertEqual(len(rows), 3 * (4 + 2))
        for kernel in ("training", "dgemm", "stream"):
            block = [row for row in rows if row["kernel"] == kernel]
            self.assertEqual([block[0]["sm_set_mhz"], block[-1]["sm_set_mhz"]], ["1530", "1530"])
            self.assertEqual(sorted(row["sm_set_mhz"] for row in block[1:-1]), ["1005", "1380", "405", "705"])
            for row in block:
                if row["valid"] == "0":
                    self.assertLessEqual(reasons_of(row), {"power"} if kernel == "dgemm" else set())
                    continue
                mhz = float(row["sm_set_mhz"])
                self.assertAlmostEqual(float(row["time_ms"]) / 50, model.time_ratio(kernel, mhz), delta=0.005)
                power_w = model.power_w(kernel, mhz, float(row["temp_c"]))
                self.assertAlmostEqual(float(row["power_w"]) / power_w, 1, delta=0.02)
                self.assertEqual(float(row["sm_mhz"]), mhz)
                self.assertEqual(row["energy_source"], "counter")
                self.assertAlmostEqual(float(row["energy_j"]), float(row["power_w"]) * float(row["window_s"]),
                                       delta=1e-3)
        self.assertEqual([int(row["order"]) for row in rows], list(range(len(rows))))
        self.assertGreater(sum(row["valid"] == "1" for row in rows), len(rows) / 2)
        self.check_sidecar(rows)
        self.check_files()

    def check_sidecar(self, rows):
        sidecar = self.sidecar()
        self.assertEqual(sidecar["schema"], "lull-sweep-1")
        self.assertTrue(sidecar["is_emulated"])
        self.assertEqual([sidecar["state"], sidecar["rows"]], ["done", len(rows)])
        self.assertEqual(sidecar["gpu"]["name"], "Tesla V100-SXM2-16GB")
        self.assertEqual(sidecar["gpu"]["uuid_hash"], rows[0]["gpu_uuid_hash"])
        self.assertEqual(sidecar["protocol"]["soak_s"], 0.2)
        # 20 ms; a busy host misses some of the counter's updates.
        self.assertTrue(16 < sidecar["counter_refresh_ms"] < 100, sidecar["counter_refresh_ms"])
        self.assertAlmostEqual(sidecar["idle_w"], 40, delta=1)
        self.assertIsNone(sidecar["gpu"]["vbios"])

    def check_files(self):
        """What works on datasets works on this one."""
        report = json.loads(self.call([LULL, "sweep", "--validate", "--json", self.file]).stdout)
        self.assertEqual([report["is_valid"], report["findings"]], [True, []])
        sets = json.loads(self.call([LULL, "model", "evaluate", "--json", self.file]).stdout)["sets"]
        self.assertEqual([sets[0]["set"], sets[0]["kernels"] >= 1], ["emulated@300W", True])
        pictures = self.call([LULL, "sweep", "--plot", self.file, "--output", self.path("pictures")]).stdout.split()
        for picture in pictures:
            words = " ".join(xml.etree.ElementTree.parse(picture).getroot().itertext())
            self.assertIn("stream", words)
        self.assertEqual(len(pictures), 2)
        self.call([LULL, "sweep", "--merge", self.path("all.csv"), self.file, self.file])
        with open(self.file, "rb") as one, open(self.path("all.csv"), "rb") as merged:
            self.assertEqual(one.read(), merged.read())
        self.call([LULL, "sweep", "--validate", self.path("all.csv")])

    def test_power_limits(self):
        """A limit of the row's own may hold the clock down; one that is everybody's may not."""
        self.call(self.sweep("--suite", grid="sm=1,limit=180"), 2)
        # The limiter takes a second to settle.
        self.call(self.sweep("--suite", "--soak", "3", "--window", "1", grid="sm=1,limit=180/150"))
        seen = {(row["kernel"], row["limit_set_w"]): row for row in self.rows()}
        for kernel, limit in (("dgemm", 150), ("dgemm", 180), ("training", 150)):
            row = seen[kernel, str(limit)]
            self.assertEqual(reasons_of(row), set())
            self.assertEqual(row["reasons"], "4")
            self.assertLess(float(row["sm_mhz"]), 1530)
            self.assertAlmostEqual(float(row["power_w"]), limit, delta=0.06 * limit)
        self.assertIn("power", seen["dgemm", "300"]["invalid_reason"])
        self.assertEqual(seen["stream", "180"]["sm_mhz"], "1530")

    def test_adaptive(self):
        """Five clocks, and then those around the cheapest one, which end close to what is cheapest of all."""
        self.call(self.sweep("--suite", "--window", "1", "--window-most", "2", grid="sm=auto"))
        model = emulated_gpu.Model("V100-SXM2-16GB")
        low, step, added = model.data["sm"]["min"], model.data["sm"]["step"], []
        for kernel in ("training", "stream"):
            clocks = {float(row["sm_set_mhz"]) for row in self.rows() if row["kernel"] == kernel}
            added.append(len(clocks) - 5)

            def energy(mhz):
                return model.settled_w(kernel, mhz) * model.time_ratio(kernel, mhz)  # pylint: disable=cell-var-from-loop

            best = min(energy(low + step * i) for i in range(int((model.top - low) / step) + 1))
            self.assertLess(min(map(energy, clocks)), 1.05 * best)
        self.assertTrue(all(0 <= count <= 8 for count in added) and max(added) > 0, added)

    def test_repeats_and_seed(self):
        orders = []
        for seed in ("1", "1", "2"):
            self.call(self.sweep("--suite", "--repeats", "2", "--seed", seed))
            # Where the two repeats disagree there is a third.
            orders.append([(row["kernel"], row["sm_set_mhz"], row["repeat"]) for row in self.rows()][:18])
            self.assertEqual({row[2] for row in orders[-1]}, {"0", "1"})
            os.remove(self.file)
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])


class Marks(Case):
    """What is wrong is told; nothing is dropped."""

    def reasons(self, kernel="training", **sweep):
        self.call(self.sweep("--suite", **sweep))
        self.assertEqual(len(self.rows()), 9)
        return {row["sm_set_mhz"]: reasons_of(row) for row in self.rows() if row["kernel"] == kernel}

    def test_clocks_that_are_not_honoured(self):
        reasons = self.reasons(faults=["no_effect"])
        self.assertEqual([reasons["135"], reasons["1530"]], [{"clock"}, set()])

    def test_counters(self):
        for fault in ("energy_stuck_j=100", "energy_wrap_j=200"):
            found = [row["invalid_reason"] for row in self.failing(fault)]
            self.assertTrue(any("counter" in reason for reason in found), fault)
            for row in self.rows():
                self.assertEqual(row["energy_source"], "power" if "counter" in row["invalid_reason"] else "counter")
            os.remove(self.file)

    def failing(self, fault):
        self.call(self.sweep("--suite", faults=[fault]))
        return self.rows()

    def test_no_counter_is_no_failure(self):
        self.assertEqual(self.reasons(faults=["no_energy"])["1530"], set())
        self.assertFalse(any("counter" in row["invalid_reason"] for row in self.rows()))
        self.assertEqual({row["energy_source"] for row in self.rows()}, {"power"})

    def test_heat(self):
        self.call(self.sweep("--suite", warm=600))
        self.assertIn("thermal", self.rows()[0]["invalid_reason"])

    def test_somebody_elses_limit(self):
        self.call(self.sweep("--suite", faults=["foreign_limit_w=150x1@200"]))
        late = [row for row in self.rows() if row["kernel"] != "stream" and row["sm_set_mhz"] == "1530"][-1]
        self.assertIn("power", late["invalid_reason"])

    def test_another_process(self):
        """One that is there keeps a sweep from beginning; one that comes marks the rows."""
        other = [LULL, "play", "--preset", "resnet50-ddp", "--ranks", "1", "--seconds", "30"]
        script = f"{' '.join(other)} >/dev/null & sleep 0.3; {{command}}; s=$?; kill $!; exit $s"
        command = " ".join([LULL, "sweep", "--no-daemon", "--runtime-dir", self.path("run"), "--output", self.file, "--suite",
                            "--grid", "sm=2", *QUICK])
        done = self.call(self.emulated("sh", "-c", script.format(command=command)), 1)
        self.assertIn("computes on it", done.stderr)
        waiting = f"while [ $(cat {self.file} 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.02; done"
        script = f"{command} & p=$!; {waiting}; {' '.join(other)} >/dev/null & o=$!; wait $p; s=$?; kill $o; exit $s"
        self.call(self.emulated("sh", "-c", script))
        reasons = [row["invalid_reason"] for row in self.rows()]
        self.assertNotIn("other_process", reasons[0])
        self.assertIn("other_process", reasons[-1])


class Ended(Case):
    """Whatever ends a sweep, at most the row at hand is lost, and it goes on."""

    KEY = ("kernel", "sm_set_mhz", "repeat")

    def keys(self):
        return {tuple(row[name] for name in self.KEY) for row in self.rows()}

    def sweep(self, *options, scale=60, **node):
        return super().sweep(*options, scale=scale, **node)

    def check_resumed(self, before, most_more):
        self.call(self.sweep("--suite", "--resume"))
        with open(self.file, "rb") as file:
            self.assertTrue(file.read().startswith(before))
        self.assertEqual(len(self.keys()), 6)
        self.assertLessEqual(len(self.rows()), 9 + most_more)
        self.assertEqual(self.sidecar()["state"], "done")
        self.call([LULL, "sweep", "--validate", self.file])

    def test_killed_after_each_row(self):
        for count in range(9):
            process = subprocess.Popen(self.sweep("--suite"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            self.assertIsNotNone(host.wait_for(lambda: self.has_lines(count + 1), 30, 0.001))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            with open(self.file, "rb") as file:
                before = file.read()
            self.assertGreaterEqual(before.count(b"\n"), count + 1)
            self.check_resumed(before[:before.rfind(b"\n") + 1], 1)
            os.remove(self.file)

    def has_lines(self, count):
        try:
            with open(self.file, "rb") as file:
                return file.read().count(b"\n") >= count
        except FileNotFoundError:
            return False

    def test_killed_in_a_row(self):
        """The file as a kill at each place within the header, the first and the last row could leave it: a part of them."""
        self.call(self.sweep("--suite"))
        with open(self.file, "rb") as file:
            whole = file.read()
        ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
        for begin, end in ((0, ends[0]), (ends[0], ends[1]), (ends[-2], ends[-1])):
            for cut in (begin + 1, (begin + end) // 2, end - 1):
                with open(self.file, "wb") as file:
                    file.write(whole[:cut])
                self.check_resumed(whole[:begin], 1)

    def test_resumed_with_other_options(self):
        self.call(self.sweep("--suite"))
        self.assertIn("a different grid", self.call(self.sweep("--suite", "--resume", grid="sm=3"), 2).stderr)
        self.assertIn("a different protocol", self.call(self.sweep("--suite", "--resume", "--soak", "0.3"), 2).stderr)
        self.assertIn("exists already", self.call(self.sweep("--suite"), 1).stderr)
        os.remove(self.file + ".json")
        self.assertIn("missing", self.call(self.sweep("--suite", "--resume"), 1).stderr)

    def test_clocks_are_put_back(self):
        """By a sweep that is told to end, and by lulld for one that is killed."""
        truth = self.path("truth.json")
        for number, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            script = [sys.executable, os.path.abspath(__file__), LULL, LULLD, "--inside",
                      self.directory, str(int(number))]
            done = self.call(self.emulated(*script, truth=truth, scale=5))
            self.assertEqual(json.loads(done.stdout)["status"], status)
            self.assertTrue(json.loads(done.stdout)["was_locked"])
            with open(truth, encoding="utf-8") as file:
                self.assertFalse(json.load(file)["gpus"][0]["is_locked"])
            os.remove(self.file)


def end_inside(directory, number):
    """A sweep through lulld, which is ended while it holds a low clock."""
    run = os.path.join(directory, "lulld")
    file = os.path.join(directory, "rows.csv")
    daemon = subprocess.Popen([LULLD, "--runtime-dir", run], stdin=subprocess.DEVNULL)
    host.wait_for(lambda: os.path.exists(os.path.join(run, "lulld.sock")), 10)
    command = [LULL, "sweep", "--runtime-dir", run, "--output", file, "--suite", "--grid", "sm=135/150/165/180/195", *QUICK]
    sweep = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def lock():
        status = subprocess.run([LULL, "gpus", "--json"], capture_output=True, text=True, check=False)
        gpus = json.loads(status.stdout)["gpus"] if status.returncode == 0 else []
        return bool(gpus) and gpus[0]["sm_clock_mhz"] < 200 and "idle" not in gpus[0]["reasons"]

    try:
        was_locked = host.wait_for(lock, 20) is not None
    finally:
        sweep.send_signal(number)
        status = sweep.wait()
        time.sleep(1.0)
        daemon.terminate()
        daemon.wait()
    print(json.dumps({"status": status, "was_locked": was_locked}))


class Commands(Case):
    def test_a_run_is_a_launch(self):
        """A command that takes 0.1 s, which are 2 s of the node; there is nothing on the GPU, so idle power."""
        self.call(self.sweep("--", "sleep", "0.1", grid="sm=1"))
        rows = self.rows()
        self.assertEqual([len(rows), rows[0]["kernel"], rows[0]["arg"], rows[0]["suite"]], [1, "sleep", "0.1", "command"])
        self.assertEqual(rows[0]["launches"], str(round(float(rows[0]["window_s"]) / float(rows[0]["time_ms"]) * 1e3)))
        self.assertGreaterEqual(float(rows[0]["time_ms"]), 2000)
        self.assertAlmostEqual(float(rows[0]["power_w"]), 40, delta=4)

    def test_launches_that_it_tells(self):
        self.call(self.sweep("--", "sh", "-c", 'echo "40 2.0" >$LULL_SWEEP_LAUNCHES; sleep 0.05', grid="sm=1"))
        row = self.rows()[0]
        self.assertEqual([float(row["time_ms"]), int(row["launches"]) % 40], [50, 0])

    def test_what_goes_wrong(self):
        done = self.call(self.sweep("--", "sh", "-c", "exit 7", grid="sm=1"), 1)
        self.assertIn("status 7", done.stderr)
        done = self.call(self.sweep("--", "sh", "-c", 'echo many >$LULL_SWEEP_LAUNCHES', "--resume"), 1)
        done = self.call(self.sweep("--resume", "--", "sh", "-c", 'echo many >$LULL_SWEEP_LAUNCHES', grid="sm=1"), 2)
        self.assertIn("a different command", done.stderr)
        os.remove(self.file)
        done = self.call(self.sweep("--", "sh", "-c", 'echo many >$LULL_SWEEP_LAUNCHES', grid="sm=1"), 2)
        self.assertIn("LAUNCHES SECONDS", done.stderr)
        os.remove(self.file)
        self.assertIn("nothing-here", self.call(self.sweep("--", "/nothing-here", grid="sm=1"), 1).stderr)


class Files(Case):
    HEADER = ("gpu,gpu_uuid_hash,suite,kernel,arg,sm_set_mhz,mem_set_mhz,limit_set_w,sm_mhz,sm_mhz_min,sm_mhz_max,mem_mhz,"
              "launches,time_ms,time_sd_ms,power_w,power_sd_w,energy_j,energy_source,window_s,temp_c,reasons,repeat,"
              "order,t_begin_s,valid,invalid_reason")

    def write(self, *rows):
        """Rows of (kernel, MHz, ms, W[, reason]); the sidecar fits."""
        with open(self.file, "w", encoding="ascii") as file:
            print(self.HEADER, file=file)
            for i, (kernel, mhz, ms, watts, *reason) in enumerate(rows):
                print(f"G,00ff,s,{kernel},,{mhz},877,300,{mhz},{mhz},{mhz},877,100,{ms},0,{watts},1,{2 * watts},counter,2,"
                      f"50,0,0,{i},{i},{int(not reason)},{''.join(reason)}", file=file)
        with open(self.file + ".json", "w", encoding="ascii") as file:
            json.dump({"schema": "lull-sweep-1", "rows": len(rows), "gpu": {"uuid_hash": "00ff"}}, file)

    def findings(self, *rows, status=1):
        self.write(*rows)
        return json.loads(self.call([LULL, "sweep", "--validate", "--json", self.file], status).stdout)["findings"]

    def test_findings(self):
        self.assertEqual(self.findings(("k", 500, 20, 100), ("k", 1000, 11, 150), status=0), [])
        self.assertIn("slower at 1000 MHz", self.findings(("k", 500, 20, 100), ("k", 1000, 20.7, 150))[0])
        self.assertEqual(self.findings(("k", 500, 20, 100), ("k", 1000, 20.5, 150), status=0), [])
        self.assertIn("draws less", self.findings(("k", 500, 20, 100), ("k", 1000, 11, 96))[0])
        self.assertIn("500 MHz was not in force", self.findings(("k", 500, 20.7, 100), ("k", 1000, 10, 150))[0])
        # What is marked is known already.
        self.assertEqual(self.findings(("k", 500, 20.7, 100, "clock"), ("k", 1000, 10, 150), status=0), [])

    def test_sidecar(self):
        self.write(("k", 500, 20, 100))
        os.remove(self.file + ".json")
        self.assertIn("sidecar", self.call([LULL, "sweep", "--validate", self.file], 1).stdout)
        self.write(("k", 500, 20, 100))
        with open(self.file + ".json", "w", encoding="ascii") as file:
            json.dump({"schema": "lull-sweep-1", "rows": 2, "gpu": {"uuid_hash": "11"}}, file)
        found = self.call([LULL, "sweep", "--validate", self.file], 1).stdout
        self.assertIn("describes 2 rows", found)
        self.assertIn("does not describe GPU 00ff", found)

    def test_bad_tables(self):
        for text, what in (("gpu\n", "missing column"), (self.HEADER + "\nG,1,s,k\n", "fewer"), ("", "empty")):
            with open(self.file, "w", encoding="ascii") as file:
                file.write(text)
            self.assertIn(what, self.call([LULL, "sweep", "--validate", self.file], 2).stderr)
        self.write(("k", 500, 20, 100, "no such reason"))
        self.assertIn("lull-sweep(1)", self.call([LULL, "sweep", "--validate", self.file], 2).stderr)

    def test_merge(self):
        self.write(("k", 500, 20, 100))
        os.rename(self.file, self.path("a.csv"))
        os.rename(self.file + ".json", self.path("a.csv.json"))
        self.write(("k", 1000, 11, 150))
        self.call([LULL, "sweep", "--merge", self.path("all.csv"), self.path("a.csv"), self.file])
        self.assertEqual([row["sm_set_mhz"] for row in self.rows(self.path("all.csv"))], ["500", "1000"])
        self.assertIn("nothing is wrong", self.call([LULL, "sweep", "--validate", self.path("all.csv")]).stdout)

    def test_repeats_are_one_row_for_models(self):
        points = [("k", mhz, 1e4 / mhz * noise, mhz / 10 * noise) for mhz in (500, 700, 900, 1000) for noise in (0.9, 1.1)]
        self.write(*points, ("k", 700, 99, 7, "noise"))
        found = json.loads(self.call([LULL, "model", "evaluate", "--json", self.file]).stdout)["sets"][0]
        self.assertEqual([found["points"], found["kernels"]], [4, 1])
        self.assertLess(found["time_mape_heldout_ratio"], 0.02)


class Usage(Case):
    def test_mistakes(self):
        for arguments, what in ((["--output", "x"], "give a command"), (["--suite"], "--output FILE.csv"),
                                (["--suite", "--output", "x", "--grid", "sm=1,clock=2"], "clock"),
                                (["--suite", "--output", "x", "--grid", "limit=auto"], "limit"),
                                (["--suite", "--output", "x", "--window", "5", "--window-most", "4"], "less than"),
                                (["--plot", "x"], "--output DIR"), (["--merge", "x"], "at least one"),
                                (["--validate", "--plot", "x"], "take no command")):
            self.assertIn(what, self.call([LULL, "sweep", *arguments], 2).stderr)

    def test_grids(self):
        for grid, what in (("sm=1531/900", "no SM clock of 1531"), ("mem=500/877", "memory clock"),
                           ("limit=500/300", "can be set from"), ("sm=0", "sm"), ("sm=/", "sm")):
            status = 4 if "mem" in grid else 2
            self.assertIn(what, self.call(self.sweep("--suite", grid=grid), status).stderr)
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    if sys.argv[3:4] == ["--inside"]:
        end_inside(sys.argv[4], int(sys.argv[5]))
        sys.exit(0)
    if os.geteuid() != 0:
        print("skipped: setting clocks without a daemon needs root")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
