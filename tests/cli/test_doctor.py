#!/usr/bin/env python3
"""`lull doctor` on broken machines: each finding appears with the fault, and is gone after the line that it prints was executed.

Run as: lull emulate 2xA100-SXM4-40GB -- test_doctor.py LULL LULLD TOOL. The files of the machine lie below a directory (--root). There is no
nvidia-smi, systemctl or sudo on an emulated node: programs of these names that do the same to it come first in PATH, and the line is given to a
shell. Where the line needs a reboot, the test applies what it is for. SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, TOOL = (os.path.abspath(path) for path in sys.argv[1:4])

NVIDIA_SMI = """#!/usr/bin/env python3
# nvidia-smi -i GPU (-rgc | -pl WATTS | -mig MODE), on the emulated node.
import ctypes, subprocess, sys
gpu, action, *value = int(sys.argv[2]), *sys.argv[3:]
if action == "-mig":
    sys.exit(subprocess.run([TOOL, "fault", f"{gpu}:mig={value[0]}x1"]).returncode)
nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == 0
if action == "-rgc":
    sys.exit(nvml.nvmlDeviceResetGpuLockedClocks(device))
sys.exit(nvml.nvmlDeviceSetPowerManagementLimit(device, int(value[0]) * 1000))
"""

SYSTEMCTL = """#!/bin/sh
# systemctl enable --now UNIT, stop UNIT
case "$*" in
"enable --now lulld") LULLD --ready-fd 1 >ROOT/ready 2>/dev/null & echo $! >ROOT/lulld.pid
    while [ ! -s ROOT/ready ]; do sleep 0.02; done ;;
"enable --now nvidia-persistenced") mkdir -p ROOT/proc/700 && echo nvidia-persiste >ROOT/proc/700/comm ;;
"stop nvidia-dcgm") rm -r ROOT/proc/800 ;;
*) echo "systemctl $*: unexpected" >&2; exit 1 ;;
esac
"""

SUDO = """#!/bin/sh
exec "$@"
"""

HOST_SPACE = "pid:[4026531836]"


class Case(unittest.TestCase):
    """A machine on which all is well, but for the lack of lulld."""

    def setUp(self):
        if os.geteuid() != 0 and "LULL_TEST_AS_USER" not in os.environ:
            self.skipTest("an administrator's commands need root")
        self.directory = tempfile.mkdtemp(prefix="lull-doctor-")
        self.addCleanup(host.remove, self.directory)
        self.runtime = os.path.join(self.directory, "run")
        self.root = os.path.join(self.directory, "root")
        self.processes = []
        self.addCleanup(self.stop)
        self.variables = dict(os.environ, LULL_RUNTIME_DIR=self.runtime, PATH=self.make_programs() + ":" + os.environ["PATH"])
        for name in ("NCCL_PROFILER_PLUGIN", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "LULL_POWERCAP"):
            self.variables.pop(name, None)
        self.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.71.09  Fri Aug 16 2024\nGCC version: 12.2\n")
        self.write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n")
        self.write("proc/self/status", "Name:\tlull\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n")
        self.write("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n")
        os.makedirs(self.path("proc/self/ns"))
        os.symlink(HOST_SPACE, self.path("proc/self/ns/pid"))
        self.write("proc/1/comm", "systemd\n")
        self.write("proc/700/comm", "nvidia-persiste\n")
        self.write("proc/sys/kernel/osrelease", "6.1.0-27-amd64\n")
        self.write("dev/nvidiactl", "")
        for name, text in (("name", "package-0"), ("energy_uj", "1000"), ("max_energy_range_uj", "262143328850")):
            self.write("sys/class/powercap/intel-rapl:0/" + name, text + "\n")
        self.write("usr/lib/systemd/system/lulld.service", "[Service]\n")

    def stop(self):
        host.stop_all(self.processes)
        with contextlib.suppress(FileNotFoundError):
            with open(self.path("lulld.pid"), encoding="ascii") as file:
                pid = int(file.read())
            os.kill(pid, signal.SIGTERM)
            host.wait_for(lambda: not os.path.exists(os.path.join(self.runtime, "lulld.sock")), 10.0)
        subprocess.run([TOOL, "fault", "0:mig=0x1,0:vgpu=0,0:foreign_mhz=0x1,0:foreign_limit_w=400x1"], check=True)
        subprocess.run([LULL, "gpus"], stdout=subprocess.DEVNULL, check=True)  # faults happen at a call

    def make_programs(self):
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        os.makedirs(self.root)
        for name, text in (("nvidia-smi", NVIDIA_SMI.replace("TOOL", repr(TOOL))), ("sudo", SUDO),
                           ("systemctl", SYSTEMCTL.replace("LULLD", LULLD).replace("ROOT", self.root))):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, 0o755)
        os.symlink(LULL, os.path.join(folder, "lull"))
        return folder

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)

    def remove(self, name):
        shutil.rmtree(self.path(name))

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.variables, **options)
        self.processes.append(process)
        return process

    def start_daemon(self, *options):
        return host.start_lulld(self.spawn, LULLD, *options)

    def inject(self, faults):
        subprocess.run([TOOL, "fault", faults], check=True)

    def examine(self, before=":"):
        """The document of the doctor in a shell that has executed a line."""
        run = subprocess.run(["sh", "-c", before + '\nexec "$0" "$@"', LULL, "doctor", "--json", "--root", self.root], capture_output=True,
                             text=True, env=self.variables, timeout=60, check=False)
        self.assertEqual(run.stderr, "")
        document = json.loads(run.stdout)
        self.assertEqual(run.returncode, 1 if document["problems"] > 0 else 0)
        self.assertEqual(document["can_manage"], document["problems"] == 0)
        return document

    def find(self, check, before=":"):
        """The finding of a check that is no "ok"."""
        found = [finding for finding in self.examine(before)["findings"] if finding["check"] == check and finding["level"] != "ok"]
        self.assertLessEqual(len(found), 1, found)
        return found[0] if found else None

    def break_and_fix(self, check, level, do_break, in_same_shell=False):
        """Breaks the machine, and executes the line that the doctor prints."""
        self.assertIsNone(self.find(check))
        do_break()
        finding = self.find(check)
        self.assertIsNotNone(finding, check)
        self.assertEqual(finding["level"], level, finding)
        self.assertIsNotNone(finding["fix"], finding)
        if not in_same_shell:
            run = subprocess.run(["sh", "-ec", finding["fix"]], capture_output=True, text=True, env=self.variables, timeout=60, check=False)
            self.assertEqual(run.returncode, 0, run)
        self.assertIsNone(self.find(check, finding["fix"] if in_same_shell else ":"))
        return finding

    def set(self, **variables):
        self.variables.update(variables)


class TenBrokenMachines(Case):
    """Each is found, and fixed by the line that is printed."""

    def test_01_the_driver_is_looked_for_elsewhere(self):
        self.break_and_fix("driver", "problem", lambda: self.set(LULL_NVML="/nowhere/libnvidia-ml.so.1"), in_same_shell=True)

    def test_02_lulld_does_not_run(self):
        self.write("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n")
        finding = self.find("lulld")
        self.assertEqual(finding["level"], "problem")
        self.assertEqual(finding["fix"], "sudo systemctl enable --now lulld")
        subprocess.run(["sh", "-ec", finding["fix"]], env=self.variables, timeout=60, check=True)
        self.assertIsNone(self.find("lulld"))

    def test_03_another_program_has_locked_the_clock(self):
        self.spawn(TOOL, "busy", "0")

        def lock():
            self.inject("0:foreign_mhz=600x1")
            self.assertIsNotNone(host.wait_for(lambda: self.find("clock_lock") is not None, 5.0))

        finding = self.break_and_fix("clock_lock", "problem", lock)
        self.assertIn("600 MHz", finding["text"])
        self.assertEqual(finding["gpus"], [0])

    def test_04_a_power_limit_below_the_default(self):
        def limit():
            self.inject("0:foreign_limit_w=150x1")
            subprocess.run([LULL, "gpus"], stdout=subprocess.DEVNULL, check=True)

        finding = self.break_and_fix("power_limit", "warning", limit)
        self.assertIn("150 W", finding["text"])

    def test_05_mig_is_on(self):
        self.start_daemon()
        self.break_and_fix("mig", "problem", lambda: self.inject("0:mig=2x1"))

    def test_06_nccl_may_load_no_plugin(self):
        self.break_and_fix("probe", "warning", lambda: self.set(NCCL_PROFILER_PLUGIN="none"), in_same_shell=True)

    def test_07_another_tool_records_kernels(self):
        finding = self.break_and_fix("probe", "warning", lambda: self.set(CUDA_INJECTION64_PATH="/opt/tool/libinjection.so"), in_same_shell=True)
        self.assertEqual(finding["fix"], "unset CUDA_INJECTION64_PATH")

    def test_08_dcgm_runs(self):
        finding = self.break_and_fix("other_manager", "warning", lambda: self.write("proc/800/comm", "nv-hostengine\n"))
        self.assertIn("process 800", finding["text"])

    def test_09_slurm_without_the_plugin(self):
        self.break_and_fix("slurm", "warning", lambda: self.write("etc/slurm/slurm.conf", "ClusterName=c\n"))
        with open(self.path("etc/slurm/plugstack.conf"), encoding="ascii") as file:
            self.assertIn("spank_lull.so", file.read())

    def test_10_a_gpu_is_quiesced(self):
        self.start_daemon()
        self.break_and_fix("lease", "problem", lambda: subprocess.run([LULL, "quiesce", "1"], env=self.variables, check=True))


class MoreBrokenMachines(Case):
    def appear(self, check, level, do_break, do_fix, before=":"):
        self.assertIsNone(self.find(check))
        do_break()
        finding = self.find(check, before)
        self.assertIsNotNone(finding, check)
        self.assertEqual(finding["level"], level, finding)
        self.assertTrue((finding["fix"] is None) != (finding["advice"] is None), finding)
        do_fix()
        self.assertIsNone(self.find(check))
        return finding

    def test_a_vgpu(self):
        self.appear("vgpu", "problem", lambda: self.inject("0:vgpu"), lambda: self.inject("0:vgpu=0"))

    def test_no_persistence(self):
        self.break_and_fix("persistence", "warning", lambda: self.remove("proc/700"))

    def test_profiling_for_administrators_alone(self):
        """The line needs a reboot, so the parameter is changed as that would."""
        self.write("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n")
        self.appear("profiling", "warning", lambda: self.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n"),
                    lambda: self.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n"))

    def test_a_module_of_another_driver(self):
        new = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
        old = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.71.09  Fri\n"
        finding = self.appear("driver_module", "problem", lambda: self.write("proc/driver/nvidia/version", new),
                              lambda: self.write("proc/driver/nvidia/version", old))
        self.assertIn("580.65.06", finding["text"])

    def test_an_old_driver(self):
        line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Fri\n"
        for version in ("470.82.01", "535.54.03"):
            with self.subTest(version):
                self.appear("driver_age", "warning", lambda: self.write("proc/driver/nvidia/version", line.format(version)),
                            lambda: self.write("proc/driver/nvidia/version", line.format("615.71.09")))

    def test_another_pid_namespace(self):
        def link(text):
            os.remove(self.path("proc/self/ns/pid"))
            os.symlink(text, self.path("proc/self/ns/pid"))

        self.appear("pid_namespace", "warning", lambda: link("pid:[4026532999]"), lambda: link(HOST_SPACE))

    def test_a_pod_without_the_socket(self):
        cgroup = "0::/kubepods.slice/kubepods-pod3f1c9a52_07be_4d1e_9c41_8a5b60d2e7f4.slice/cri-containerd-" + "ab" * 32 + ".scope\n"
        self.assertIn("systemctl", self.find("lulld")["fix"])
        self.write("proc/self/cgroup", cgroup)
        self.assertIn("DaemonSet", self.find("lulld")["advice"])
        self.start_daemon()
        self.assertIsNone(self.find("lulld"))

    def test_root_without_the_capability(self):
        status = "Uid:\t0\t0\t0\t0\nCapEff:\t{}\n"
        self.appear("permission", "problem", lambda: self.write("proc/self/status", status.format("00000000a80425fb")),
                    lambda: self.write("proc/self/status", status.format("000001ffffffffff")))

    def test_wsl(self):
        self.appear("wsl", "problem", lambda: self.write("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n"),
                    lambda: self.write("proc/sys/kernel/osrelease", "6.1.0-27-amd64\n"))

    def test_an_old_kernel(self):
        self.appear("kernel", "problem", lambda: self.write("proc/sys/kernel/osrelease", "4.18.0-553.el8\n"),
                    lambda: self.write("proc/sys/kernel/osrelease", "5.3.0\n"))

    def test_no_energy_counter(self):
        def examine(*fault):
            run = subprocess.run([LULL, "emulate", *fault, "1xA100-SXM4-40GB", "--", LULL, "doctor", "--json"], capture_output=True, text=True,
                                 env=self.variables, check=False)
            return [finding["check"] for finding in json.loads(run.stdout)["findings"]]

        self.assertIn("energy_counter", examine("--fault", "no_energy"))
        self.assertNotIn("energy_counter", examine())

    def test_old_and_new_nccl(self):
        for version, level in (("22105", "warning"), ("23203", "warning"), ("22304", "ok"), ("23104", "ok")):
            self.set(LULL_EMULATED_NCCL_VERSION=version)
            finding = [finding for finding in self.examine()["findings"] if finding["check"] == "nccl"][0]
            self.assertEqual(finding["level"], level, finding)

    def test_a_plugin_of_somebody_else_is_chained(self):
        self.set(NCCL_PROFILER_PLUGIN="inspector")
        finding = [finding for finding in self.examine()["findings"] if finding["check"] == "nccl_plugin"][0]
        self.assertEqual(finding["level"], "ok")

    def test_a_lease_of_another_client_is_no_problem(self):
        self.start_daemon()
        uuid = json.loads(subprocess.run([LULL, "gpus", "--json"], stdout=subprocess.PIPE, check=True).stdout)["gpus"][0]["uuid"]
        client = self.spawn(TOOL, "hold", "daemon", uuid, "900")
        client.stdout.readline()
        self.spawn(TOOL, "busy", "0")
        document = self.examine()
        self.assertEqual(document["problems"], 0, document)
        self.assertIn("leased by another client now", [finding["text"] for finding in document["findings"]])


class Output(Case):
    def test_groups_and_fixes(self):
        self.write("proc/800/comm", "nv-hostengine\n")
        self.inject("0:vgpu")
        run = subprocess.run([LULL, "doctor", "--root", self.root], capture_output=True, text=True, env=self.variables, check=False)
        self.assertEqual(run.returncode, 1)
        words = [line.split()[0] for line in run.stdout.splitlines() if not line.startswith(" ")]
        levels = [word for word in words if word in ("ok", "warning", "problem")]
        self.assertEqual(levels, sorted(levels, key=("problem", "warning", "ok").index))
        self.assertIn("         fix: sudo systemctl stop nvidia-dcgm\n", run.stdout)
        self.assertRegex(run.stdout, r"(?m)^1 problem, 2 warnings$")

    def test_watch_prints_changes(self):
        self.start_daemon()
        watch = self.spawn(LULL, "doctor", "--watch", "1", "--root", self.root)
        while "problems" not in watch.stdout.readline():
            pass
        self.write("proc/800/comm", "nv-hostengine\n")
        lines = [watch.stdout.readline() for _ in range(4)]
        self.assertTrue(lines[1].startswith("warning  other_manager: nv-hostengine"), lines)
        self.assertEqual(lines[3], "0 problems, 1 warning\n")
        self.remove("proc/800")
        lines = [watch.stdout.readline() for _ in range(3)]
        self.assertTrue(lines[1].startswith("gone     other_manager: nv-hostengine"), lines)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(10), 128 + signal.SIGTERM)

    def test_nothing_is_changed(self):
        self.start_daemon()
        self.examine()
        for gpu in ("0", "1"):
            self.assertNotEqual(subprocess.run([TOOL, "truth", gpu], stdout=subprocess.PIPE, text=True, check=True).stdout.strip(), "locked")
        state = json.loads(subprocess.run([LULL, "status", "--json"], stdout=subprocess.PIPE, env=self.variables, check=True).stdout)
        self.assertEqual([gpu["lease"] for gpu in state["gpus"]], [None, None])
        self.assertEqual([gpu["writes"] for gpu in state["gpus"]], [0, 0])


class AsUser(Case):
    """lulld and its client are of one user who is not root, so that the policy decides. Run in a node of its own."""

    def start(self, policy):
        path = os.path.join(self.directory, "policy.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"[lulld]\nadministrators = {os.getgid()}\n" + policy)
        os.chmod(path, 0o644)
        self.set(LULL_POLICY=path)
        self.start_daemon()

    def test_the_policy_gives_nothing(self):
        self.start("[user 0]\ngpus = all\n")
        finding = self.find("policy")
        self.assertEqual((finding["level"], finding["gpus"]), ("problem", [0]), finding)
        run = subprocess.run(["sh", "-ec", finding["fix"]], capture_output=True, text=True, env=self.variables, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run)
        self.assertIsNone(self.find("policy"))

    def test_the_policy_gives_less(self):
        self.start(f"[user {os.getuid()}]\ngpus = all\nmax-sm-mhz = 1200\n")
        finding = self.find("policy")
        self.assertEqual(finding["level"], "warning", finding)
        self.assertIn("1200", finding["text"])

    def test_profiles_without_root(self):
        for options, words in (["--fault", "wpps"], "without root"), ([], "need lulld"):
            run = subprocess.run([LULL, "emulate", *options, "1xB200", "--", LULL, "doctor"], capture_output=True, text=True,
                                 env=self.variables, timeout=60, check=False)
            self.assertRegex(run.stdout, f"power_profiles: GPU 0: .*{words}", run)

    def test_rapl_is_for_root(self):
        path = self.path("sys/class/powercap/intel-rapl:0/energy_uj")
        os.chmod(path, 0)
        finding = self.find("rapl")
        self.assertEqual(finding["level"], "warning", finding)
        subprocess.run(["sh", "-ec", finding["fix"]], env=self.variables, timeout=60, check=True)
        self.assertIsNone(self.find("rapl"))


class OtherUser(unittest.TestCase):
    def test_as_a_user(self):
        if "LULL_TEST_AS_USER" in os.environ:
            self.skipTest("this is that user")
        for program in (LULL, LULLD, TOOL, os.path.dirname(os.path.abspath(__file__))):
            host.require_open(program)
        python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # root's own may be closed to others
        place = tempfile.mkdtemp(prefix="lull-doctor-user-")
        self.addCleanup(host.remove, place)
        options = {}
        if os.getuid() == 0:
            os.chown(place, 12345, 12345)
            options = {"user": 12345, "group": 12345, "extra_groups": []}
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("LULL_EMULATED", "LD_"))}
        variables.update(LULL_TEST_AS_USER="1", TMPDIR=place, LULL_STATE_DIR=place, HOME=place)
        run = subprocess.run([LULL, "emulate", "--fault", "any_user", "1xA100-SXM4-40GB", "--", python, os.path.abspath(__file__), LULL,
                              LULLD, TOOL, "AsUser"], env=variables, cwd=place, capture_output=True, text=True, check=False, **options)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Ran 4 tests", run.stderr)


if __name__ == "__main__":
    chosen = sys.argv[4:] or ["TenBrokenMachines", "MoreBrokenMachines", "Output", "OtherUser"]
    unittest.main(argv=sys.argv[:1] + chosen)
