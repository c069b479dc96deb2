#!/usr/bin/env python3
"""Every function of Sysman on the emulated node, and the package pyzes from the package index, unmodified.

Usage: test_levelzero_client.py VENV LIBRARY PROGRAM...   The venv is made once; without it and without the index the
test is skipped (77). PROGRAM runs a command on an emulated node. SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import re
import subprocess
import sys

from test_clients import make_venv

PACKAGES = ["pyzes==0.1.3"]
HEADER = "/usr/include/level_zero/zes_api.h"  # of libze-dev

UNINITIALIZED, UNSUPPORTED = 0x78000001, 0x78000003
NULL_HANDLE, INVALID_ARGUMENT = 0x78000005, 0x78000004

# Runs on a node with two Max 1550. pyzes opens the loader by a path of the system; here it gets the emulated one.
CLIENT = r"""
import ctypes
open_library = ctypes.CDLL
ctypes.CDLL = lambda path, *rest, **more: open_library(path.replace("/usr/lib/x86_64-linux-gnu/", ""), *rest, **more)
import pyzes as z
from ctypes import byref, c_double, c_uint32

def list_of(kind, call, *parent):
    count = c_uint32(0)
    assert call(*parent, byref(count), None) == 0
    handles = (kind * count.value)()
    assert call(*parent, byref(count), handles) == 0
    return [kind(handle) if isinstance(handle, int) else handle for handle in handles]

assert z.zesInit(0) == 0
driver, = list_of(z.zes_driver_handle_t, z.zesDriverGet)
devices = list_of(z.zes_device_handle_t, z.zesDeviceGet, driver)
assert len(devices) == 2
device = devices[0]
facts = z.zes_device_properties_t()
facts.stype = z.ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES
facts.core.stype = 3
assert z.zesDeviceGetProperties(device, byref(facts)) == 0
assert b"Max 1550" in bytes(facts.core.name), facts.core.name
memory, = list_of(z.zes_mem_handle_t, z.zesDeviceEnumMemoryModules, device)
state = z.zes_mem_state_t()
state.stype = z.ZES_STRUCTURE_TYPE_MEM_STATE
assert z.zesMemoryGetState(memory, byref(state)) == 0
size = z.zes_mem_properties_t()
size.stype = z.ZES_STRUCTURE_TYPE_MEM_PROPERTIES
assert z.zesMemoryGetProperties(memory, byref(size)) == 0
assert state.free == state.size == size.physicalSize > 100 << 30, (state.free, size.physicalSize)
domains = list_of(z.zes_freq_handle_t, z.zesDeviceEnumFrequencyDomains, device)
clock = z.zes_freq_state_t()
clock.stype = z.ZES_STRUCTURE_TYPE_FREQ_STATE
assert z.zesFrequencyGetState(domains[0], byref(clock)) == 0 and clock.actual == 0
sensor, = list_of(z.zes_temp_handle_t, z.zesDeviceEnumTemperatureSensors, device)
celsius = c_double()
assert z.zesTemperatureGetState(sensor, byref(celsius)) == 0 and 20 < celsius.value < 50
energy = z.zes_power_energy_counter_t()
for domain in list_of(z.zes_pwr_handle_t, z.zesDeviceEnumPowerDomains, device):
    assert z.zesPowerGetEnergyCounter(domain, byref(energy)) == 0 and energy.timestamp > 0
"""


def list_names(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines()} - {"lull_emulated_library"}


def check_exports(names):
    assert all(re.fullmatch("zes[A-Z][A-Za-z]+", name) for name in names), names
    assert len(names) == 151, len(names)  # of version 1.17
    if os.path.exists(HEADER):
        with open(HEADER, encoding="utf-8") as header:
            wanted = set(re.findall(r"^(zes[A-Z][A-Za-z]+)\(", header.read(), re.M))
        assert wanted <= names, wanted - names


def call_all(path):
    """Calls every function with no handle, a bad one and the first device; the argument after it is a zeroed room."""
    library = ctypes.CDLL(path)
    room = ctypes.create_string_buffer(1 << 16)

    def call(name, handle):
        ctypes.memset(room, 0, len(room))
        return getattr(library, name)(handle, room, room, room, room) & 0xffffffff

    names = sorted(list_names(path) - {"zesInit", "zesDriverGet"})
    assert {call(name, None) for name in names} == {UNINITIALIZED}
    if library.zesInit(0) != 0:
        raise SystemExit("zesInit")
    assert {call(name, None) for name in names} == {NULL_HANDLE}
    bad = {name: call(name, ctypes.addressof(room)) for name in names}
    assert set(bad.values()) == {INVALID_ARGUMENT}, bad
    drivers, devices, count = (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)(), ctypes.c_uint32(1)
    assert library.zesDriverGet(ctypes.byref(count), drivers) == 0
    assert library.zesDeviceGet(ctypes.c_void_p(drivers[0]), ctypes.byref(count), devices) == 0
    codes = [call(name, ctypes.c_void_p(devices[0])) for name in names]
    assert set(codes) <= {0, UNSUPPORTED, INVALID_ARGUMENT, 0x70010000}, [hex(code) for code in codes]
    print(f"{len(names) + 2} functions; {codes.count(UNSUPPORTED)} are not supported for a device")


def main():
    if sys.argv[1] == "--calls":
        return call_all(sys.argv[2])
    folder, library, *program = sys.argv[1:]
    check_exports(list_names(library))
    emulate = [*program, "--seed", "0"]
    subprocess.run([*emulate, "2xMax1550", "--", sys.executable, __file__, "--calls", library], check=True)
    subprocess.run([*emulate, "2xMax1550", "--", make_venv(folder, PACKAGES), "-c", CLIENT], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
