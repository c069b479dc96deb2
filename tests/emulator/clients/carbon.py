"""carbontracker, whose energy must be that of NVML's counter, with a job on the GPU.

usage: carbon.py LULL. SPDX-License-Identifier: Apache-2.0
"""
import sys
import time

import job
import pynvml as n
from carbontracker.components.component import create_components
from carbontracker.loggerutil import Logger

SAMPLES = 20


def main():
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    while n.nvmlDeviceGetUtilizationRates(h).gpu == 0:
        time.sleep(0.1)
    time.sleep(1)  # a reading of power is the mean of up to a second
    [gpu] = create_components("gpu", pids=[], devices_by_pid=False, logger=Logger())
    gpu.init()
    assert gpu.devices() == [n.nvmlDeviceGetName(h)]
    begin_mj, begin_s = n.nvmlDeviceGetTotalEnergyConsumption(h), time.monotonic()
    for _ in range(SAMPLES):
        gpu.collect_power_usage(1)
        time.sleep(0.1)
    seconds = time.monotonic() - begin_s
    counted_j = (n.nvmlDeviceGetTotalEnergyConsumption(h) - begin_mj) / 1000
    tracked_j = gpu.energy_usage([seconds])[0] * 3.6e6
    gpu.shutdown()
    print(f"carbontracker: {tracked_j:.1f} J, counter: {counted_j:.1f} J in {seconds:.2f} s")
    assert abs(tracked_j - counted_j) < 0.2 * counted_j


with job.running(sys.argv[1], 1):
    main()
