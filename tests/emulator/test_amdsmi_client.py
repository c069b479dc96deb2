#!/usr/bin/env python3
"""The package amdsmi from the package index on the emulated node, unmodified.

Usage: test_amdsmi_client.py VENV LIBRARY_26 LIBRARY_27 PROGRAM...   The venv is made once; without it and without the
index the test is skipped (77). PROGRAM runs a command on an emulated node. SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys

from test_clients import make_venv

PACKAGES = ["amdsmi==7.0.2"]

# Runs with the package on a node with two MI300X.
CLIENT = r"""
import ctypes, os, re
import amdsmi
from amdsmi import amdsmi_wrapper as w

source = open(w.__file__).read()
functions = {}
for name in set(re.findall(r"_libraries\['libamd_smi.so'\]\.(amdsmi_\w+)", source)):
    functions[name] = getattr(w, name)
assert len(functions) == 184, len(functions)

room = ctypes.create_string_buffer(1 << 20)

def argument(kind, handle):
    # A handle for a handle, a large zeroed room for a pointer, 0 for a number.
    if kind is w.amdsmi_processor_handle or kind is ctypes.c_void_p:
        return handle
    if issubclass(kind, ctypes._Pointer):
        return ctypes.cast(room, kind)
    return kind()

def call_all(handle, except_for=()):
    codes = {}
    for name, function in sorted(functions.items()):
        if name in except_for:
            continue
        ctypes.memset(room, 0, len(room))
        codes[name] = function(*[argument(kind, handle) for kind in function.argtypes or []])
    return codes

ends = ("amdsmi_init", "amdsmi_shut_down", "amdsmi_free_name_value_pairs")
free = ends + ("amdsmi_get_lib_version", "amdsmi_status_code_to_string")
before = call_all(None, free)
assert set(before.values()) == {w.AMDSMI_STATUS_NOT_INIT}, before

amdsmi.amdsmi_init()
handles = amdsmi.amdsmi_get_processor_handles()
assert len(handles) == 2
handle = handles[0]

# No call crashes; each has a documented code.
known = set(w.amdsmi_status_t__enumvalues)
codes = call_all(handle, ends)
assert set(codes.values()) <= known, codes
assert set(call_all(None, ends).values()) <= known
bad = call_all(ctypes.cast(room, w.amdsmi_processor_handle), ends)
gpu = [n for n, f in functions.items() if f.argtypes and f.argtypes[0] is w.amdsmi_processor_handle
       and n not in ends and "cpu" not in n and "hsmp" not in n]
wrong = {n: bad[n] for n in gpu if bad[n] != w.AMDSMI_STATUS_NOT_FOUND}
assert not wrong, wrong
working = sorted(n for n, code in codes.items() if code == 0)
refused = sorted(n for n, code in codes.items() if code == w.AMDSMI_STATUS_NOT_SUPPORTED)
print(f"of {len(functions)} functions: {len(working)} work with zeroed arguments, {len(refused)} are not supported")

# No function of the Python interface that takes a handle crashes. Some of the package fail on their own.
for name in sorted(dir(amdsmi)):
    call = getattr(amdsmi, name)
    if not name.startswith("amdsmi_get") or not callable(call):
        continue
    try:
        call(handle)
    except Exception:
        pass

version = amdsmi.amdsmi_get_lib_version()
assert version["major"] == 26, version
asic = amdsmi.amdsmi_get_gpu_asic_info(handle)
assert asic["market_name"] == "AMD Instinct MI300X" and asic["num_compute_units"] == 304, asic
assert asic["vendor_id"] == "0x1002", asic
assert re.fullmatch(r"0000:[0-9a-f]{2}:00\.0", amdsmi.amdsmi_get_gpu_device_bdf(handle))
bdf = amdsmi.amdsmi_get_gpu_device_bdf(handle)
assert amdsmi.amdsmi_get_processor_handle_from_bdf(bdf).value == handle.value
total = amdsmi.amdsmi_get_gpu_memory_total(handle, amdsmi.AmdSmiMemoryType.VRAM)
usage = amdsmi.amdsmi_get_gpu_vram_usage(handle)
assert usage["vram_total"] == total >> 20 == 196592 and usage["vram_used"] == 0, usage
power = amdsmi.amdsmi_get_power_info(handle)
metrics = amdsmi.amdsmi_get_gpu_metrics_info(handle)
assert abs(power["current_socket_power"] - metrics["current_socket_power"]) <= 5, (power, metrics)
assert metrics["current_gfxclk"] == amdsmi.amdsmi_get_clock_info(handle, amdsmi.AmdSmiClkType.GFX)["clk"]
assert metrics["vram_max_bandwidth"] == amdsmi.amdsmi_get_gpu_vram_info(handle)["vram_max_bandwidth"]
assert metrics["temperature_edge"] == "N/A", metrics["temperature_edge"]
assert amdsmi.amdsmi_get_gpu_activity(handle)["gfx_activity"] == 0
clocks = amdsmi.amdsmi_get_clk_freq(handle, amdsmi.AmdSmiClkType.GFX)
assert clocks["frequency"][0] == 132000000 and clocks["frequency"][-1] == 2100000000, clocks
assert amdsmi.amdsmi_get_pcie_info(handle)["pcie_static"]["max_pcie_speed"] == 32000
assert amdsmi.amdsmi_topo_get_link_type(handles[0], handles[1])["type"] == 2
assert amdsmi.amdsmi_is_P2P_accessible(handles[0], handles[1])
assert amdsmi.amdsmi_get_gpu_memory_partition(handle) == "NPS1"
assert amdsmi.amdsmi_get_gpu_compute_partition(handle) == "SPX"
assert amdsmi.amdsmi_get_gpu_total_ecc_count(handle)["uncorrectable_count"] == 0
presets = w.struct_amdsmi_power_profile_status_t()
def profile():
    assert w.amdsmi_get_gpu_power_profile_presets(handle, 0, ctypes.byref(presets)) == 0
    return presets.current
assert profile() == w.AMDSMI_PWR_PROF_PRST_BOOTUP_DEFAULT
if os.geteuid() == 0:
    assert w.amdsmi_set_gpu_power_profile(handle, 0, w.AMDSMI_PWR_PROF_PRST_COMPUTE_MASK) == 0
    assert profile() == w.AMDSMI_PWR_PROF_PRST_COMPUTE_MASK
    assert w.amdsmi_set_gpu_power_profile(handle, 0, w.AMDSMI_PWR_PROF_PRST_VR_MASK) == w.AMDSMI_STATUS_INVAL
    assert w.amdsmi_set_gpu_memory_partition(handle, w.AMDSMI_MEMORY_PARTITION_NPS4) == w.AMDSMI_STATUS_NOT_SUPPORTED
amdsmi.amdsmi_shut_down()
"""

# On a node without AMD GPUs the library answers as one whose driver is not loaded.
OTHER_NODE = r"""
import amdsmi
try:
    amdsmi.amdsmi_init()
    raise SystemExit("a node without AMD GPUs")
except amdsmi.AmdSmiLibraryException as error:
    assert error.get_error_code() == amdsmi.amdsmi_wrapper.AMDSMI_STATUS_DRIVER_NOT_LOADED, error
try:
    amdsmi.amdsmi_get_processor_handles()
    raise SystemExit("handles without AMD GPUs")
except amdsmi.AmdSmiLibraryException as error:
    assert error.get_error_code() == amdsmi.amdsmi_wrapper.AMDSMI_STATUS_NOT_INIT, error
"""


def list_names(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines()} - {"lull_emulated_library"}


def check_exports(first, second):
    """Nothing else is exported; version 27 lacks what it has removed, and both libraries have their own SONAME."""
    names = list_names(first), list_names(second)
    for number, library, found in zip((26, 27), (first, second), names):
        assert all(re.match("amdsmi_", name) for name in found), found
        assert not found & {"amdsmi_abi", "amdsmi_enter", "amdsmi_enter_root", "amdsmi_module"}
        dynamic = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert f"[libamd_smi.so.{number}]" in dynamic, dynamic
    assert names[0] - names[1] == {"amdsmi_gpu_driver_reload", "amdsmi_set_gpu_clk_range"}, names[0] - names[1]


def main():
    folder, first, second, *program = sys.argv[1:]
    check_exports(first, second)
    python = make_venv(folder, PACKAGES)
    environment = dict(os.environ)
    for name in ("ROCM_HOME", "ROCM_PATH", "LULL_EMULATED_AMD_SMI"):
        environment.pop(name, None)
    for spec, client in (("2xMI300X", CLIENT), ("2xA100", OTHER_NODE)):
        result = subprocess.run([*program, "--seed", "0", spec, "--", python, "-c", client], env=environment)
        if result.returncode != 0:
            print(f"amdsmi on {spec}: exit status {result.returncode}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
