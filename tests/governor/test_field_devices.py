#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drivers and boards as people meet them: what `lull gpus` and `lull run` say of sensors that are wrong, calls that are
refused, GPUs that are away, and clocks and limits that others set.

usage: test_field_devices.py LULL LULLD LIBRARIES FOLDER [CASE...]. LIBRARIES are the emulated drivers; FOLDER is
../shared/data/field/devices, whose wrappers of them are compiled here, or absent: then its cases are skipped.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, LIBRARIES, FOLDER = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
WRAPPERS = {"S": ("LULL_NVML", "shim.c", "libnvidia-ml.so.1"), "A": ("LULL_AMD_SMI", "amd.c", "libamd_smi.so.26"),
            "Z": ("LULL_LEVEL_ZERO", "ze.c", "libze_loader.so.1")}
A100, AMD, INTEL = "2xA100", "2xMI300X", "2xMax1550"
FALSE_FIGURES = (r"longer, or use a wider", r"--tolerance 2%")
# Each case: name, GPUs, faults, wrapper and its modes, options of lull run, seconds, what must be said, what must not.
OWN = [
    ("garbage power", A100, "power_w=3700000x3@20", "", "", 8, [r"power readings dropped.*: \d", r"whole run +\d"], [r"3700000"]),
    ("power of nothing", A100, "power_w=0", "", "", 6, [r"power not known", r"whole run +\d"], [r"power 0\.0 W"]),
    ("counter a quarter", AMD, "energy_factor=0.25", "", "", 8, [r"add up to [34]\.\d\d times its energy counter", r"cost not known"],
     [r"kWh"]),
    ("counter of nothing", INTEL, "energy_stuck_j=0", "", "", 6, [r"energy and cost not known"], [r" 0\.0 \+- 0\.0", r"energy 0 J"]),
    ("counter fourfold", A100, "energy_factor=4", "", "", 8, [r"energy counter rose \d+ times by more than the GPU can draw"], [r"kWh"]),
    ("lock of others", A100, "foreign_mhz=900x1", "", "", 8, [r"another program has locked its clock at 900 MHz", r"nvidia-smi -rgc"],
     FALSE_FIGURES),
    ("limit of others", A100, "foreign_limit_w=150x1", "", "", 8, [r"GPUs 0, 1: its power limit of 150 W"], []),
    ("refused", AMD, "set_code=2", "", "", 8, [r"clocks cannot be set: not supported"], FALSE_FIGURES),
    ("power of a module", "2xH100", "module_w=150", "", "", 8,
     [r"power limit of the module 700 W", r"GPU 1: the driver reports only the power of GPU and CPU together", r"whole run +\d"],
     [r"add up to", r"can:[^\n]*power_limit", r"power \d+\.\d W"]),
    ("a GPU that is lost at first (AMD)", AMD, "0:lost_ms=600000x1", "", "", 6, [r"\n  1  AMD", r"GPU 0: .*there is no such GPU"], [r"share"]),
    ("a GPU that is lost at first (Intel)", INTEL, "0:lost_ms=600000x1", "", "", 6, [r"\n  1  Intel", r"GPU 0: .*the GPU is lost"],
     [r"share"]),
    ("limit refused", AMD, "set_code=10", "", "--power-limit 400", 6, [r"does not permit its power limit to be set"], [r" 0 W"]),
]
FIELD = [
    ("amd-cap-refused", AMD, "", "A capmin290,capbelow", "--power-limit 200", 6, [r"takes 290 to 750 W"], []),
    ("amd-cap-refused (guest)", AMD, "", "A guest", "--power-limit 400", 6, [r"does not permit"], [r"stays at"]),
    ("amd-cap-refused (huge)", AMD, "", "A caphuge", "", 6, [r"can: sm_lock, energy_counter"], [r"power_limit"]),
    ("container-999", A100, "", "S init=999", "", 4, [r"unknown error of the driver \(NVML 999\)"], FALSE_FIGURES),
    ("energy-constant", AMD, "", "A constproc", "", 6, [r"for [5-9]\.\d s its power was integrated"], []),
    ("energy-drop", A100, "", "S edrop", "", 8, [r"whole run +\d"], [r"-\d+\.\d \+-"]),
    ("energy-drop (Intel)", INTEL, "", "Z edrop", "", 8, [r"whole run +\S+ +[4-9]\d\d\d\.\d"], []),
    ("energy-quarter", A100, "", "S escale=0.25", "", 8, [r"times its energy counter", r"cost not known"], [r"kWh"]),
    ("energy-quarter (AMD)", AMD, "", "A res2", "", 8, [r"times its energy counter", r"cost not known"], [r"kWh"]),
    ("energy-reset", A100, "", "S ereset=5", "", 8, [r"its counter was reset", r"whole run +\d"], []),
    ("garbage-power", A100, "", "S garbage", "", 8, [r"power readings dropped", r"whole run +\S+ +[3-9]\d\d\d\.\d"], [r"3700000"]),
    ("gh200", "2xH100", "", "S gh200", "", 8, [r"reports only the power of GPU and CPU together", r"whole run +\d"], [r"add up to"]),
    ("ghost-utilisation", A100, "", "S ghost", "", 6, [r"whole run +\d"], []),
    ("intel-no-power-domain", INTEL, "", "Z nopower", "", 6, [r"can: sm_lock\n", r"energy and cost not known"], []),
    ("intel-no-power-domain (zero)", INTEL, "", "Z ezero", "", 6, [r"energy and cost not known"], [r"can:[^\n]*energy_counter"]),
    ("jetson", A100, "", "S jetson", "", 6, [r"reports nothing about it", r"can: -", r"do not|does not list its clocks"],
     [*FALSE_FIGURES, r"power-limit", r"memory_lock"]),
    ("laptop-limit", A100, "", "S laptop", "--power-limit 300", 6, [r"of 400 W", r"does not support setting the power limit"],
     [r" 0 W", r"can:[^\n]*power_limit"]),
    ("mig-uuid", A100, "", "CUDA_VISIBLE_DEVICES=MIG-11111111-2222-3333-4444-555555555555", "", 4, [r"a MIG slice, whose clock"], [r"unset"]),
    ("mismatch-18", A100, "", "S init=18", "", 4, [r"versions differ"], FALSE_FIGURES),
    ("no-energy", A100, "no_energy", "", "", 6, [r"whole run +\d"], []),
    ("no-lgc", A100, "", "S nolgc", "", 8, [r"clocks cannot be set: not supported"], FALSE_FIGURES),
    ("no-power", A100, "", "S nopower", "", 6, [r"energy and cost not known"], [r"kWh", r"saved \d"]),
    ("power-brake", A100, "", "S brake=4", "", 8, [r"power brake of the node's power supply held its clock"], []),
    ("power-brake (compared)", A100, "", "S brake=1", "--compare", 6, [r"left out of the comparison: heat or the power supply", r"no run-to-run bound: heat"],
     [r"slowdown of the run as a whole"]),
    ("wsl", A100, "", "S wsl", "", 8, [r"clocks cannot be set: not supported"], [*FALSE_FIGURES, r"try --power-limit"]),
    ("a GPU that is lost at first", A100, "", "S badhandle0=15", "", 6, [r"\n  1  NVIDIA", r"GPU 0: .*the GPU is lost"], [r"share"]),
    ("no-cap-sys-admin", A100, "no_permission", "", "", 8, [r"the driver does not permit its clocks to be set"], FALSE_FIGURES),
    ("a reset that is refused", A100, "", "S noreset", "", 6, [r"whole run +\d"], [r"cannot reset"]),
]


def compile_wrappers(directory):
    """The wrappers of the folder, by their letters."""
    built = {}
    for letter, (variable, source, library) in WRAPPERS.items():
        path = os.path.join(directory, f"lib{source[:-2]}.so")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, os.path.join(FOLDER, "_shim", source), "-Wl,--no-as-needed",
                        os.path.join(LIBRARIES, library), "-ldl"], check=True, timeout=60)
        built[letter] = (variable, path)
    return built


class Devices(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-devices-")
        self.addCleanup(host.remove, self.directory)
        self.wrappers = {}

    def say(self, number, case):
        """What `lull gpus` and `lull run` say."""
        _, gpus, faults, wrapper, options, seconds, _, _ = case
        place = os.path.join(self.directory, str(number))
        os.mkdir(place)
        environment = dict(os.environ, LULL_RUNTIME_DIR=os.path.join(place, "run"), LULL_STATE_DIR=os.path.join(place, "state"))
        words = []
        if wrapper[:2] in ("S ", "A ", "Z "):
            variable, path = self.wrappers[wrapper[0]]
            words = ["env", f"{variable}={path}", f"SHIM={wrapper[2:]}"]
        elif wrapper:
            words = ["env", wrapper]
        said = ""
        for command in ([LULL, "gpus"], [LULL, "run", "--no-daemon", "--verbose", *options.split(), "-o", os.path.join(place, "report"), "--", LULL,
                                         "play", "--preset", "bert-ddp", "--seconds", str(seconds)]):
            done = subprocess.run([LULL, "emulate", "--seed", "1", *(("--fault", faults) if faults else ()), gpus, "--", *words, *command],
                                  capture_output=True, text=True, check=False, timeout=170, env=environment)
            said += done.stdout + done.stderr
        return said

    def check_all(self, cases):
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(lambda pair: self.say(*pair), enumerate(cases)))
        for case, said in zip(cases, outcomes):
            with self.subTest(case[0]):
                for pattern in case[6]:
                    self.assertRegex(said, pattern)
                for pattern in case[7]:
                    self.assertNotRegex(said, pattern)

    def test_own_cases(self):
        self.check_all(OWN)

    def test_cases_of_the_field(self):
        if not os.path.isdir(os.path.join(FOLDER, "_shim")) or shutil.which("cc") is None:
            self.skipTest("../shared/data/field/devices, or cc, is absent")
        self.wrappers = compile_wrappers(self.directory)
        self.check_all(FIELD)

    def test_a_container_without_proc(self):
        """The job runs, and the warnings name /proc."""
        words = ["unshare", "--mount", "--", LULL, "emulate", "--seed", "1", A100, "--", "sh", "-c",
                 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        done = subprocess.run([*words, LULL, "run", "--no-daemon", "-o", os.path.join(self.directory, "report"), "--", "sh", "-c",
                               "exit 7"], capture_output=True, text=True, check=False, timeout=60,
                              env=dict(os.environ, LULL_RUNTIME_DIR=self.directory))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, r"not managed: /proc/sys/kernel/random/boot_id: cannot read")
        self.assertIn("/proc/self/exe cannot be read", done.stderr)
        self.assertNotIn("reinstall Lull", done.stderr)

    def test_an_old_driver(self):
        """What it lacks is off: without a reset no clock is locked, without field values no memory clock."""
        old = os.path.join(self.directory, "old.so")
        with open(os.path.join(LIBRARIES, "libnvidia-ml.so.1"), "rb") as file:
            library = file.read()
        for name in (b"nvmlDeviceResetGpuLockedClocks", b"nvmlDeviceGetFieldValues", b"nvmlDeviceGetCurrentClocksEventReasons",
                     b"nvmlDeviceGetArchitecture"):
            self.assertIn(b"\0" + name + b"\0", library)
            library = library.replace(b"\0" + name + b"\0", b"\0" + name[:-1] + b"#\0")
        with open(old, "wb") as file:
            file.write(library)
        done = subprocess.run([LULL, "emulate", "--seed", "1", A100, "--", "env", f"LULL_NVML={old}", LULL, "gpus"],
                              capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(done.stdout.count("can: power_limit, energy_counter\n"), 2, done.stdout)

    def test_lulld_serves_gpus_that_are_away_at_first(self):
        """Each keeps its number, one sentence names it, and it is served when the driver has opened it."""
        script = ('"$1" --allow-all & for i in $(seq 300); do sleep 0.2; "$0" status > "$2" && cat "$2" && '
                  'grep -q "^  0  UP" "$2" && break; done; kill $!; wait')
        for number, gpus in enumerate((A100, AMD, INTEL)):
            place = os.path.join(self.directory, f"away{number}")
            os.mkdir(place)
            done = subprocess.run([LULL, "emulate", "--fault", "0:lost_ms=2500x1", gpus, "--", "sh", "-c", script, LULL, LULLD,
                                   os.path.join(place, "status")], capture_output=True, text=True, check=False, timeout=120,
                                  env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(place, "run")))
            with self.subTest(gpus):
                self.assertRegex(done.stderr, r"warning: GPU 0: not opened: .*(lost|no such GPU)")
                self.assertRegex(done.stdout, r"\n  1  UP")
                self.assertRegex(done.stdout, r"(?s)  0  LOST  not opened: .*  0  UP  (NVIDIA|AMD|Intel)")

    def test_lulld_waits_for_a_driver_that_fails_for_an_unknown_reason(self):
        if not os.path.isdir(os.path.join(FOLDER, "_shim")) or shutil.which("cc") is None:
            self.skipTest("../shared/data/field/devices, or cc, is absent")
        variable, path = compile_wrappers(self.directory)["S"]
        for code in (18, 999):
            done = subprocess.run([LULL, "emulate", A100, "--", "env", f"{variable}={path}", f"SHIM=init={code}", "timeout", "3", LULLD,
                                   "--allow-all"], capture_output=True, text=True, check=False, timeout=60,
                                  env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.directory, f"run{code}")))
            self.assertIn("serving 0 GPUs", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
