#!/usr/bin/env python3
"""The emulated NVML against data/nvml_functions.json: each function is exported where the table says so, checks its
arguments before it refuses, and does what its class says. Nothing else is needed.

Usage: test_nvml_table.py TABLE LULL   SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import subprocess
import sys

BOARDS = "GB200,A100-SXM4-40GB,H100,V100,RTX3090"
BUFFER_BYTES = 1 << 16
BAD_HANDLE = 4096
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, VERSION_MISMATCH = 0, 2, 3, 25
CODES = {"INVALID_ARGUMENT": 2, "NOT_SUPPORTED": 3, "NOT_FOUND": 6}
# They open or close the library, or take no part in the checks of handles.
APART = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}

def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Client:
    """Calls functions with arguments of the right kinds; what they point to is zero but for version words."""

    def __init__(self, table):
        self.structs = {name: int(word, 16) for name, word in table["structs"].items()}
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.library.nvmlInit_v2() == SUCCESS
        self.devices = []
        count = ctypes.c_uint()
        assert self.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == SUCCESS
        for i in range(count.value):
            device = ctypes.c_void_p()
            assert self.library.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)) == SUCCESS
            self.devices.append(device.value)

    def arguments(self, function, device):
        """The arguments, and the buffers that they point to."""
        values = []
        for take in function["takes"].split():
            if take == "device":
                values.append(ctypes.c_void_p(device))
            elif take in ("number", "instance"):
                values.append(ctypes.c_uint(take == "instance"))
            elif take == "set":
                created = ctypes.c_void_p()
                assert self.library.nvmlEventSetCreate(ctypes.byref(created)) == SUCCESS
                values.append(created)
            elif take == "handle":
                values.append(ctypes.c_void_p(BAD_HANDLE))
            else:
                buffer = ctypes.create_string_buffer(BUFFER_BYTES)
                if take in ("pointer", "optional"):
                    values.append(buffer)
                    continue
                word = self.structs[take.split("|")[-1]]
                buffer[0:4] = word.to_bytes(4, "little")
                values.append(buffer)
        return values

    def call(self, function, values):
        return getattr(self.library, function["name"])(*values)


def check_bad_arguments(client, function):
    """Spoils one argument at a time."""
    problems = []
    for at, take in enumerate(function["takes"].split()):
        for device in client.devices:
            values = client.arguments(function, device)
            wanted = INVALID_ARGUMENT
            if take == "device":
                values[at] = ctypes.c_void_p(BAD_HANDLE)
            elif take in ("set", "pointer"):
                values[at] = None
            elif take in client.structs or "|" in take:
                values[at][0:4] = bytes(4)
                if "handle" not in function["takes"].split()[:at]:
                    wanted = VERSION_MISMATCH
            else:
                continue
            code = client.call(function, values)
            # A board that lacks the feature may say so before it looks at other arguments than the first.
            if code != wanted and not (at > 1 and code == NOT_SUPPORTED and function["class"] == "works"):
                problems.append(f"{function['name']}: argument {at} ({take}) spoilt gives {code}, not {wanted}")
    return sorted(set(problems))


def inside(table):
    client = Client(table)
    problems = []
    for device in client.devices:
        assert client.library.nvmlDeviceSetAccountingMode(ctypes.c_void_p(device), 1) == SUCCESS
    for function in table["functions"]:
        if function["name"] in APART:
            continue
        problems += check_bad_arguments(client, function)
        codes = [client.call(function, client.arguments(function, device)) for device in client.devices]
        if function["class"] == "refused" and set(codes) != {CODES[function["code"]]}:
            problems.append(f"{function['name']}: returns {codes}, the table says {function['code']}")
        if function["class"] == "works" and set(codes) == {NOT_SUPPORTED}:
            problems.append(f"{function['name']}: no board supports it, the table says that it works")
    print(*problems, sep="\n")
    return 1 if problems else 0


def inside_versions(version, cuda):
    nvml, driver = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.CDLL("libcuda.so.1")
    text, number, number_of_cuda = ctypes.create_string_buffer(80), ctypes.c_int(), ctypes.c_int()
    assert nvml.nvmlSystemGetNVMLVersion(text, 80) == SUCCESS
    assert text.value.decode() == f"{cuda // 1000}.{version}", text.value
    assert nvml.nvmlSystemGetCudaDriverVersion(ctypes.byref(number)) == SUCCESS
    assert driver.cuDriverGetVersion(ctypes.byref(number_of_cuda)) == 0
    assert number.value == number_of_cuda.value == cuda, (number, number_of_cuda)
    assert nvml.nvmlInit_v2() == SUCCESS
    assert nvml.nvmlSystemGetDriverVersion(text, 80) == SUCCESS
    assert text.value.decode() == version, text.value
    return 0


def inside_names(table, branch):
    library = ctypes.CDLL("libnvidia-ml.so.1")
    for function in table["functions"]:
        assert hasattr(library, function["name"]) == (function["driver"] <= branch), (function, branch)
    return 0


def main():
    path, lull = sys.argv[1:3]
    table = load(path)
    if lull == "inside":
        what = sys.argv[3]
        if what == "versions":
            return inside_versions(sys.argv[4], int(sys.argv[5]))
        if what == "names":
            return inside_names(table, int(sys.argv[4]))
        return inside(table)

    def run(*arguments, driver=None, spec="A100"):
        options = ["--driver", driver] if driver else []
        subprocess.run([lull, "emulate", *options, "--seed", "0", "--fault", "any_user", spec, "--", sys.executable, os.path.abspath(__file__),
                        path, "inside", *map(str, arguments)], check=True, timeout=100)

    for driver in table["drivers"]:
        run("names", driver["branch"], driver=str(driver["branch"]))
        run("versions", driver["version"], driver["cuda"], driver=str(driver["branch"]))
    newest = table["drivers"][-1]
    run("names", newest["branch"])
    run("versions", newest["version"], newest["cuda"])
    run("versions", "550.54.15", 12040, driver="550.54.15")
    run("calls", spec=BOARDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
