# SPDX-License-Identifier: Apache-2.0
"""The interface of Zeus: its own example, its own monitor beside ours in one run, and the choice of a power limit.

usage: test_zeus.py LULL LIBLULL WINDOW_JOB"""
import csv
import math
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest

import case
import host
import lull

JOB = os.path.abspath(sys.argv.pop(1))
HERE = os.path.abspath(__file__)

# Runs the example of Zeus's documentation on both monitors at once and prints their figures. Zeus wants a framework to
# wait for; this one has nothing to wait for. The example's work is 5 s of sleep: here it is four times as long, since
# Zeus's figure depends on when the counter was refreshed last, by up to 0.1 s at both edges.
BOTH = """
import sys, textwrap, time, types
sys.path.insert(0, {packages!r})
import zeus.monitor
import lull.zeus
cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, synchronize=lambda device: None)
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)

class Both:
    def __init__(self, *arguments, **keywords):
        self.theirs = zeus.monitor.ZeusMonitor(*arguments, **keywords)
        self.ours = lull.zeus.ZeusMonitor(*arguments, **keywords)

    def begin_window(self, name):
        self.theirs.begin_window(name)
        self.ours.begin_window(name)

    def end_window(self, name):
        ours, theirs = self.ours.end_window(name), self.theirs.end_window(name)
        print("both", ours.time, theirs.time)
        for gpu, joules in theirs.gpu_energy.items():
            print("both", gpu, ours.gpu_energy[gpu], joules, ours.gpu_uncertainty[gpu])
        return ours

sleep = time.sleep
time.sleep = lambda seconds: sleep(4 * seconds)
example = textwrap.dedent(zeus.monitor.ZeusMonitor.__doc__.split("```python")[1].split("```")[0])
assert "from zeus.monitor import ZeusMonitor" in example
exec(example.replace("from zeus.monitor import ZeusMonitor", "ZeusMonitor = Both"), {{"__name__": "__main__", "Both": Both}})
"""

# The same example as a program, unchanged but for its import.
ALONE = """
import sys, textwrap
sys.path.insert(0, {packages!r})
import zeus.monitor
example = textwrap.dedent(zeus.monitor.ZeusMonitor.__doc__.split("```python")[1].split("```")[0])
print(example.replace("from zeus.monitor import", "from lull.zeus import"))
"""


def packages_with_zeus():
    host.find_packages()
    for path in sys.path:
        if os.path.isdir(os.path.join(path, "zeus", "monitor")):
            return path
    raise unittest.SkipTest("no zeus of ml-energy; tools/install-deps installs it")


class Example(unittest.TestCase):
    def test_unchanged_but_for_its_import(self):
        code = ALONE.format(packages=packages_with_zeus())
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = case.in_node(sys.executable, "-c", done.stdout, node="4xA100")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual([line.split(" consumed ")[0] for line in lines],
                         ["Training", "GPU 0", "GPU 1", "GPU 2", "GPU 3"])
        total, *gpus = (float(line.split()[-2]) for line in lines)
        self.assertAlmostEqual(total, sum(gpus))
        self.assertTrue(all(5 * 40 < joules < 5 * 100 for joules in gpus), gpus)  # idle A100s, 5 s

    def test_energies_are_those_of_zeus(self):
        code = BOTH.format(packages=packages_with_zeus())
        load = (f"'{JOB}' 0 30 900 100 >/dev/null & first=$!; '{JOB}' 1 30 600 300 >/dev/null & second=$!; "
                "trap 'kill $first $second' EXIT; sleep 2; \"$0\" -c \"$1\"")
        # A late host puts time between the edges of the two monitors.
        done = host.run_on_time(lambda: case.in_node("sh", "-c", load, sys.executable, code, node="4xA100"),
                                lambda done: self.largest_difference(done) < 0.01)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[float(word) for word in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("both")]
        (times, *gpus) = rows
        print("gpu, joules of lull and of zeus, uncertainty:", *gpus, sep="\n  ", file=sys.stderr)
        self.assertAlmostEqual(times[0], times[1], delta=0.01 * times[1])
        self.assertEqual(len(gpus), 4)
        for _, ours, theirs, uncertainty in gpus:
            self.assertAlmostEqual(ours, theirs, delta=0.01 * theirs)
            self.assertLess(uncertainty, 0.02 * ours)

    @staticmethod
    def largest_difference(done):
        rows = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("both")]
        return max((abs(float(row[0]) / float(row[1]) - 1) for row in rows[1:]), default=1.0)


class Monitor(unittest.TestCase):
    """On the node of this test: two idle A100."""

    def setUp(self):
        from lull.zeus import ZeusMonitor
        self.folder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.folder.cleanup)
        self.log = os.path.join(self.folder.name, "new", "log.csv")
        self.monitor = ZeusMonitor([1, 0], log_file=self.log)
        self.addCleanup(self.monitor._meter.close)

    def test_windows_nest_and_overlap(self):
        self.monitor.begin_window("a")
        self.monitor.begin_window("b")
        time.sleep(1.2)
        first = self.monitor.end_window("a", sync_execution=False)
        time.sleep(1.2)
        second = self.monitor.end_window("b")
        self.assertEqual(list(first.gpu_energy), [1, 0])
        self.assertAlmostEqual(first.total_energy, sum(first.gpu_energy.values()))
        self.assertTrue(1.2 <= first.time < second.time)
        for measurement in (first, second):
            for gpu, joules in measurement.gpu_energy.items():
                self.assertTrue(40 < joules / measurement.time < 100, measurement)
                self.assertGreater(measurement.gpu_uncertainty[gpu], 0)
        with open(self.log, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["window_name"] for row in rows], ["a", "b"])
        self.assertEqual(list(rows[0]), ["start_time", "window_name", "elapsed_time", "gpu1_energy", "gpu0_energy"])
        self.assertEqual(float(rows[1]["gpu0_energy"]), second.gpu_energy[0])
        self.assertAlmostEqual(float(rows[1]["start_time"]), time.time(), delta=600)

    def test_a_short_window_is_not_zero(self):
        self.monitor.begin_window("a")
        self.assertTrue(all(joules > 0 for joules in self.monitor.end_window("a").gpu_energy.values()))

    def test_keys(self):
        with self.assertRaisesRegex(ValueError, "does not exist"):
            self.monitor.end_window("a")
        self.monitor.begin_window("a")
        with self.assertRaisesRegex(ValueError, "already exists"):
            self.monitor.begin_window("a")
        self.monitor.begin_window("a", restart=True)
        cancelled = self.monitor.end_window("a", cancel=True)
        self.assertEqual((cancelled.time, cancelled.gpu_energy), (0.0, {1: 0.0, 0: 0.0}))
        self.monitor.begin_window("a")
        self.monitor.reset_windows()
        with self.assertRaises(ValueError):
            self.monitor.end_window("a")

    def test_the_order_of_visible_devices(self):
        code = ("from lull.zeus import ZeusMonitor\n"
                "m = ZeusMonitor(); print(m.gpu_indices, [gpu['index'] for gpu in m._meter.greeting['gpus']])")
        done = case.in_node(sys.executable, "-c", code, node="4xA100", CUDA_VISIBLE_DEVICES="3,1")
        self.assertEqual(done.stdout, "[0, 1] [3, 1]\n", done.stderr)

    def test_arguments(self):
        from lull.zeus import ZeusMonitor
        with self.assertRaisesRegex(ValueError, "2 GPUs"):
            ZeusMonitor([2])
        with self.assertRaisesRegex(NotImplementedError, "as one"):
            ZeusMonitor(cpu_indices=[0, 1])
        with self.assertRaises(ValueError):
            ZeusMonitor(sync_execution_with="tensorflow")

    def test_processors_and_memory(self):
        for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram")):
            os.mkdir(os.path.join(self.folder.name, zone))
            for file, text in (("name", name), ("energy_uj", "5000000"), ("max_energy_range_uj", "262143328850")):
                with open(os.path.join(self.folder.name, zone, file), "w", encoding="utf-8") as out:
                    out.write(text + "\n")
        code = ("import time\nfrom lull.zeus import ZeusMonitor\n"
                "for cpus in (None, []):\n"
                "    m = ZeusMonitor(cpu_indices=cpus); m.begin_window('a'); time.sleep(0.2); r = m.end_window('a')\n"
                "    print(r.cpu_energy, r.dram_energy)")
        done = case.in_node(sys.executable, "-c", code, LULL_POWERCAP=self.folder.name)
        self.assertEqual(done.stdout, "{0: 0.0} {0: 0.0}\nNone None\n", done.stderr)
        code = "from lull.zeus import ZeusMonitor\nZeusMonitor(cpu_indices=[0])"
        done = case.in_node(sys.executable, "-c", code, LULL_POWERCAP="/nowhere/at/all")
        self.assertIn("RuntimeError: processors cannot be measured: /nowhere/at/all", done.stderr)

    def test_waits_for_the_work_of_torch(self):
        waited = []
        cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, synchronize=waited.append)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        try:
            self.monitor.begin_window("a")
            self.monitor.end_window("a")
            self.monitor.begin_window("a", sync_execution=False)
            self.monitor.end_window("a", sync_execution=False)
        finally:
            del sys.modules["torch"]
        self.assertEqual(waited, [1, 0, 1, 0])


class Faults(unittest.TestCase):
    CODE = ("import time, warnings\nfrom lull.zeus import ZeusMonitor\n"
            "m = ZeusMonitor({arguments}); m.begin_window('a'); time.sleep({seconds}); r = m.end_window('a')\n"
            "print(r.total_energy, r.time, sorted(set(r.reasons.values())))")

    def run_with(self, fault=None, seconds=0.1, arguments="", **variables):
        code = self.CODE.format(seconds=seconds, arguments=arguments)
        words = ["--fault", fault] if fault else []
        done = subprocess.run([case.LULL, "emulate", *words, "2xA100", "--", sys.executable, "-c", code],
                              env=dict(os.environ, **variables), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        total, taken, reasons = done.stdout.split(maxsplit=2)
        self.assertGreaterEqual(float(taken), seconds)
        return float(total), float(taken), reasons, done.stderr

    def test_without_a_driver(self):
        total, _, reasons, err = self.run_with(arguments="[0]", LULL_NVML="/nowhere", LULL_VENDOR="nvidia")
        self.assertTrue(math.isnan(total))
        self.assertIn("/nowhere", reasons)
        self.assertEqual(err.count("measures nothing"), 1)

    def test_a_driver_that_hangs(self):
        total, _, reasons, _ = self.run_with("read_hang_ms=60000x1@30", seconds=3)
        self.assertTrue(math.isnan(total))
        self.assertIn("does not respond", reasons)

    def test_gpus_without_a_counter(self):
        total, taken, reasons, _ = self.run_with("no_energy", seconds=2)
        self.assertTrue(2 * 40 < total / taken < 2 * 100, (total, taken))
        self.assertEqual(reasons.strip(), "[]")

    def test_a_counter_that_starts_again(self):
        total, taken, reasons, _ = self.run_with("energy_wrap_j=100", seconds=3)  # Zeus: negative
        self.assertTrue(math.isnan(total) or 2 * 40 < total / taken < 2 * 100, (total, taken, reasons))

    def test_a_child_of_fork_has_no_figures_and_does_not_disturb(self):
        code = ("import os, warnings\nfrom lull.zeus import ZeusMonitor\nwarnings.simplefilter('ignore')\n"
                "m = ZeusMonitor([0]); m.begin_window('a')\n"
                "if os.fork() == 0:\n"
                "    print(m.end_window('a').reasons, flush=True); os._exit(0)\n"
                "os.wait(); print(m.end_window('a').total_energy > 0)")
        done = case.in_node(sys.executable, "-c", code)
        self.assertEqual(done.stdout.splitlines()[0],
                         "{0: 'this process is a fork of the one that began the measurement'}", done.stderr)
        self.assertEqual(done.stdout.splitlines()[1], "True")


class Selectors(unittest.TestCase):
    def test_choices(self):
        from lull.zeus import Energy, MaxSlowdownConstraint, PowerLimitMeasurement, Time, ZeusCost
        measured = [PowerLimitMeasurement(300, 3000, 10.0), PowerLimitMeasurement(250, 2600, 10.4),
                    PowerLimitMeasurement(200, 2650, 10.5), PowerLimitMeasurement(150, 2400, 14.0)]
        self.assertEqual(Energy().select(measured), 150)
        self.assertEqual(Time().select(measured), 300)
        for eta in (0.0, 0.3, 0.5, 1.0):
            for world in (1, 4):
                costs = [(eta * m.energy + (1 - eta) * 300 * world * m.time, -m.power_limit) for m in measured]
                self.assertEqual(ZeusCost(eta, world).select(measured), -min(costs)[1])
        self.assertEqual(MaxSlowdownConstraint(1.05).select(measured), 250)  # Zeus: 200, which takes more energy
        self.assertEqual(MaxSlowdownConstraint(1.0).select(measured), 300)
        for wrong in (lambda: ZeusCost(1.1), lambda: ZeusCost(0.5, 0), lambda: MaxSlowdownConstraint(0.9)):
            with self.assertRaises(ValueError):
                wrong()

    def test_what_has_no_equivalent_names_the_alternative(self):
        with self.assertRaisesRegex(NotImplementedError, "lull serve"):
            from lull.zeus import PowerMonitor  # noqa: F401
        with self.assertRaises(ImportError):
            from lull.zeus import Nonsense  # noqa: F401


class Limits(unittest.TestCase):
    """The optimizer on the node of this test, as root without lulld."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("not root, and no lulld runs here")
        self.directory = host.Directory()
        self.addCleanup(self.directory.cleanup)
        os.environ["LULL_RUNTIME_DIR"] = self.directory.name

    def limit_w(self):
        return lull.devices()[1].power_limit_w

    class Monitor:
        """Windows that cost what the limit says: least at 300 W."""
        gpu_indices = [1]
        costs = {400: (100.0, 1.0), 300: (80.0, 1.1), 200: (90.0, 2.0), 100: (95.0, 4.0)}

        def __init__(self):
            self.open, self.pieces = [], []

        def begin_window(self, key):
            self.open.append(key)

        def end_window(self, key):
            self.open.remove(key)
            limit = int(key.rsplit("_", 1)[1])
            self.pieces.append(limit)
            energy, seconds = self.costs[limit]
            return lull.zeus.Measurement(seconds, {1: energy})

    def train(self, optimizer, epochs):
        """Steps of these epochs, by their lengths; the limit at each step."""
        seen = []
        for steps in epochs:
            for _ in range(steps):
                optimizer.on_step_begin()
                seen.append(self.limit_w())
            optimizer.on_epoch_end()
        return seen

    def test_each_limit_is_measured_and_the_best_stays(self):
        from lull.zeus import Energy, GlobalPowerLimitOptimizer
        monitor, path = self.Monitor(), os.path.join(self.directory.name, "profile.json")
        optimizer = GlobalPowerLimitOptimizer(monitor, Energy(), wait_steps=1, warmup_steps=1, profile_steps=2, pl_step=100,
                                              profile_path=path)
        self.assertEqual(optimizer.power_limits, [400, 300, 200, 100])
        # Two steps of waiting; then at each limit one of warming up, and two that are measured.
        seen = self.train(optimizer, [16])
        self.assertEqual(seen, [400] * 4 + [300] * 3 + [200] * 3 + [100] * 3 + [300] * 3)
        self.assertEqual((monitor.open, monitor.pieces), ([], [400, 300, 200, 100]))
        self.assertEqual(optimizer.optimal_power_limit, 300)
        self.assertEqual(lull.devices()[0].power_limit_w, 400)  # not one of the monitor's
        optimizer._lines.close()
        self.assertTrue(host.wait_for(lambda: self.limit_w() == 400, 5))
        again = GlobalPowerLimitOptimizer(self.Monitor(), profile_path=path)
        self.addCleanup(again._lines.close)
        self.assertEqual((again.optimal_power_limit, self.limit_w()), (400, 400))  # by cost

    def test_short_epochs_add_up(self):
        from lull.zeus import Energy, GlobalPowerLimitOptimizer
        monitor = self.Monitor()
        optimizer = GlobalPowerLimitOptimizer(monitor, Energy(), wait_steps=0, warmup_steps=0, profile_steps=4, pl_step=300)
        self.addCleanup(optimizer._lines.close)
        seen = self.train(optimizer, [3, 3, 3, 3])  # Zeus would try the first limit forever
        # Four steps at each limit, the last of an epoch included: 3 + 1, then 2 + 2.
        self.assertEqual(seen, [400] * 4 + [100] * 8)
        self.assertEqual(monitor.pieces, [400, 400, 100, 100])
        self.assertEqual([m.power_limit for m in optimizer.measurements], [400, 100])
        self.assertEqual(optimizer.measurements[0].energy, 200.0)

    def test_a_killed_program_leaves_no_limit_behind(self):
        code = ("import time\nfrom lull.zeus import ZeusMonitor, GlobalPowerLimitOptimizer\n"
                "o = GlobalPowerLimitOptimizer(ZeusMonitor([1]), wait_steps=0, warmup_steps=50, pl_step=300)\n"
                "o._set(150); print('set', flush=True); time.sleep(60)")
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), b"set\n")
        self.assertEqual(self.limit_w(), 150)
        program.kill()
        program.wait()
        program.stdout.close()
        self.assertIsNotNone(host.wait_for(lambda: self.limit_w() == 400, 5))

    def test_a_run_of_lull_pauses_for_it(self):
        """`lull run` owns the driver from its start, and does again once the optimizer has ended."""
        code = ("import lull, os, subprocess\nfrom lull.zeus import ZeusMonitor, GlobalPowerLimitOptimizer\n"
                "def another():\n"
                "    return subprocess.run(['lull', 'limit', 'hold', '--no-daemon'], stdin=subprocess.DEVNULL, env=alone,\n"
                "                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
                "alone = {name: value for name, value in os.environ.items() if name != 'LULL_JOB'}\n"
                "before = another()\n"
                "o = GlobalPowerLimitOptimizer(ZeusMonitor([1]), wait_steps=0, warmup_steps=50, pl_step=300)\n"
                "o._set(150); print(before, lull.devices()[1].power_limit_w)")
        report = os.path.join(self.directory.name, "report")
        run = subprocess.run(["lull", "run", "-q", "--no-daemon", "--report", report, "--", sys.executable, "-c", code],
                             capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, "1 150.0\n"), run)
        self.assertIn("by the job to set power limits itself", run.stderr)
        self.assertEqual(self.limit_w(), 400)


if __name__ == "__main__":
    unittest.main(verbosity=2)
