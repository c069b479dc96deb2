#!/usr/bin/env python3
"""Field values of the emulated NVML against their getters, by data/nvml_fields.json: the same value, or the same refusal.
The oldest release of the driver refuses the ids that came later.

Usage: test_nvml_fields.py FIELDS LULL   SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import subprocess
import sys

BOARDS = "A100-SXM4-40GB,H100,B200,V100,RTX3090"
FAULTS = "ecc_corrected=5,ecc_uncorrected=2,row_remap=3"
ALL_LINKS = 0xffffffff
SUCCESS, NOT_SUPPORTED = 0, 3
LEAST_ANSWERED = 150
VALUES = {0: "double", 1: "uint", 3: "ulonglong", 5: "int"}
# Links beyond those of a board: the getter calls the link invalid.
EXPECTED_CODES = (SUCCESS, 2, NOT_SUPPORTED)


class Value(ctypes.Union):
    _fields_ = [("double", ctypes.c_double), ("uint", ctypes.c_uint), ("ulonglong", ctypes.c_ulonglong), ("int", ctypes.c_int)]


class Field(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_int), ("code", ctypes.c_int), ("value", Value)]


def read_field(library, device, number, scope):
    field = Field(id=number, scope=scope)
    assert library.nvmlDeviceGetFieldValues(device, 1, ctypes.byref(field)) == SUCCESS
    return field.code, getattr(field.value, VALUES[field.type])


def call(library, device, name, before, outputs, wanted, kind=ctypes.c_uint):
    """The code of a getter, and one of its outputs."""
    values = [kind() for _ in range(outputs)]
    code = getattr(library, name)(device, *before, *map(ctypes.byref, values))
    return code, values[wanted].value


def getter(library, device, row, number):
    """What the getter of a field returns; None: the field has none, or the getter has another unit."""
    first, second = row["arguments"]
    count = ctypes.c_ulonglong
    calls = {
        "ecc_mode": ((), 2, first, ctypes.c_uint),
        "ecc_total": ((first, second), 1, 0, count),
        "ecc_volatile": ((first, 0, second), 1, 0, count),
        "ecc_aggregate": ((first, 1, second), 1, 0, count),
        "retired_pending": ((), 1, 0, ctypes.c_uint),
        "remapped_rows": ((), 4, first, ctypes.c_uint),
        "link_errors": ((number - second, first), 1, 0, count),
        "scoped_link_errors": ((0, first), 1, 0, count),
        "link_state": ((0,), 1, 0, ctypes.c_uint),
        "link_version": ((0,), 1, 0, ctypes.c_uint),
        "pcie_replays": ((), 1, 0, ctypes.c_uint),
        "limit_range": ((), 2, first, ctypes.c_uint),
        "limit_default": ((), 1, 0, ctypes.c_uint),
        "limit": ((), 1, 0, ctypes.c_uint),
    }
    if row["read"] not in calls:
        return None
    before, outputs, wanted, kind = calls[row["read"]]
    return call(library, device, row["getter"], before, outputs, wanted, kind)


def near_energy(library, device, value):
    code, now_mj = call(library, device, "nvmlDeviceGetTotalEnergyConsumption", (), 1, 0, ctypes.c_ulonglong)
    return code == SUCCESS and 0 <= now_mj - value < 1000_000


def check_row(library, device, row, number, branch):
    """Returns whether the field answers."""
    code, value = read_field(library, device, number, 0)
    if "read" not in row or row["driver"] > branch:
        assert code == NOT_SUPPORTED, (number, code)
        return False
    assert code in EXPECTED_CODES, (number, code)
    wanted = getter(library, device, row, number)
    if wanted is not None:
        assert code == wanted[0] and (code != SUCCESS or value == wanted[1]), (row, number, code, value, wanted)
    if row["read"] == "energy":
        assert near_energy(library, device, value), (number, value)
    return code == SUCCESS


def check(rows):
    library = ctypes.CDLL("libnvidia-ml.so.1")
    assert library.nvmlInit_v2() == SUCCESS
    version = ctypes.create_string_buffer(80)
    assert library.nvmlSystemGetDriverVersion(version, 80) == SUCCESS
    branch = int(version.value.decode().split(".")[0])
    answered = set()
    for i in range(5):
        device = ctypes.c_void_p()
        assert library.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)) == SUCCESS
        own = {number for row in rows for number in range(row["first"], row["last"] + 1)
               if check_row(library, device, row, number, branch)}
        print(f"GPU {i}: {len(own)} fields answer")
        answered |= own
    _, errors = read_field(library, device_of(library, 1), 4, 0)
    assert errors == 2, errors
    _, everything = read_field(library, device_of(library, 1), 138, ALL_LINKS)
    assert everything == 0, everything
    print(f"driver {branch}: {len(answered)} fields answer on some board")
    assert len(answered) >= LEAST_ANSWERED, len(answered)


def device_of(library, index):
    device = ctypes.c_void_p()
    assert library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == SUCCESS
    return device


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        table = json.load(file)
    rows = table["fields"]
    for row in rows:
        row["driver"] = [entry["driver"] for entry in table["drivers"] if entry["first"] <= row["first"]][-1]
    if "LULL_EMULATED_NODE" in os.environ:
        check(rows)
        return
    numbers = [number for row in rows for number in range(row["first"], row["last"] + 1)]
    assert numbers == list(range(1, len(numbers) + 1)), "ids are missing or not in order"
    for release in ([], ["--driver", "535"]):
        subprocess.run([sys.argv[2], "emulate", *release, "--fault", FAULTS, BOARDS, "--", sys.executable, *sys.argv], check=True)


if __name__ == "__main__":
    main()
