#!/usr/bin/env python3
"""Another program on the node: takes the clock locks of all GPUs back twice a second until it is ended.
Used by the tests and tools/bench, on emulated nodes.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import time


def main():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    count = ctypes.c_uint()
    assert nvml.nvmlInit_v2() == 0
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    devices = [ctypes.c_void_p() for _ in range(count.value)]
    for index, device in enumerate(devices):
        assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
    end = time.monotonic() + 600
    while time.monotonic() < end:
        for device in devices:
            nvml.nvmlDeviceResetGpuLockedClocks(device)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
