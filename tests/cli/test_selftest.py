#!/usr/bin/env python3
"""`lull selftest` on the emulated node: its archive, what it removes, its record of NVML, and the emulated node against the records of real
GPUs in data/dumps.

Usage: test_selftest.py LULL SOURCE SCRIPTS    SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
LULL, SOURCE, SCRIPTS = sys.argv[1:4]
sys.path.insert(0, SCRIPTS)
import dump_case  # pylint: disable=wrong-import-position
import job  # pylint: disable=wrong-import-position
import nvml_dump  # pylint: disable=wrong-import-position
from archive import Archive  # pylint: disable=wrong-import-position
from scrub import Scrubber  # pylint: disable=wrong-import-position

DUMPS = os.path.join(SOURCE, "data", "dumps")
PLANTED_USER, PLANTED_HOST = "zaphod.b", "heartofgold"
PLANTED = [PLANTED_USER, "10.77.66.55", "secret-project"]
SETTER = re.compile(r"(?<!Gpu)Set[A-Z]|Clear|Reset|Create|Destroy|Modify|Freeze|Inject|Remove")


def emulate(spec, *words, driver=None, fault=None, **variables):
    options = ([f"--driver={driver}"] if driver else []) + ([f"--fault={fault}"] if fault else [])
    return subprocess.run([LULL, "emulate", *options, "--seed", "0", spec, "--", *words], capture_output=True, text=True, check=False,
                          env=dict(os.environ, **variables), timeout=240)


def record_of(spec, driver=None, fault=None, call_s=None):
    """The record of an emulated node, without identities."""
    done = emulate(spec, sys.executable, os.path.abspath(__file__), LULL, SOURCE, SCRIPTS, "inside", str(call_s or nvml_dump.CALL_S),
                   driver=driver, fault=fault)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def codes(record, name):
    return {result["code"] for result in record["functions"][name]}


class Run(unittest.TestCase):
    """One run with all steps that an emulated node has."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="lull-selftest-")
        cls.addClassCleanup(holder.cleanup)
        # The daemon's folder is in messages of lull doctor.
        cls.runtime = os.path.join(holder.name, *PLANTED)
        os.makedirs(cls.runtime)
        cls.path = os.path.join(cls.runtime, "out.tar.gz")
        cls.node = emulate("2xA100-SXM4-40GB", "sh", "-c", f'"{LULL}" gpus --json > "{holder.name}/gpus.json"; exec "$@"', "sh", LULL, "selftest",
                           "--quick", "--set-clocks", "--no-daemon", "--json", f"--output={cls.path}", LULL_RUNTIME_DIR=cls.runtime,
                           SUDO_USER=PLANTED_USER)
        assert cls.node.returncode == 0, cls.node.stderr
        cls.summary = json.loads(cls.node.stdout)
        with open(os.path.join(holder.name, "gpus.json"), encoding="utf-8") as file:
            cls.gpus = json.load(file)["gpus"]
        with tarfile.open(cls.path) as archive:
            cls.members = archive.getmembers()
            cls.files = {os.path.basename(member.name): archive.extractfile(member).read().decode() for member in cls.members}

    def test_each_step_is_reported(self):
        found = {name: step["result"] for name, step in self.summary["steps"].items()}
        passed = {name for name, result in found.items() if result == "passed"}
        self.assertEqual(passed, {"dump", "machine", "doctor", "nvml", "plugin", "markers", "sweep", "compare"}, self.node.stderr)
        self.assertEqual({name for name in found if name not in passed}, {"window", "window_aside", "torch_ranks", "kernels", "job"})
        self.assertTrue(all(self.summary["steps"][name].get("reason") for name in found if name not in passed))
        self.assertNotIn("failed", found.values())

    def test_the_archive_has_each_file(self):
        self.assertEqual(set(self.files), {"nvml.json", "gpus.json", "machine.json", "doctor.json", "run.txt", "report.json", "sweep-compute.txt",
                                           "sweep-compute.csv", "sweep-compute.csv.json", "selftest.json", "removed.json"})
        for name in (name for name in self.files if name.endswith(".json")):
            json.loads(self.files[name])
        self.assertEqual(json.loads(self.files["report.json"])["gpus"][0]["name"], "NVIDIA A100-SXM4-40GB")
        self.assertIn("1410", self.files["sweep-compute.csv"])

    def test_nothing_personal_is_in_it(self):
        text = "\n".join(self.files.values())
        identities = [gpu["uuid"].split("-", 1)[1] for gpu in self.gpus]
        host = os.uname().nodename
        for word in [*PLANTED, *identities, tempfile.gettempdir() + "/", *([host] if host != "localhost" else [])]:
            self.assertIsNone(re.search(rf"(?<!\w){re.escape(word)}", text), word)
        self.assertEqual({(member.uname, member.gname, member.uid, member.mtime) for member in self.members}, {("", "", 0, 0)})
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(10)[3:8], bytes(5))  # no file name and no time in gzip's header

    def test_the_removed_is_listed(self):
        removed = json.loads(self.files["removed.json"])
        self.assertEqual(removed, self.summary["removed"])
        for kind in ("UUID", "path", "serial number", "command line", "process"):
            self.assertGreater(removed[kind], 0, removed)
            self.assertIn(kind, self.node.stderr)
        self.assertIn("To send it", self.node.stderr)


class Options(unittest.TestCase):
    def test_without_set_clocks_nothing_is_set(self):
        """Every set call would fail here, and be counted as a failed step."""
        with tempfile.TemporaryDirectory(prefix="lull-selftest-") as place:
            done = emulate("1xA40", "sh", "-c", f'"{LULL}" selftest --quick --quiet --json --output="{place}/a.tar.gz"',
                           fault="set_code=999")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            steps = json.loads(done.stdout)["steps"]
        for name in ("sweep", "compare"):
            self.assertEqual((steps[name]["result"], steps[name]["reason"]), ("skipped", "it sets clocks: give --set-clocks"))

    def test_without_a_gpu_there_is_no_archive(self):
        with tempfile.TemporaryDirectory(prefix="lull-selftest-") as place:
            done = emulate("1xMI300X", LULL, "selftest", "--quick", f"--output={place}/a.tar.gz")
            self.assertEqual((done.returncode, os.listdir(place)), (4, []), done.stderr)
        self.assertIn("no NVIDIA GPU", done.stderr)


    def test_python_is_needed(self):
        done = subprocess.run([LULL, "selftest"], capture_output=True, text=True, check=False, env={"PATH": "/nonexistent"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("install Python 3.8 or newer", done.stderr)


class Removal(unittest.TestCase):
    def test_each_kind(self):
        scrubber = Scrubber({PLANTED_USER: "user name", PLANTED_HOST: "host name"})
        for text, wanted in (
                ("GPU-08b4fda8-c892-b50e-44e5-b98100c67fb0", "GPU-<UUID>"), (f"{PLANTED_USER}@{PLANTED_HOST}", "<user name>@<host name>"),
                ("at 192.168.7.1:80, fe80::1%eth0 and 02:42:ac:11:00:02", "at <address>:80, <address>%eth0 and <address>"),
                ("who@example.org http://x.example/y", "<address> <address>"),
                ("in /home/x/y.json and ~/z: gone", "in <path> and <path> gone"),
                (f"/sys/class/powercap and /dev/nvidia0 on {PLANTED_HOST}.", "/sys/class/powercap and /dev/nvidia0 on <host name>.")):
            self.assertEqual(scrubber.text(text), wanted)
        self.assertEqual(scrubber.document({"uuid": "x1y2", "pid": 7, "serial": "0", "pods": ["x1y2"]}),
                         {"uuid": "<UUID>", "pid": "<process>", "serial": "0", "pods": ["<UUID>"]})
        scrubber.document({"serial": "1654922006540"})
        self.assertEqual(scrubber.text("board 1654922006540"), "board <serial number>")

    def test_facts_stay(self):
        scrubber = Scrubber({PLANTED_HOST: "host name"})
        for text in ("NVRM version: 550.54.15", "VBIOS 96.00.74.00.01", "00000000:07:00.0", "0000:c1:00.0", "12:34:56", "5.15.0-1053-aws #58~20.04",
                     "1.5 GB/s and/or W/m", "libnvidia-ml.so.1", f"{PLANTED_HOST}en", "std::string"):
            self.assertEqual(scrubber.text(text), text)
        self.assertEqual(scrubber.removed, {})

    def test_an_archive_with_something_left_is_found(self):
        archive = Archive()
        archive.add_document("a.json", {"text": "at 10.1.2.3"})
        self.assertEqual(archive.find_left(), [])
        archive.files["b.json"] = "at 10.1.2.3"
        self.assertEqual(archive.find_left(), ["b.json (address)"])


class Record(unittest.TestCase):
    def test_the_table_is_that_of_the_header(self):
        table = nvml_dump.load_table()
        with open(os.path.join(SOURCE, "data", "nvml_functions.json"), encoding="utf-8") as file:
            header = json.load(file)
        functions = {function["name"]: function for function in header["functions"]}
        for name, words in table["functions"].items():
            self.assertIsNone(SETTER.search(name), name)
            self.assertEqual(len(words.split()), len(functions[name]["takes"].split()), name)
        known = set(table["functions"]) | set(table["not_called"])
        self.assertEqual([name for name in functions if re.search("Get[A-Z]|Query", name) and not SETTER.search(name) and name not in known], [])
        types = nvml_dump.Types(table["structs"])
        for name, word in header["structs"].items():
            if name + "_t" in table["structs"]:
                self.assertEqual(ctypes.sizeof(types.find(name + "_t")), int(word, 16) & 0xffffff, name)

    def test_values_are_those_of_the_node(self):
        record = record_of("2xH100")
        out = {name: record["functions"][name][0]["out"] for name in ("nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetSerial")}
        self.assertEqual(out["nvmlDeviceGetName"], {"name": "NVIDIA H100 80GB HBM3"})
        self.assertEqual(out["nvmlDeviceGetMemoryInfo"]["memory"]["total"] >> 30, 79)
        self.assertEqual(out["nvmlDeviceGetSerial"], {"serial": "<serial number>"})
        clocks = [result for result in record["functions"]["nvmlDeviceGetMaxClockInfo"] if result["in"] == {"type": 1}]
        self.assertEqual([(result["gpu"], result["out"]["clock"]) for result in clocks], [(0, 1980), (1, 1980)])
        total = next(result for result in record["functions"]["fields"] if result["in"] == {"id": 83})["out"]["value"]
        self.assertAlmostEqual(total, record["functions"]["nvmlDeviceGetTotalEnergyConsumption"][0]["out"]["energy"], delta=1e5)
        self.assertIn(0, codes(record, "gpm"))
        self.assertEqual((record["unknown"], record["unfinished"]), ([], {}))
        self.assertIn("nvmlDeviceSetGpuLockedClocks", record["exported"])
        self.assertIn("nvmlSystemGetProcessName", record["not_called"])

    def test_an_older_driver_has_fewer_functions(self):
        record = record_of("1xH100", driver="535")
        self.assertNotIn("nvmlDeviceGetTemperatureV", record["functions"])
        self.assertEqual(codes(record, "nvmlDeviceGetGpuFabricInfo"), {0})

    def test_a_call_that_hangs_is_left_out(self):
        record = record_of("1xA40", fault="call_hang_ms=nvmlDeviceGetPowerUsage/20000", call_s=1)
        self.assertEqual(record["unfinished"], {"nvmlDeviceGetPowerUsage": "it took too long"})
        self.assertIn(0, codes(record, "nvmlDeviceGetVbiosVersion"))


class FakeCuda:
    """A CUDA driver whose kernels take their time when the host waits for them."""
    LOOP_MS, COPY_GB_PER_MS = 1e-4, 1.0

    def __init__(self, _):
        self.names, self.launches, self.pending_ms = {}, [], 0.0

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: 0

    def cuDeviceGetAttribute(self, value, attribute, _):
        ctypes.cast(value, ctypes.POINTER(ctypes.c_int))[0] = 100 if attribute == 16 else 0
        return 0

    def cuModuleLoadData(self, _, image):
        assert image.value.count(b".visible .entry") == 2
        return 0

    def cuModuleGetFunction(self, function, _, name):
        self.names[len(self.names) + 1] = name
        ctypes.cast(function, ctypes.POINTER(ctypes.c_void_p))[0] = len(self.names)
        return 0

    def cuLaunchKernel(self, function, blocks, *rest):
        name, pointers = self.names[function.value], rest[7]
        last = ctypes.cast(pointers[len(pointers) - 1], ctypes.POINTER(ctypes.c_uint32 if name == b"compute" else ctypes.c_uint64))[0]
        self.launches.append((name, blocks, last))
        self.pending_ms += last * self.LOOP_MS if name == b"compute" else last * 1e-9 / self.COPY_GB_PER_MS
        return 0

    def cuCtxSynchronize(self):
        time.sleep(self.pending_ms * 1e-3)
        self.pending_ms = 0.0
        return 0


class Job(unittest.TestCase):
    """The bundled job on a driver that keeps its times."""

    def run_job(self, *words):
        cuda = FakeCuda("")
        with unittest.mock.patch.object(job.ctypes, "CDLL", lambda name: cuda if "cuda" in name else unittest.mock.DEFAULT), \
                unittest.mock.patch.object(job.sys, "argv", ["job.py", *words]), contextlib.redirect_stdout(io.StringIO()) as out, \
                unittest.mock.patch.object(job, "load_marks", lambda: (lambda: None, lambda name: None, lambda name: None)):
            self.assertEqual(job.main(), 0)
        return json.loads(out.getvalue()), cuda.launches

    def test_work_is_measured(self):
        work, launches = self.run_job("--measure")
        self.assertAlmostEqual(work["loops"] * FakeCuda.LOOP_MS, job.COMPUTE_MS, delta=job.COMPUTE_MS / 2)
        self.assertLess(work["bytes"] * 1e-9 / FakeCuda.COPY_GB_PER_MS, job.COPY_MS * 1.1)
        self.assertEqual((work["bytes"] % 16, {blocks for _, blocks, _ in launches}), (0, {800}))

    def test_iterations_do_the_work(self):
        found, launches = self.run_job("1000", "300000000", "1", "3")
        self.assertEqual([(name, amount) for name, _, amount in launches],
                         3 * [(b"compute", 1000), (b"copy", job.BUFFER_BYTES), (b"copy", 300000000 - job.BUFFER_BYTES)])
        self.assertEqual(found["iterations"], 3)
        self.assertGreater(found["iteration_ms"], 1)
        found, launches = self.run_job("0", "16", "0", "2")
        self.assertEqual([name for name, *_ in launches], [b"copy", b"copy"])


class Dumps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(DUMPS, "dumps.json"), encoding="utf-8") as file:
            cls.table = json.load(file)

    def judge(self, real, emulated, allowed=()):
        return dump_case.judge(real, emulated, self.table["readings"], allowed)

    def test_each_committed_dump(self):
        committed = {name for name in os.listdir(DUMPS) if name.endswith(".json.gz")}
        self.assertEqual(committed, set(self.table["dumps"]))
        for name, row in self.table["dumps"].items():
            with self.subTest(name):
                emulated = record_of(row["spec"], row["driver"])
                self.assertTrue(all(row["differences"].values()), "a difference has no reason")
                self.assertEqual(self.judge(dump_case.load(os.path.join(DUMPS, name)), emulated, row["differences"]), [])

    def test_a_generated_dump(self):
        """The same node has no differences to itself; each kind of difference is found, may be allowed, and is missed when it is gone."""
        emulated = record_of("2xA100-SXM4-40GB", "570")
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "a.json.gz")
            with gzip.open(path, "wt", encoding="utf-8") as file:
                json.dump(record_of("2xA100-SXM4-40GB", "570"), file)
            real = dump_case.load(path)
        self.assertEqual(self.judge(real, emulated), [])
        real["functions"]["nvmlDeviceGetFanSpeed"][0]["code"] = 0
        real["functions"]["nvmlDeviceGetNumGpuCores"][1]["out"]["numCores"] += 1
        real["functions"]["nvmlDeviceGetPowerUsage"][0]["out"]["power"] += 1000
        real["functions"]["nvmlDeviceGetUtilizationRates"][0]["out"]["more"] = 1
        real["functions"]["nvmlDeviceGetNvLinkState"].append({"gpu": 0, "in": {"link": 40}, "code": 2})
        real["exported"].remove("nvmlDeviceGetFanSpeed_v2")
        real["exported"].append("nvmlNew")
        found = ["nvmlDeviceGetFanSpeed: code 0, emulated 3", "nvmlDeviceGetFanSpeed_v2: exported by the emulation alone",
                 "nvmlDeviceGetNumGpuCores: other values", "nvmlDeviceGetNvLinkState: input not tried",
                 "nvmlDeviceGetUtilizationRates: other outputs", "nvmlNew: not exported"]
        self.assertEqual(self.judge(real, emulated), [f"new: {text}" for text in found])
        self.assertEqual(self.judge(real, emulated, found), [])
        self.assertEqual(self.judge(real, emulated, [*found, "nvmlX: other values"]), ["no longer: nvmlX: other values"])


def inside(call_s):
    nvml_dump.CALL_S = call_s
    print(json.dumps(Scrubber().record(nvml_dump.make_record(60))))


if __name__ == "__main__":
    if sys.argv[4:5] == ["inside"]:
        inside(float(sys.argv[5]))
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
