#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Monitors of Debian on the emulated node, unmodified: nvtop and hwloc's NVML plugin show what NVML returns.

usage: test_monitors.py LULL. The test starts itself on an emulated node. tools/install-deps gets the programs; a case
without its program is skipped.
"""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients"))
import host  # noqa: E402
import job  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))
SPEC = "2xA100-SXM4-40GB"
MONITORS = os.environ.get("LULL_MONITORS") or os.path.expanduser("~/.cache/lull/monitors")
NVTOP = shutil.which("nvtop", path=os.path.join(MONITORS, "usr", "bin") + os.pathsep + os.environ["PATH"])
TMUX = shutil.which("tmux")
LSTOPO = shutil.which("lstopo-no-graphics")
PLUGINS = glob.glob(os.path.join(MONITORS, "usr", "lib", "*", "hwloc")) or glob.glob("/usr/lib/*/hwloc")
IS_ROOT = os.geteuid() == 0


class Nvml:
    """NVML by ctypes."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.library.nvmlInit_v2() == 0

    def device(self, index):
        device = ctypes.c_void_p()
        assert self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
        return device

    def call(self, name, index, *arguments):
        assert getattr(self.library, name)(self.device(index), *arguments) == 0, name

    def number(self, name, index, *arguments):
        value = ctypes.c_uint()
        self.call(name, index, *arguments, ctypes.byref(value))
        return value.value

    def text(self, name, index):
        value = ctypes.create_string_buffer(96)
        self.call(name, index, value, 96)
        return value.value.decode()


def smi(*words):
    return subprocess.run(["nvidia-smi", *words], check=True, capture_output=True, text=True, timeout=60).stdout


@unittest.skipIf(NVTOP is None or TMUX is None, "no nvtop, or no tmux to show it in")
class Nvtop(unittest.TestCase):
    """One line of nvtop for each of two GPUs, side by side."""

    def setUp(self):
        self.nvml = Nvml()
        self.directory = host.Directory()
        self.socket = os.path.join(self.directory.name, "tmux")
        self.screen = ""

    def tearDown(self):
        self.tmux("kill-server")
        self.directory.cleanup()

    def tmux(self, *words):
        return subprocess.run([TMUX, "-f", "/dev/null", "-S", self.socket, *words], capture_output=True, text=True,
                              check=False, timeout=60).stdout

    def start(self):
        environment = dict(os.environ, XDG_CONFIG_HOME=self.directory.name, LC_ALL="C.UTF-8")
        subprocess.run([TMUX, "-f", "/dev/null", "-S", self.socket, "new-session", "-d", "-x", "170", "-y", "40", NVTOP],
                       env=environment, check=True, timeout=60)

    def find(self, pattern):
        """All matches in the present screen."""
        self.screen = self.tmux("capture-pane", "-p")
        return re.findall(pattern, self.screen)

    def wait(self, pattern, is_right, limit_s=20.0):
        """Waits until the matches on the screen are right."""
        self.assertIsNotNone(host.wait_for(lambda: is_right(self.find(pattern)), limit_s, 0.2), self.screen)

    def read_line(self, index):
        """What nvtop shows of an SXM board, which has no fan."""
        number = self.nvml.number
        return (str(number("nvmlDeviceGetClockInfo", index, 0)), str(number("nvmlDeviceGetClockInfo", index, 2)),
                str(number("nvmlDeviceGetTemperature", index, 0)), "N/A%",
                str(number("nvmlDeviceGetPowerUsage", index) // 1000),
                str(number("nvmlDeviceGetEnforcedPowerLimit", index) // 1000))

    def test_idle_boards(self):
        self.start()
        name = self.nvml.text("nvmlDeviceGetName", 0)
        generation = self.nvml.number("nvmlDeviceGetCurrPcieLinkGeneration", 0)
        width = self.nvml.number("nvmlDeviceGetCurrPcieLinkWidth", 0)
        self.wait(r"Device (\d) \[(.*?)\] PCIe GEN (\d+)@ ?(\d+)x",
                  lambda found: found == [(str(i), name, str(generation), str(width)) for i in range(2)])
        self.wait(r"GPU (\d+)MHz\s+MEM (\d+)MHz\s+TEMP\s+(\d+)°C\s+FAN (\S+)\s+POW\s+(\d+) / (\d+) W",
                  lambda found: found == [self.read_line(i) for i in range(2)])
        self.wait(r"GPU\[\s*(\d+)%\]\s*MEM\[\s*\S+/(\S+)Gi\]", lambda found: found == [("0", "40.000")] * 2)

    @unittest.skipUnless(IS_ROOT, "clocks are not locked")
    def test_a_job_at_a_locked_clock(self):
        self.addCleanup(smi, "-rgc")
        with job.running(LULL, 2):
            smi("-i", "1", "-lgc", "900")
            self.start()
            self.wait(r"GPU (\d+)MHz", lambda found: len(found) == 2 and found[1] == "900" and int(found[0]) > 900)
            self.wait(r"GPU\[[|\s]*(\d+)%\]", lambda found: len(found) == 2 and all(int(share) > 50 for share in found))
            self.wait(r"POW\s+(\d+) /", lambda found: len(found) == 2 and 100 < int(found[1]) < int(found[0]) <= 400)
            listed = {(str(gpu), pid) for gpu in range(2)
                      for pid in smi("-i", str(gpu), "--query-compute-apps=pid", "--format=csv,noheader").split()}
            self.assertEqual({gpu for gpu, _pid in listed}, {"0", "1"})
            self.wait(r"(?m)^\s*(\d+)\s+\S+\s+(\d)\s+Compute", lambda found: {(gpu, pid) for pid, gpu in found} == listed)


@unittest.skipIf(LSTOPO is None or not any(os.path.exists(os.path.join(path, "hwloc_nvml.so")) for path in PLUGINS),
                 "no lstopo, or no NVML plugin for it")
class Hwloc(unittest.TestCase):
    def test_lists_the_boards(self):
        done = subprocess.run([LSTOPO, "--of", "xml"], env=dict(os.environ, HWLOC_PLUGINS_PATH=os.pathsep.join(PLUGINS)),
                              check=True, capture_output=True, text=True, timeout=60)
        nvml = Nvml()
        devices = [node for node in xml.etree.ElementTree.fromstring(done.stdout).iter("object") if node.get("subtype") == "NVML"]
        self.assertEqual([node.get("name") for node in devices], ["nvml0", "nvml1"])
        for index, node in enumerate(devices):
            self.assertEqual({info.get("name"): info.get("value") for info in node.iter("info")}, {
                "Backend": "NVML", "GPUVendor": "NVIDIA Corporation", "GPUModel": nvml.text("nvmlDeviceGetName", index),
                "NVIDIASerial": nvml.text("nvmlDeviceGetSerial", index), "NVIDIAUUID": nvml.text("nvmlDeviceGetUUID", index)})


    def test_places_of_the_boards(self):
        """With --sysfs a board is below its PCI address, near the processors that NVML names."""
        command = [LULL, "emulate", "--seed", "0", "--sysfs", SPEC, "--"]
        done = subprocess.run([*command, "sh", "-c", "cat /sys/bus/pci/devices/*/local_cpulist"], capture_output=True, text=True, check=False)
        if "cannot show the GPUs" in done.stderr:
            self.skipTest("this system permits no mounts")
        nvml = Nvml()
        for index in range(2):
            mask = (ctypes.c_ulong * 16)()
            nvml.call("nvmlDeviceGetCpuAffinity", index, 16, mask)
            cpus = [bit for bit in range(1024) if mask[bit // 64] >> bit % 64 & 1]
            wanted = str(cpus[0]) if len(cpus) == 1 else f"{cpus[0]}-{cpus[-1]}"
            self.assertIn(wanted, done.stdout.splitlines())
        done = subprocess.run([*command, LSTOPO, "--of", "xml"], env=dict(os.environ, HWLOC_PLUGINS_PATH=os.pathsep.join(PLUGINS)),
                              check=True, capture_output=True, text=True, timeout=60)
        found = {node.get("pci_busid"): node for node in xml.etree.ElementTree.fromstring(done.stdout).iter("object")
                 if "[10de:20b0]" in node.get("pci_type", "")}
        addresses = [line.lower()[4:] for line in smi("--query-gpu=pci.bus_id", "--format=csv,noheader").splitlines()]
        self.assertEqual(sorted(found), addresses)
        for index, address in enumerate(addresses):
            self.assertIn(f"nvml{index}", [node.get("name") for node in found[address].iter("object")])


def main():
    if "LULL_EMULATED_NODE" in os.environ:
        unittest.main()
    if not Nvtop.__dict__.get("__unittest_skip__") or not Hwloc.__dict__.get("__unittest_skip__"):
        os.execv(LULL, [LULL, "emulate", "--seed", "0", SPEC, "--", sys.executable, os.path.abspath(__file__), LULL])
    print("skipped: neither nvtop nor hwloc's NVML plugin is installed")
    sys.exit(77)


if __name__ == "__main__":
    main()
