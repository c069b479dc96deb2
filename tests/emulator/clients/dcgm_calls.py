"""The calls of DCGM and dcgm-exporter in their order, in place of DCGM itself, whose library no package index has.

The order is that of DcgmCacheManager.cpp and DcgmGpmManager.cpp of DCGM 72fa3fe (2026-07-06): attaching to the GPUs, then one
round of dcgm-exporter's default counters and its counters of profiling, with a job
on eight GPUs that uses NVLink and the network.
usage: dcgm_calls.py LULL. SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys
import time

import job
import pynvml as n

LULL = sys.argv[1]
XID = 48  # that of ecc_uncorrected
ALL_LINKS = 0xffffffff
GRAPHICS, SM, TENSOR, DRAM, PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX = 1, 2, 5, 10, 20, 21, 60, 61
METRICS = [GRAPHICS, SM, TENSOR, DRAM, PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX]
GPUS = 8


def fields(device, *numbers):
    """Values of fields, each a number or a number and its scope."""
    values = n.nvmlDeviceGetFieldValues(device, list(numbers))
    assert [value.nvmlReturn for value in values] == [n.NVML_SUCCESS] * len(numbers), numbers
    return [value.value.ullVal if value.valueType == n.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG else value.value.uiVal
            for value in values]


def attach():
    n.nvmlInit()
    assert n.nvmlSystemGetDriverVersion().split(".")[0].isdigit()
    devices = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
    events = n.nvmlEventSetCreate()
    for index, device in enumerate(devices):
        assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(device))) == index
        assert n.nvmlDeviceGetSerial(device).isdigit() and n.nvmlDeviceGetBrand(device) == n.NVML_BRAND_NVIDIA
        assert n.nvmlDeviceGetPciInfo_v3(device).pciDeviceId & 0xffff == 0x10de
        assert n.nvmlDeviceGetName(device) == "NVIDIA H100 80GB HBM3"
        assert n.nvmlDeviceGetVirtualizationMode(device) == n.NVML_GPU_VIRTUALIZATION_MODE_NONE
        assert n.nvmlGpmQueryDeviceSupport(device).isSupportedDevice == 1
        assert n.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
        assert fields(device, n.NVML_FI_DEV_NVLINK_LINK_COUNT) == [18]
        assert n.nvmlDeviceGetMigMode(device) == [0, 0]
        n.nvmlDeviceRegisterEvents(device, n.nvmlEventTypeXidCriticalError, events)
        n.nvmlDeviceRegisterEvents(device, n.nvmlEventMigConfigChange, events)
    return devices, events


def read_nvlink_mib(device):
    return sum(fields(device, (n.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
                      (n.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS))) / 1024


def read_counters(device):
    """dcgm-exporter's default counters."""
    counters = {"sm_mhz": n.nvmlDeviceGetClockInfo(device, n.NVML_CLOCK_SM),
                "memory_mhz": n.nvmlDeviceGetClockInfo(device, n.NVML_CLOCK_MEM)}
    [counters["memory_c"]] = fields(device, n.NVML_FI_DEV_MEMORY_TEMP)
    counters["celsius"] = n.nvmlDeviceGetTemperature(device, n.NVML_TEMPERATURE_GPU)
    counters["watts"] = n.nvmlDeviceGetPowerUsage(device) / 1000
    begin_s = time.monotonic()
    [counters["energy_mj"]] = fields(device, n.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION)
    counters["time_s"] = (begin_s + time.monotonic()) / 2
    counters["replays"] = n.nvmlDeviceGetPcieReplayCounter(device)
    use = n.nvmlDeviceGetUtilizationRates(device)
    counters["use"], counters["memory_use"] = use.gpu, use.memory
    counters["encoder"] = n.nvmlDeviceGetEncoderUtilization(device)[0]
    counters["decoder"] = n.nvmlDeviceGetDecoderUtilization(device)[0]
    memory = n.nvmlDeviceGetMemoryInfo(device, version=n.nvmlMemory_v2)
    assert memory.used + memory.free + memory.reserved == memory.total
    counters["used_mib"] = memory.used >> 20
    counters["nvlink_mib"] = read_nvlink_mib(device)
    counters["remapped"] = fields(device, n.NVML_FI_DEV_REMAPPED_UNC, n.NVML_FI_DEV_REMAPPED_COR, n.NVML_FI_DEV_REMAPPED_FAILURE)
    return counters


def read_metrics(device):
    """dcgm-exporter's counters of profiling, from two samples of GPM; and what NVLink's counters count between them at least."""
    samples = [n.nvmlGpmSampleAlloc() for _ in range(2)]
    begin_s = time.monotonic()
    n.nvmlGpmSampleGet(device, samples[0])
    begin_mib = read_nvlink_mib(device)
    time.sleep(1)
    nvlink_mib = read_nvlink_mib(device) - begin_mib
    n.nvmlGpmSampleGet(device, samples[1])
    seconds = time.monotonic() - begin_s
    request = n.c_nvmlGpmMetricsGet_t(version=n.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(METRICS), sample1=samples[0],
                                      sample2=samples[1])
    for i, metric in enumerate(METRICS):
        request.metrics[i].metricId = metric
    n.nvmlGpmMetricsGet(request)
    for sample in samples:
        n.nvmlGpmSampleFree(sample)
    assert all(request.metrics[i].nvmlReturn == n.NVML_SUCCESS for i in range(len(METRICS)))
    return {metric: request.metrics[i].value for i, metric in enumerate(METRICS)}, nvlink_mib / seconds


def check_counters(before, after):
    assert 345 <= after["sm_mhz"] <= 1980 and after["memory_mhz"] == 2619
    assert after["celsius"] <= after["memory_c"] < 100 and after["replays"] == 0
    assert after["encoder"] == after["decoder"] == 0 and after["remapped"] == [0, 0, 0]
    assert 0 < after["memory_use"] <= after["use"] <= 100 and after["used_mib"] > 0
    mean_w = (after["energy_mj"] - before["energy_mj"]) / 1000 / (after["time_s"] - before["time_s"])
    assert 100 < mean_w < 700 and 100 < after["watts"] < 700, (mean_w, after)
    return mean_w


def check_metrics(metrics, least_mib_per_s, most_mib):
    """The counters between the samples, and those before and after them, enclose what GPM reports of NVLink."""
    assert 0 < metrics[TENSOR] <= metrics[SM] <= metrics[GRAPHICS] + 0.01 <= 100.02 and 0 < metrics[DRAM] <= 100
    assert metrics[PCIE_TX] == metrics[PCIE_RX] > 0
    mib_per_s = metrics[NVLINK_RX] + metrics[NVLINK_TX]
    assert mib_per_s > 0 and 0.99 * least_mib_per_s <= mib_per_s <= 1.01 * most_mib, (least_mib_per_s, mib_per_s, most_mib)


def check_event(devices, events):
    subprocess.run([LULL, "emulate", "set", "1:ecc_uncorrected=1x1"], check=True)
    n.nvmlDeviceGetUtilizationRates(devices[1])  # faults happen at calls
    event = n.nvmlEventSetWait_v2(events, 5000)
    assert event.eventType == n.nvmlEventTypeXidCriticalError and event.eventData == XID
    assert n.nvmlDeviceGetUUID(event.device) == n.nvmlDeviceGetUUID(devices[1])
    assert fields(devices[1], n.NVML_FI_DEV_ECC_DBE_VOL_TOTAL) == [1]


def main():
    devices, events = attach()
    while any(n.nvmlDeviceGetUtilizationRates(device).gpu == 0 for device in devices):
        time.sleep(0.1)
    for device in devices[:2]:
        before = read_counters(device)
        metrics, least_mib_per_s = read_metrics(device)
        after = read_counters(device)
        print(f"{check_counters(before, after):.1f} W by energy, {after['watts']:.1f} W shown, {metrics}")
        check_metrics(metrics, least_mib_per_s, after["nvlink_mib"] - before["nvlink_mib"])
    check_event(devices, events)
    n.nvmlEventSetFree(events)
    n.nvmlShutdown()


with job.running(LULL, GPUS, "megatron-3d"):
    main()
