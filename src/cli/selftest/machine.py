"""Facts about the machine: kernel, driver, processors, and the place of each GPU on the PCI bus. SPDX-License-Identifier: Apache-2.0"""
import glob
import os
import platform
import re
import sys

PCI = "/sys/bus/pci/devices"


def read(path):
    """The text of a file; None: it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def find(pattern, text):
    found = re.search(pattern, text or "", re.M)
    return found[1] if found else None


def pci_place(address):
    """The bridges above a device, its NUMA node and link."""
    folder = os.path.join(PCI, address[-12:].lower())  # NVML's domains have eight digits, the kernel's four
    names = ("numa_node", "local_cpulist", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    bridges = re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", os.path.realpath(folder)) if os.path.exists(folder) else None
    return {"address": address, "path": bridges, **{name: read(os.path.join(folder, name)) for name in names}}


def machine_facts(device):
    processors = read("/proc/cpuinfo") or ""
    return {
        "kernel": platform.release(), "kernel_version": platform.version(), "architecture": platform.machine(),
        "system": find(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release")), "libc": " ".join(platform.libc_ver()),
        "python": sys.version.split()[0], "processor": find(r"^model name\s*: (.*)$", processors), "processors": os.cpu_count(),
        "memory_kb": find(r"^MemTotal:\s*(\d+)", read("/proc/meminfo")), "numa_nodes": len(glob.glob("/sys/devices/system/node/node[0-9]*")),
        "hypervisor": " hypervisor" in processors, "driver_text": read("/proc/driver/nvidia/version"),
        "driver_parameters": read("/proc/driver/nvidia/params"), "driver_version": device.get("driver_version"),
        "gpus": [pci_place(gpu["pci_bus_id"]) for gpu in device["gpus"]],
    }
