#!/usr/bin/env python3
"""The emulated NVML against NVIDIA's own packages: names, sizes and version words of the newest and the oldest header, and
every function of nvidia-ml-py on several boards.

Usage: test_nvml_packages.py TABLE ABI_HEADER FOLDER LULL   The packages are fetched into FOLDER once; without the package
index the test is skipped (77). SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import glob
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile

PACKAGES = {"newest": "nvidia-nvml-dev==13.5.37", "oldest": "nvidia-nvml-dev-cu12==12.0.76",
            "pynvml": "nvidia-ml-py==13.615.71"}
OLDEST_BRANCH = 525
# Functions of the oldest header that are in no later one.
REMOVED = {"nvmlDeviceCcuGetStreamState", "nvmlDeviceCcuSetStreamState"}
BOARDS = ["A100-SXM4-40GB", "H100", "B200", "V100", "RTX3090"]
NOT_SUPPORTED = 3
CODES = {"INVALID_ARGUMENT": 2, "NOT_SUPPORTED": 3, "NOT_FOUND": 6}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def read(path):
    with open(path, encoding="latin-1") as file:
        return file.read()


# ---- packages ----

def fetch(folder):
    for name, package in PACKAGES.items():
        place = os.path.join(folder, name)
        if os.path.exists(os.path.join(place, "complete")):
            continue
        os.makedirs(place, exist_ok=True)
        result = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1",
                                 "--timeout", "15", "-d", place, package], check=False)
        if result.returncode != 0:
            print("skipped: the package index cannot be reached")
            sys.exit(77)
        for wheel in glob.glob(os.path.join(place, "*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place)
        with open(os.path.join(place, "complete"), "w", encoding="utf-8"):
            pass


def header(folder, name):
    return glob.glob(os.path.join(folder, name, "**", "nvml.h"), recursive=True)[0]


def declared(path):
    return set(re.findall(r"(?:nvmlReturn_t|const DECLDIR char\*|const char\*)\s+(?:DECLDIR\s+)?(nvml\w+)\s*\([^)]*\)\s*;",
                          read(path)))


# ---- headers ----

def evaluate(path, folder, expressions):
    """The values of expressions in C, with the header included."""
    source = os.path.join(folder, "evaluate.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include <stdio.h>\n#include "nvml.h"\nint main(void)\n{\n')
        file.writelines(f'    printf("%lu\\n", (unsigned long)({expression}));\n' for expression in expressions)
        file.write("    return 0;\n}\n")
    program = os.path.join(folder, "evaluate")
    subprocess.run([*os.environ.get("CC", "cc").split(), "-w", "-I", os.path.dirname(path), source, "-o", program],
                   check=True)
    return list(map(int, subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.split()))


def check_names(table, newest, oldest):
    names = {function["name"] for function in table["functions"]}
    first = {function["name"] for function in table["functions"] if function["driver"] <= OLDEST_BRANCH}
    assert names == declared(newest), names ^ declared(newest)
    assert declared(oldest) - REMOVED == first, (declared(oldest) - REMOVED) ^ first
    print(f"names: {len(names)} in the newest header, {len(first)} of them in the oldest, all as in the table")


def field_names(path):
    return {int(number): name for name, number in re.findall(r"#define NVML_FI_(\w+)\s+(\d+)\b", read(path))}


def check_fields(table, newest, oldest):
    """Every field id of the newest header is in a row, each row has the name of its first id, no row has ids of two branches, and
    the oldest branch has the ids of the oldest header."""
    rows = table["fields"]
    ids = field_names(newest)
    most = next(number for number, name in ids.items() if name == "MAX")
    assert rows[-1]["last"] == most - 1, (rows[-1], most)
    wrong = [(row["first"], row["name"], ids.get(row["first"])) for row in rows if ids.get(row["first"]) != row["name"]]
    begins = [entry["first"] for entry in table["drivers"]]
    wrong += [row for row in rows if "read" in row and any(row["first"] < begin <= row["last"] for begin in begins)]
    assert table["drivers"][0]["driver"] == OLDEST_BRANCH
    assert begins[:2] == [1, next(number for number, name in field_names(oldest).items() if name == "MAX")], begins
    assert not wrong, wrong
    print(f"fields: {most - 1} in the newest header, all in the table")


def check_structs(table, abi, path, folder):
    """Sizes of structs by the static asserts of our header, version words by the table; what a header lacks is left out."""
    text = read(path)
    sizes = {name: int(size) for size, name in re.findall(r'== (\d+),\s*"(nvml\w+_t)"', read(abi))}
    sizes = {name: size for name, size in sizes.items() if re.search(rf"\b{name}\s*;", text)}
    words = {name: int(word, 16) for name, word in table["structs"].items()
             if re.search(rf"#define\s+{name}\s", text)}
    values = evaluate(path, folder, [f"sizeof({name})" for name in sizes] + list(words))
    wanted = list(sizes.values()) + list(words.values())
    wrong = [(name, want, value) for name, want, value in zip([*sizes, *words], wanted, values) if want != value]
    assert not wrong, wrong
    print(f"{os.path.relpath(path, folder)}: {len(sizes)} sizes of structs and {len(words)} version words agree")
    return len(sizes)


# ---- nvidia-ml-py ----

class Recorder:
    """Stands between pynvml and the library: notes the code of each C function."""

    def __init__(self, pynvml):
        self.codes = {}
        self.lookup = pynvml._nvmlGetFunctionPointer
        pynvml._nvmlGetFunctionPointer = self.find

    def find(self, name):
        function = self.lookup(name)

        def call(*arguments):
            code = function(*arguments)
            self.codes.setdefault(name, []).append(code)
            return code
        call.restype = None
        return call


class Struct(ctypes.Structure):
    """In place of any struct: zeros, more than any function writes."""
    _fields_ = [("version", ctypes.c_uint), ("rest", ctypes.c_char * (1 << 16))]


def guess(pynvml, name, parameter, device, otherwise):
    """An argument for a parameter of pynvml, by its name."""
    text = parameter.lower()
    if "unit" in text and name.startswith("nvmlUnit"):
        return ctypes.cast(4096, pynvml.c_nvmlUnit_t)
    if text in ("handle", "device", "handle1", "device1", "migdevice", "migdevicehandle"):
        return device
    if text in ("handle2", "device2"):
        return pynvml.nvmlDeviceGetHandleByIndex(1)
    if "gpuinstance" in text and "id" not in text:
        return ctypes.cast(4096, pynvml.c_nvmlGpuInstance_t)
    if "computeinstance" in text and "id" not in text:
        return ctypes.cast(4096, pynvml.c_nvmlComputeInstance_t)
    if text == "eventset":
        return pynvml.nvmlEventSetCreate()
    if text in ("uuid", "serial", "pcibusid"):
        return {"uuid": pynvml.nvmlDeviceGetUUID, "serial": pynvml.nvmlDeviceGetSerial,
                "pcibusid": lambda gpu: pynvml.nvmlDeviceGetPciInfo(gpu).busId}[text](device)
    if text == "pid":
        return os.getpid()
    if text in ("values", "fieldids"):
        return [pynvml.NVML_FI_DEV_POWER_INSTANT]
    return otherwise()


def call_wrapper(pynvml, name, function, device):
    parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty
                  and p.kind is p.POSITIONAL_OR_KEYWORD]
    for otherwise in (int, Struct, lambda: ctypes.byref(Struct()), str):
        try:
            function(*(guess(pynvml, name, p.name, device, otherwise) for p in parameters))
            return
        except pynvml.NVMLError:
            return
        except (TypeError, ValueError, AttributeError, ctypes.ArgumentError, KeyError, IndexError):
            pass  # the wrapper wants something else: the next kind


def inside(table, boards):
    import pynvml
    classes = {function["name"]: function for function in table["functions"]}
    recorder = Recorder(pynvml)
    pynvml.nvmlInit()
    devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(len(boards))]
    wrappers = {name: function for name, function in vars(pynvml).items()
                if re.match(r"nvml[A-Z]", name) and inspect.isfunction(function)
                and name not in ("nvmlInit", "nvmlInitWithFlags", "nvmlShutdown")}
    answers = {board: {} for board in boards}
    for board, device in zip(boards, devices):
        for name, function in sorted(wrappers.items()):
            print(f"calling {name} on {board}", file=sys.stderr, flush=True)
            recorder.codes.clear()
            call_wrapper(pynvml, name, function, device)
            for called, codes in recorder.codes.items():
                answers[board].setdefault(called, codes[-1])
                assert called in classes, f"{called} is not in the table"
    problems = []
    for board, codes in answers.items():
        for name, code in codes.items():
            row = classes[name]
            # Numbers that are 0 and handles that do not exist are found before the refusal.
            if row["class"] == "refused" and code not in (CODES[row["code"]], 2, 25):
                problems.append(f"{board}: {name} returns {code}, the table says {row['code']}")
    named = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', read(pynvml.__file__)))
    print(f"nvidia-ml-py: {len(wrappers)} wrappers of {len(named)} functions, none crashes")
    print("not reached through a wrapper:", *sorted(named - answers[boards[0]].keys()))
    for board, codes in answers.items():
        refused = sum(code == NOT_SUPPORTED for code in codes.values())
        print(f"{board}: of {len(codes)} functions called {sum(code == 0 for code in codes.values())} return success, "
              f"{refused} NOT_SUPPORTED")
    print(*problems, sep="\n")
    return 1 if problems else 0


def main():
    table = load(sys.argv[1])
    if sys.argv[2] == "inside":
        return inside(table, BOARDS)
    abi, folder, lull = sys.argv[2:5]
    fetch(folder)
    newest, oldest = header(folder, "newest"), header(folder, "oldest")
    check_fields(load(os.path.join(os.path.dirname(sys.argv[1]), "nvml_fields.json")), newest, oldest)
    check_names(table, newest, oldest)
    check_structs(table, abi, newest, folder)
    check_structs(table, abi, oldest, folder)
    done = subprocess.run([lull, "emulate", "--seed", "0", "--fault", "any_user", ",".join(BOARDS), "--", sys.executable,
                           "-X", "faulthandler", os.path.abspath(__file__), sys.argv[1], "inside"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": os.path.join(folder, "pynvml")})
    print(done.stdout)
    if done.returncode != 0:
        print(done.stderr[-3000:])
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
