#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi of the emulated node: it shows what NVML shows. usage: test_nvidia_smi.py LULL

The test starts itself on an emulated node, where ctypes reads NVML beside nvidia-smi.
"""
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

LULL = os.path.abspath(sys.argv.pop(1))
SPEC = "2xA100-SXM4-40GB,A40"
HERE = os.path.dirname(os.path.abspath(__file__))
IS_ROOT = os.geteuid() == 0


def smi(*words, status=0):
    """What nvidia-smi prints; every message comes on standard output."""
    done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status and done.stderr == "", (words, done)
    return done.stdout


def query(fields, *words, of="gpu"):
    text = smi(f"--query-{of}={fields}", "--format=csv,noheader,nounits", *words)
    return [line.split(", ") for line in text.splitlines()]


class Nvml:
    """NVML by ctypes."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.library.nvmlInit_v2() == 0

    def device(self, index):
        device = ctypes.c_void_p()
        assert self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
        return device

    def number(self, name, index, *arguments):
        value = ctypes.c_uint()
        assert getattr(self.library, name)(self.device(index), *arguments, ctypes.byref(value)) == 0, name
        return value.value

    def text(self, name, index):
        value = ctypes.create_string_buffer(96)
        assert getattr(self.library, name)(self.device(index), value, 96) == 0, name
        return value.value.decode()

    def numbers(self, name, index, count, kind=ctypes.c_uint):
        values = (kind * count)()
        assert getattr(self.library, name)(self.device(index), values) == 0, name
        return list(values)


class Shown(unittest.TestCase):
    """Values and their forms."""

    @classmethod
    def setUpClass(cls):
        cls.nvml = Nvml()

    def test_a_query_shows_what_nvml_shows(self):
        rows = query("index,name,uuid,serial,vbios_version,memory.total,power.limit,clocks.max.sm,clocks.mem,compute_cap,pcie.link.gen.max")
        self.assertEqual(len(rows), 3)
        for index, row in enumerate(rows):
            memory = self.nvml.numbers("nvmlDeviceGetMemoryInfo", index, 3, ctypes.c_uint64)
            capability = (ctypes.c_int * 2)()
            self.nvml.library.nvmlDeviceGetCudaComputeCapability(self.nvml.device(index), ctypes.byref(capability), ctypes.byref(capability, 4))
            self.assertEqual(row, [
                str(index), self.nvml.text("nvmlDeviceGetName", index), self.nvml.text("nvmlDeviceGetUUID", index),
                self.nvml.text("nvmlDeviceGetSerial", index), self.nvml.text("nvmlDeviceGetVbiosVersion", index), str(memory[0] >> 20),
                f"{self.nvml.number('nvmlDeviceGetPowerManagementLimit', index) / 1000:.2f}",
                str(self.nvml.number("nvmlDeviceGetMaxClockInfo", index, 1)), str(self.nvml.number("nvmlDeviceGetClockInfo", index, 2)),
                f"{capability[0]}.{capability[1]}", str(self.nvml.number("nvmlDeviceGetMaxPcieLinkGeneration", index))])

    def test_headers_have_units_and_first_names(self):
        lines = smi("--query-gpu=gpu_name,utilization.gpu,memory.used,clocks.gr,power.draw,temperature.gpu,clocks_throttle_reasons.active",
                    "--format=csv", "-i", "0").splitlines()
        self.assertEqual(lines[0], "name, utilization.gpu [%], memory.used [MiB], clocks.current.graphics [MHz], power.draw [W], "
                                   "temperature.gpu, clocks_event_reasons.active")
        self.assertRegex(lines[1], r"^NVIDIA A100-SXM4-40GB, \d+ %, \d+ MiB, \d+ MHz, \d+\.\d\d W, \d+, 0x[0-9A-F]{16}$")

    def test_every_name_of_the_help_is_answered(self):
        for kind in ("gpu", "compute-apps", "supported-clocks"):
            names = re.findall(r'"([\w.]+)"', smi(f"--help-query-{kind}"))
            self.assertGreater(len(names), 7)
            rows = query(",".join(names), of=kind)
            self.assertTrue(all(len(row) == len(names) for row in rows))

    def test_values_that_a_gpu_lacks(self):
        self.assertEqual(query("fan.speed,mig.mode.current", "-i", "2"), [["[N/A]", "[N/A]"]])

    def test_gpus_by_index_uuid_and_bus_id(self):
        for name in ("index", "uuid", "serial", "pci.bus_id"):
            value = query(name)[1][0]
            self.assertEqual(query("index", "-i", value), [["1"]])
            self.assertEqual(query("index", f"--id={value},2"), [["1"], ["2"]])
        self.assertEqual(smi("-i", "7", status=6), "No devices were found\n")

    def test_the_list_and_the_table(self):
        self.assertRegex(smi("-L"), r"^GPU 0: NVIDIA A100-SXM4-40GB \(UUID: GPU-[0-9a-f-]{36}\)\nGPU 1: ")
        lines = smi().splitlines()
        self.assertEqual({len(line) for line in lines[1:] if line}, {91})
        self.assertRegex("\n".join(lines), r"Driver Version: [\d.]+ +CUDA Version: \d+\.\d")
        self.assertIn("No running processes found", "\n".join(lines))

    def test_the_report(self):
        whole = smi("-q")
        self.assertRegex(whole, r"\n    GPU UUID {43}: GPU-")
        self.assertNotIn("Supported Clocks", whole)
        part = smi("-q", "-d", "CLOCK,POWER,PERFORMANCE", "-i", "0")
        for label in ("Clocks Event Reasons", "GPU Power Readings", "Max Clocks"):
            self.assertIn(f"    {label}\n", part)
        for label in ("Product Name", "FB Memory Usage", "Processes", "Temperature"):
            self.assertNotIn(label, part)
        self.assertEqual(smi("-q", "-d", "SUPPORTED_CLOCKS", "-i", "0").count("Graphics"), 81)

    def test_the_report_as_xml(self):
        root = xml.etree.ElementTree.fromstring(smi("-q", "-x"))
        self.assertEqual(root.find("attached_gpus").text, "3")
        rows = query("pci.bus_id,uuid,memory.total,power.limit,clocks.max.sm")
        for gpu, row in zip(root.findall("gpu"), rows, strict=True):
            self.assertEqual([gpu.get("id"), gpu.find("uuid").text, gpu.find("fb_memory_usage/total").text,
                              gpu.find("gpu_power_readings/requested_power_limit").text, gpu.find("max_clocks/sm_clock").text],
                             [row[0], row[1], row[2] + " MiB", row[3] + " W", row[4] + " MHz"])
            self.assertIsNotNone(gpu.find("processes"))
            self.assertGreater(len(gpu.findall("supported_clocks/supported_mem_clock/supported_graphics_clock")), 50)

    def test_topology(self):
        rows = [re.sub("\033.*?m", "", line).split("\t") for line in smi("topo", "-m").splitlines()[:4]]
        self.assertEqual(rows[0][1:5], ["GPU0", "GPU1", "GPU2", "CPU Affinity"])
        self.assertEqual([rows[i + 1][i + 1] for i in range(3)], [" X "] * 3)
        self.assertRegex(rows[1][2], r"^NV\d+$")
        self.assertEqual(rows[1][2], rows[2][1])

    def test_monitors(self):
        lines = smi("dmon", "-c", "2", "-s", "pc", "-d", "0.05").splitlines()
        self.assertEqual(lines[0].split(), ["#", "gpu", "pwr", "gtemp", "mtemp", "mclk", "pclk"])
        self.assertEqual([line.split()[0] for line in lines], ["#", "#"] + ["0", "1", "2"] * 2)
        self.assertEqual(smi("pmon", "-c", "1", "-i", "2").splitlines()[2].split(), ["2"] + ["-"] * 9)
        smi("dmon", "-s", "x", status=2)

    def test_lull_energy_reads_its_logs(self):
        with tempfile.TemporaryDirectory() as directory:
            for name, words in (("dmon", ["dmon", "-s", "p", "-o", "DT", "-c", "3"]),
                                ("csv", ["--query-gpu=timestamp,index,power.draw", "--format=csv", "-lms", "200"])):
                path = os.path.join(directory, name)
                process = subprocess.Popen(["nvidia-smi", *words, "-f", path])
                if name == "csv":
                    time.sleep(1.5)
                    process.terminate()
                process.wait(timeout=60)
                done = subprocess.run([LULL, "energy", path], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_loops(self):
        process = subprocess.Popen(["nvidia-smi", "--query-gpu=index", "--format=csv", "-lms", "20"], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(7)]
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(lines, ["index\n"] + ["0\n", "1\n", "2\n"] * 2)


class Published(unittest.TestCase):
    """The report has the rows of published outputs, in their order and with their units."""

    # Board and release of the emulated node that stand for each letter and output.
    TEXTS = {"a": ("A100-SXM4-40GB", "535"), "g": ("GH200", "550"), "b": ("H100-SXM5", "570"), "c": ("H100-SXM5", "580")}
    XML = {"a100": ("A100-SXM4-40GB", "570"), "h100": ("H100-SXM5", "580"), "l40s": ("L40S", "615"), "t4": ("V100-SXM2-16GB", "615")}

    @staticmethod
    def report(board, driver, *words):
        done = subprocess.run([LULL, "emulate", "--driver", driver, board, "--", "nvidia-smi", "-q", *words],
                              capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def test_labels(self):
        with open(os.path.join(HERE, "nvidia_smi_labels.txt"), encoding="ascii") as file:
            rows = [line.rstrip("\n") for line in file if not line.startswith("#")]
        for letter, (board, driver) in self.TEXTS.items():
            with self.subTest(board + " " + driver):
                wanted = [row[5:] for row in rows if letter in row[:4]]
                lines = self.report(board, driver).split("\nGPU ")[1].splitlines()[1:]
                shown = [((len(line) - len(line.lstrip()) - 4) // 2 * " " + line.split(" : ")[0].strip()) for line in lines if line]
                self.assertEqual(shown, wanted)
                columns = {line.index(" : ") for line in lines if " : " in line}
                self.assertEqual(columns, {54 if driver == "580" else 41})

    def test_elements(self):
        with open(os.path.join(HERE, "nvidia_smi_tags.json"), encoding="ascii") as file:
            table = json.load(file)
        for name, (board, driver) in self.XML.items():
            with self.subTest(name):
                units = {f"{parent}/{word.split()[0]}".lstrip("/"): word.split()[1:]
                         for group in ("common", name) for parent, words in table[group].items() for word in words}
                shown = dict(self.leaves(xml.etree.ElementTree.fromstring(self.report(board, driver, "-x")).find("gpu")))
                self.assertEqual(set(shown), set(units))
                for path, text in shown.items():
                    unit = re.fullmatch(r"-?[\d.]+ ?(\D*)", text)
                    if unit is not None and units[path]:
                        self.assertEqual([unit[1]], units[path], path)

    def leaves(self, element, path=""):
        for child in element:
            name = f"{path}/{child.tag}".lstrip("/")
            if len(child) > 0 and child.tag != "supported_clocks":
                yield from self.leaves(child, name)
            else:
                yield name, (child.text or "").strip()


class Refused(unittest.TestCase):
    def test_command_lines(self):
        for words, status, text in (
                (["--query-gpu=index,foo", "--format=csv"], 2, 'Field "foo" is not a valid field to query.\n\n'),
                (["--foo"], 1, "ERROR: Option --foo is not recognized. Please run 'nvidia-smi -h'.\n"),
                (["-L", "-q"], 1, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"),
                (["-x"], 1, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"),
                (["nvlink", "-s"], 3, "nvidia-smi nvlink is not emulated.\n"),
                (["-acp", "0"], 3, "nvidia-smi --applications-clocks-permission is not emulated.\n")):
            with self.subTest(words):
                self.assertEqual(smi(*words, status=status), text)
        for words, status in ((["--query-gpu=index"], 1), (["--query-gpu=index", "--format=tsv"], 2), (["-q", "-d", "FOO"], 2),
                              (["-l", "x"], 2), (["-lgc", "5,x"], 2), (["-pm", "2"], 2), (["-i"], 1), (["topo"], 1), (["-lgc"], 1)):
            with self.subTest(words):
                self.assertNotEqual(smi(*words, status=status), "")

    def test_without_a_driver(self):
        environment = dict(os.environ)
        del environment["LD_LIBRARY_PATH"]
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 12)
        environment = dict(os.environ, LULL_EMULATED_NODE="/nowhere")
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual((done.returncode, done.stdout[:21]), (9, "NVIDIA-SMI has failed"))

    def test_faults(self):
        for fault, status, text in (("lost_ms=60000x1", 15, "Unable to determine the device handle for GPU0: GPU is lost\n"),
                                    ("reload_ms=60000x1", 18, "Unable to determine the device handle for GPU0: Driver/library version mismatch\n"),
                                    ("get_code=999", 0, "0, [Unknown Error]\n")):
            with self.subTest(fault):
                done = subprocess.run([LULL, "emulate", "--fault", fault, "H100", "--", "nvidia-smi", "--query-gpu=index,power.draw",
                                       "--format=csv,noheader"], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (status, text))

    def test_without_the_right(self):
        if not IS_ROOT:
            self.skipTest("changes the user, which needs root")
        done = subprocess.run(["nvidia-smi", "-i", "0", "-lgc", "600"], capture_output=True, text=True, check=False, user=65534)
        bus_id = query("pci.bus_id")[0][0]
        self.assertEqual((done.returncode, done.stdout),
                         (4, f"The current user does not have permission to change clocks for GPU {bus_id}.\n"
                             "Terminating early due to previous errors.\n"))


@unittest.skipUnless(IS_ROOT, "settings need root")
class Set(unittest.TestCase):
    def test_the_power_limit(self):
        bus_id = query("pci.bus_id")[0][0]
        self.assertEqual(smi("-i", "0", "-pl", "300"), f"Power limit for GPU {bus_id} was set to 300.00 W from 400.00 W.\nAll done.\n")
        self.assertEqual(query("power.limit", "-i", "0,1"), [["300.00"], ["400.00"]])
        self.assertIn("should be between 100.00 W and 400.00 W", smi("-i", "0", "-pl", "50", status=2))
        smi("-i", "0", "-pl", "400")

    def test_the_clocks(self):
        bus_id = query("pci.bus_id")[1][0]
        self.assertEqual(smi("-i", "1", "-lgc", "600,900"),
                         f'GPU clocks set to "(gpuClkMin 600, gpuClkMax 900)" for GPU {bus_id}\nAll done.\n')
        self.assertEqual(smi("-i", "1", "-rgc"), "All done.\n")
        self.assertEqual(smi("-i", "1", "-lmc", "1215"), f"Setting locked memory clocks is not supported for GPU {bus_id}.\n"
                                                         "Treating as warning and moving on.\nAll done.\n")
        smi("-i", "1", "-lmc", "1215", "-eow", status=3)
        smi("-i", "1", "-ac", "1215,1095")
        self.assertEqual(query("clocks.applications.gr", "-i", "1"), [["1095"]])
        self.assertEqual(smi("-i", "1", "-rac"), "All done.\n")

    def test_modes(self):
        smi("-pm", "0")
        self.assertEqual(query("persistence_mode"), [["Disabled"]] * 3)
        self.assertIn("Enabled persistence mode", smi("-pm", "ENABLED"))
        self.assertIn("Persistence mode is already Enabled", smi("-pm", "1", "-i", "0"))
        smi("-c", "EXCLUSIVE_PROCESS", "-i", "0")
        self.assertEqual(query("compute_mode", "-i", "0"), [["Exclusive_Process"]])
        smi("-c", "0", "-i", "0")
        self.assertIn("is not supported", smi("-r", "-i", "0", status=3))


class Working(unittest.TestCase):
    def test_processes(self):
        job = subprocess.Popen([LULL, "play", "--preset", "bert-ddp", "--ranks", "2", "--iterations", "1000"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            rows = []
            for _ in range(300):
                rows = query("gpu_uuid,pid,process_name,used_memory", of="compute-apps")
                if len(rows) == 2 and int(query("utilization.gpu", "-i", "0")[0][0]) > 50:
                    break
                time.sleep(0.1)
            self.assertEqual(len(rows), 2)
            pid, memory = rows[0][1], rows[0][3]
            self.assertIn(rows[0][0], [row[0] for row in query("uuid")])
            self.assertGreater(int(memory), 0)
            self.assertRegex(smi(), rf"\|    0   N/A  N/A +{pid}      C   \S.* {memory}MiB \|")
            self.assertIn(f"Process ID                        : {pid}\n", smi("-q", "-d", "PIDS"))
            self.assertEqual(xml.etree.ElementTree.fromstring(smi("-q", "-x")).find("gpu/processes/process_info/pid").text, pid)
            line = smi("pmon", "-c", "1", "-i", "0").splitlines()[2].split()
            self.assertEqual(line[:3], ["0", pid, "C"])
            self.assertGreater(int(line[3]), 50)
        finally:
            job.kill()
            job.wait()


def start_on_node():
    command = [LULL, "emulate", "--seed", "0", SPEC, "--", sys.executable, __file__, LULL]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    if "LULL_EMULATED_NODE" not in os.environ:
        # An AMD node has no nvidia-smi of this directory.
        found = subprocess.run([LULL, "emulate", "MI300X", "--", "sh", "-c", "command -v nvidia-smi"], capture_output=True, text=True, check=False)
        assert "nvidia_smi" not in found.stdout, found
        start_on_node()
    unittest.main()
