#!/usr/bin/env python3
"""Real NVML clients on the emulated node, unmodified, from the package index.

Usage: test_clients.py VENV PROGRAM...   The venv is made once; without it and without the index
the test is skipped (77). SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import venv

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = ["nvidia-ml-py", "nvitop", "gpustat", "zeus", "gputil", "codecarbon", "setuptools<81",  # GPUtil imports distutils
            "cuda-core==1.2.2", "cuda-bindings==13.5.0", "importlib-metadata"]
# It requires packages for figures and the network, which its readings of GPUs do not need.
BARE_PACKAGES = ["carbontracker==2.4.7"]
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")

PYNVML = """
import host, os, pynvml as n, time
n.nvmlInit()
assert n.nvmlDeviceGetCount() == 2
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
h = handles[0]
assert n.nvmlDeviceGetName(h) == "NVIDIA A100-SXM4-40GB"
assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handles[1]))) == 1
bus_id = n.nvmlDeviceGetPciInfo(handles[1]).busId
assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(bus_id)) == 1
assert n.nvmlDeviceGetArchitecture(h) == n.NVML_DEVICE_ARCH_AMPERE
assert n.nvmlDeviceGetCudaComputeCapability(h) == (8, 0)
assert n.nvmlDeviceGetPowerManagementLimitConstraints(h) == [100000, 400000]
memory = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
assert memory.total == 40960 << 20
clocks = n.nvmlDeviceGetSupportedGraphicsClocks(h, n.nvmlDeviceGetSupportedMemoryClocks(h)[0])
assert clocks[0] == 1410 and clocks[-1] == 210 and len(clocks) == 81
assert n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM) == 210
assert n.nvmlDeviceGetCurrentClocksThrottleReasons(h) == n.nvmlClocksThrottleReasonGpuIdle
assert n.nvmlDeviceGetComputeRunningProcesses(h) == []
assert 55000 < n.nvmlDeviceGetPowerUsage(h) < 65000
assert n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU) == 26
fields = n.nvmlDeviceGetFieldValues(h, [n.NVML_FI_DEV_POWER_INSTANT, n.NVML_FI_DEV_POWER_AVERAGE])
assert fields[0].nvmlReturn == 0 and 55000 < fields[0].value.uiVal < 65000
assert fields[1].nvmlReturn == n.NVML_ERROR_NOT_SUPPORTED
begin, start = n.nvmlDeviceGetTotalEnergyConsumption(h), time.monotonic()
while n.nvmlDeviceGetTotalEnergyConsumption(h) == begin: pass
step = time.monotonic() - start
assert step < 0.15 or step < 0.15 * host.slowness(), step
try:
    n.nvmlDeviceGetFanSpeed(h)
    raise SystemExit("an SXM board has no fan")
except n.NVMLError_NotSupported:
    pass
if os.geteuid() == 0:
    start = time.monotonic()
    n.nvmlDeviceSetGpuLockedClocks(h, 600, 600)
    took = time.monotonic() - start
    assert 0.002 <= took and (took < 0.1 or took < 0.1 * host.slowness()), took
    n.nvmlDeviceResetGpuLockedClocks(h)
    n.nvmlDeviceSetPowerManagementLimit(h, 300000)
    assert n.nvmlDeviceGetEnforcedPowerLimit(h) == 300000
    try:
        n.nvmlDeviceSetMemoryLockedClocks(h, 1215, 1215)
        raise SystemExit("an A100 cannot lock its memory clock")
    except n.NVMLError_NotSupported:
        pass
n.nvmlShutdown()
try:
    n.nvmlDeviceGetCount()
    raise SystemExit("after shutdown")
except n.NVMLError_Uninitialized:
    pass
"""

ZEUS = """
import time
from zeus.monitor import ZeusMonitor
monitor = ZeusMonitor(gpu_indices=[0, 1])
monitor.begin_window("sleep", sync_execution=False)
time.sleep(3)
window = monitor.end_window("sleep", sync_execution=False)
for gpu, energy in window.gpu_energy.items():
    power = energy / window.time
    print("zeus", gpu, energy, power)
    assert abs(power - 59.7) < 0.05 * 59.7, power
"""

# Clients of nvidia-smi, whose numbers equal NVML's.
NVIDIA_SMI = """
import re, subprocess, GPUtil, nvitop.api.device, pynvml as n
from codecarbon.core.gpu import AllGPUDevices, is_nvidia_system

n.nvmlInit()
gpus = GPUtil.getGPUs()
assert len(gpus) == n.nvmlDeviceGetCount() == 3
assert is_nvidia_system()
shown = AllGPUDevices().get_gpu_details()
for index, (gpu, details) in enumerate(zip(gpus, shown, strict=True)):
    h = n.nvmlDeviceGetHandleByIndex(index)
    memory = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
    assert (gpu.id, gpu.uuid, gpu.name, gpu.serial) == (index, n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetName(h), n.nvmlDeviceGetSerial(h))
    assert (gpu.memoryTotal, gpu.memoryUsed, gpu.memoryFree) == tuple(m >> 20 for m in (memory.total, memory.used, memory.free))
    assert gpu.temperature == n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU) and gpu.driver == n.nvmlSystemGetDriverVersion()
    assert gpu.load == 0.0 == n.nvmlDeviceGetUtilizationRates(h).gpu
    assert details["uuid"] == gpu.uuid and details["power_limit"] == n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000

# nvitop documents the query that equals each of its properties. The real nvidia-smi has no clocks.max.video.
with open(nvitop.api.device.__file__) as file:
    names = {name for names in re.findall(r"--query-gpu=([\\w.,]+)", file.read()) for name in names.split(",")} - {"clocks.max.video"}
assert len(names) > 25, names
for name in sorted(names):
    done = subprocess.run(["nvidia-smi", "--query-gpu=" + name, "--format=csv,noheader"], capture_output=True, text=True)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3, (name, done)
"""


def install(python, *words):
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15", *words], check=False)
    if done.returncode != 0:
        print("skipped: the package index cannot be reached")
        sys.exit(77)


def make_venv(path, packages, bare_packages=()):
    python = os.path.join(path, "bin", "python")
    done = os.path.join(path, "complete")
    wanted = "\n".join([*packages, *bare_packages])
    if not os.path.exists(done) or open(done, encoding="utf-8").read() != wanted:
        venv.create(path, with_pip=True, clear=True)
        install(python, *packages)
        if bare_packages:
            install(python, "--no-deps", *bare_packages)
        with open(done, "w", encoding="utf-8") as file:
            file.write(wanted)
    return python


def main():
    python = make_venv(sys.argv[1], PACKAGES, BARE_PACKAGES)
    tool = os.path.join(os.path.dirname(python), "")
    emulate = [*sys.argv[2:], "--seed", "0"]

    def run(spec, *command):
        print("running", spec, command[0], flush=True)
        return subprocess.run([*emulate, spec, "--", *command], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=150,
                              env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PYTHONPATH": TESTS}).stdout

    run("2xA100-SXM4-40GB", python, "-c", PYNVML)
    gpus = json.loads(run("2xA100-SXM4-40GB", tool + "gpustat", "--json"))["gpus"]
    assert [gpu["name"] for gpu in gpus] == ["NVIDIA A100-SXM4-40GB"] * 2
    assert gpus[0]["power.draw"] in (59, 60) and gpus[0]["enforced.power.limit"] == 400
    screen = run("2xH100,A40", tool + "nvitop", "-1")
    assert screen.count("H100 80GB HBM3") == 2 and "74W / 700W" in screen, screen
    print(run("2xA100-SXM4-40GB", python, "-c", ZEUS))
    run("2xH100,A40", python, "-c", NVIDIA_SMI)
    run("2xH100", python, os.path.join(SCRIPTS, "cuda_core.py"))
    print(run("1xA100-SXM4-40GB", python, os.path.join(SCRIPTS, "carbon.py"), sys.argv[2]))
    print(run("8xH100", python, os.path.join(SCRIPTS, "dcgm_calls.py"), sys.argv[2]))


if __name__ == "__main__":
    main()
