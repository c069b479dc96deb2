#!/usr/bin/env python3
"""Calls every getter of NVML that nvml_getters.json describes, and records inputs, return codes and outputs.

A process of its own makes the calls. If a call crashes or hangs, the next process continues behind it, and the record says so.
Nothing here sets anything: only the functions of the table, fields and GPM samples are called.

A row of the table is the call in words: `device` each GPU, `peer` each other GPU, NAME=VALUES an input (`0-3`, `0,10`, `supported`: the
supported memory clocks; `/u64`: 64 bits wide), NAME:TYPE an output, NAME*TYPE an array of outputs, NAME# its count in and out, NAME%[N]
its length in. A struct with a version gets its version word.

Usage: nvml_dump.py (the process) FIRST    SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import itertools
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time

TABLE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "nvml_getters.json")
LIBRARY = "libnvidia-ml.so.1"
CAPACITY = 1024
SHOWN_SAMPLES = 3
FIELDS = 340  # ids of the header end at 309
GPM_METRICS = 340
GPM_WAIT_S = 0.2
CALL_S, END_S = 15.0, 5.0
VERSION_MISMATCH = 25
PRIMITIVES = {"char": ctypes.c_char, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "i32": ctypes.c_int32,
              "u64": ctypes.c_uint64, "i64": ctypes.c_int64, "ulong": ctypes.c_ulong, "f64": ctypes.c_double,
              "pointer": ctypes.c_void_p, "device": ctypes.c_void_p}
FIELD_VALUES = {0: ctypes.c_double, 1: ctypes.c_uint32, 2: ctypes.c_ulong, 3: ctypes.c_uint64, 4: ctypes.c_int64, 5: ctypes.c_int32,
                6: ctypes.c_uint16}


def load_table():
    with open(TABLE, encoding="ascii") as file:
        return json.load(file)


# ---- names that the library exports -----------------------------------------------------------------


def loaded_path():
    """The library's file, once it is loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            if "libnvidia-ml" in line:
                return line.split(None, 5)[5].strip()
    return None


def exported_names(path):
    """The functions in .dynsym of a 64-bit ELF file whose names begin with nvml."""
    with open(path, "rb") as file:
        data = file.read()
    offset, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * i) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        text = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index = struct.unpack_from("<IBBH", data, at)
            if index != 0 and info & 15 in (2, 10):  # defined; a function, direct or indirect
                names.add(data[text + name:data.index(b"\0", text + name)].decode("ascii", "replace"))
    return sorted(name for name in names if name.startswith("nvml"))


# ---- types ------------------------------------------------------------------------------------------


class Types:
    def __init__(self, structs):
        self.structs = structs
        self.made = dict(PRIMITIVES)

    def find(self, name):
        if name not in self.made:
            row = self.structs[name]
            members = []
            for member in row["members"]:
                kind = self.find(member[1])
                if len(member) == 4:
                    members.append((member[0], kind, member[2]))
                else:
                    members.append((member[0], kind * member[2] if len(member) == 3 else kind))
            base = ctypes.Union if row.get("union") else ctypes.Structure
            self.made[name] = type(name, (base,), {"_fields_": members})
        return self.made[name]

    def others(self, name):
        """The other versions of a struct, newest first."""
        family = name[:-3] if name.endswith("_t") else name
        return sorted((other for other, row in self.structs.items() if other[:-3] == family and other != name and "version" in row),
                      reverse=True)

    def prepare(self, name, buffer):
        version = self.structs.get(name, {}).get("version")
        if version:
            ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(self.find(name)) | version << 24

    def decode(self, name, value, devices):
        if name == "device":
            return devices.index(value) if value in devices else None
        if name in PRIMITIVES:
            return value if not isinstance(value, float) or value == value else None
        row = self.structs[name]
        if row.get("union"):
            return int.from_bytes(bytes(value)[:8], "little")
        found = {}
        for member in row["members"]:
            if member[0] == "version" or member[1] == "pointer":
                continue
            part = getattr(value, member[0])
            found[member[0]] = self.decode_array(member[1], part, devices) if len(member) == 3 else self.decode(member[1], part, devices)
        return found

    def decode_array(self, name, values, devices):
        """Text, hexadecimal digits, or a list without the zeros at its end."""
        if name == "char":
            return bytes(values).split(b"\0")[0].decode("utf-8", "replace")
        if name == "u8":
            return bytes(values).hex()
        end = len(values)
        while end > 0 and not any(bytes(values[end - 1]) if name in self.structs else [values[end - 1]]):
            end -= 1
        return [self.decode(name, values[i], devices) for i in range(end)]


# ---- calls ------------------------------------------------------------------------------------------


def values_of(text):
    found = []
    for part in text.split("/")[0].split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Call:
    """A function of the table; makes its calls one by one."""

    def __init__(self, nvml, name, words):
        self.nvml, self.name, self.words = nvml, name, words.split()
        self.function = getattr(nvml.library, name)

    def choices(self, word, gpu):
        if word == "device":
            return [gpu]
        if word == "peer":
            return [peer for peer in range(len(self.nvml.devices)) if peer != gpu]
        if word.endswith("=supported"):
            return self.nvml.memory_clocks(gpu)
        return values_of(word.split("=")[1])

    def results(self):
        for gpu in range(len(self.nvml.devices)) if "device" in self.words else [None]:
            inputs = [word for word in self.words if word in ("device", "peer") or "=" in word]
            for values in itertools.product(*(self.choices(word, gpu) for word in inputs)):
                yield self.call(gpu, dict(zip(inputs, values)))

    def call(self, gpu, inputs):
        result = {} if gpu is None else {"gpu": gpu}
        given = {word.split("=")[0]: value for word, value in inputs.items() if word != "device"}
        if given:
            result["in"] = given
        result["code"], outputs, counts = self.try_types(inputs, {})
        if result["code"] == VERSION_MISMATCH:
            for word in (word for word in self.words if ":" in word):
                for other in self.nvml.types.others(word.split(":")[1]):
                    code, tried, counts = self.try_types(inputs, {word: other})
                    if code != VERSION_MISMATCH:
                        result.update(code=code, struct=other)
                        outputs = tried
        if result["code"] == 0:
            result["out"] = self.decode(outputs, counts)
        return result

    def try_types(self, inputs, replaced):
        arguments, outputs, counts = [], [], []
        for word in self.words:
            if word in ("device", "peer"):
                arguments.append(ctypes.c_void_p(self.nvml.devices[inputs[word]]))
            elif "=" in word:
                arguments.append((ctypes.c_uint64 if word.endswith("/u64") else ctypes.c_uint32)(inputs[word]))
            elif "%" in word:
                arguments.append(ctypes.c_uint32(int(word.split("%")[1] or CAPACITY)))
            elif word[-1] == "#":
                counts.append(ctypes.c_uint32(CAPACITY))
                arguments.append(ctypes.byref(counts[-1]))
            else:
                name, kind = word.replace("*", ":").split(":")
                kind = replaced.get(word, kind)
                # Room for a driver that writes more than this header says.
                buffer = (self.nvml.types.find(kind) * CAPACITY)() if "*" in word else ctypes.create_string_buffer(1 << 16)
                self.nvml.types.prepare(kind, buffer)
                outputs.append((name, kind, "*" in word, buffer))
                arguments.append(buffer)
        return self.function(*arguments), outputs, counts

    def decode(self, outputs, counts):
        found, types, devices = {}, self.nvml.types, self.nvml.devices
        for name, kind, is_array, buffer in outputs:
            if not is_array:
                value = ctypes.cast(buffer, ctypes.POINTER(types.find(kind)))[0]
                found[name] = types.decode(kind, value, devices)
                continue
            values = buffer[:min(counts[0].value, CAPACITY)] if counts and kind != "char" else buffer
            if counts:
                found["count"] = counts[0].value
            if kind.endswith(("Sample_t", "Sample")):
                values = values[:SHOWN_SAMPLES]
            found[name] = types.decode_array(kind, values, devices) if not counts else [types.decode(kind, value, devices) for value in values]
        return found


class Nvml:
    """The library, initialised, and its GPUs."""

    def __init__(self, table):
        self.table, self.types = table, Types(table["structs"])
        self.library = ctypes.CDLL(LIBRARY)
        code = self.library.nvmlInit_v2()
        if code != 0:
            raise OSError(f"nvmlInit_v2 returned {code}")
        count = ctypes.c_uint32()
        self.library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        self.devices = []
        for i in range(count.value):
            device = ctypes.c_void_p()
            if self.library.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)) == 0:
                self.devices.append(device.value)

    def memory_clocks(self, gpu):
        count, clocks = ctypes.c_uint32(CAPACITY), (ctypes.c_uint32 * CAPACITY)()
        code = self.library.nvmlDeviceGetSupportedMemoryClocks(ctypes.c_void_p(self.devices[gpu]), ctypes.byref(count), clocks)
        return clocks[:count.value] if code == 0 else []

    def names(self):
        return [name for name in sorted(self.table["functions"]) if hasattr(self.library, name)] + ["fields", "gpm"]

    def results(self, name):
        if name == "fields":
            return self.fields()
        if name == "gpm":
            return self.gpm()
        return Call(self, name, self.table["functions"][name]).results()

    def fields(self):
        if not hasattr(self.library, "nvmlDeviceGetFieldValues"):
            return
        kind = self.types.find("nvmlFieldValue_t")
        for gpu, device in enumerate(self.devices):
            for number in range(1, FIELDS):
                field = kind(fieldId=number)
                code = self.library.nvmlDeviceGetFieldValues(ctypes.c_void_p(device), 1, ctypes.byref(field))
                result = {"gpu": gpu, "in": {"id": number}, "code": code or field.nvmlReturn}
                if result["code"] == 0:
                    value = FIELD_VALUES.get(field.valueType, ctypes.c_uint64).from_buffer_copy(bytes(field.value)).value
                    result["out"] = {"type": field.valueType, "value": value}
                yield result

    def gpm(self):
        """Two samples of each GPU and all metrics between them."""
        if not hasattr(self.library, "nvmlGpmMetricsGet"):
            return
        metric = self.types.find("nvmlGpmMetric_t")
        request = type("Request", (ctypes.Structure,), {"_fields_": [
            ("version", ctypes.c_uint32), ("count", ctypes.c_uint32), ("first", ctypes.c_void_p), ("second", ctypes.c_void_p),
            ("metrics", metric * GPM_METRICS)]})
        for gpu, device in enumerate(self.devices):
            asked, code = request(version=1), 0
            for sample in ("first", "second"):
                pointer = ctypes.c_void_p()
                code = code or self.library.nvmlGpmSampleAlloc(ctypes.byref(pointer))
                code = code or self.library.nvmlGpmSampleGet(ctypes.c_void_p(device), pointer)
                setattr(asked, sample, pointer.value)
                time.sleep(GPM_WAIT_S if code == 0 else 0)
            # One metric a call: a driver refuses a whole request for a metric that it does not know.
            for number in range(1, GPM_METRICS if code == 0 else 1):
                asked.count, asked.metrics[0].metricId = 1, number
                answer = self.library.nvmlGpmMetricsGet(ctypes.byref(asked)) or asked.metrics[0].nvmlReturn
                value = asked.metrics[0].value
                yield {"gpu": gpu, "in": {"id": number}, "code": answer,
                       **({"out": {"value": value if value == value else None}} if answer == 0 else {})}
            if code != 0:
                yield {"gpu": gpu, "code": code}
            for sample in (asked.first, asked.second):
                if sample:
                    self.library.nvmlGpmSampleFree(ctypes.c_void_p(sample))


def make_calls(first):
    """The process: a line when it begins a function, one for each result, and one at its end."""
    nvml = Nvml(load_table())
    names = nvml.names()
    path = loaded_path()
    print(json.dumps({"names": names, "exported": exported_names(path) if path else []}), flush=True)
    for name in names[first:]:
        print(json.dumps({"begin": name}), flush=True)
        for result in nvml.results(name):
            print(json.dumps({"result": result}), flush=True)
        print(json.dumps({"end": name}), flush=True)


# ---- the record -------------------------------------------------------------------------------------


def read_lines(process, deadline):
    """Lines of the process. Ends with it, or when a call takes too long."""
    rest = b""
    while select.select([process.stdout], [], [], max(0.0, min(CALL_S, deadline - time.monotonic())))[0]:
        part = os.read(process.stdout.fileno(), 1 << 16)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield json.loads(line)
    process.kill()


def follow(process, record, deadline):
    """Adds the results of one process. Returns the function that it did not finish; None: it finished all."""
    at = None
    for line in read_lines(process, deadline):
        if "names" in line:
            record["names"], record["exported"] = line["names"], line["exported"]
        elif "begin" in line:
            at = line["begin"]
            record["functions"][at] = []
        elif "result" in line:
            record["functions"][at].append(line["result"])
        else:
            at = None
    status = end_of(process)
    if at is None and status != 0:
        raise OSError("NVML cannot be opened: " + process.stderr.read().decode("utf-8", "replace").strip()[-200:])
    if at is not None:
        record["unfinished"][at] = describe_end(status, time.monotonic() >= deadline)
    return at


def end_of(process):
    """The exit status; None: a hanging driver holds the process, which cannot be ended."""
    try:
        return process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        return None


def describe_end(status, is_late):
    if status is None:
        return "the driver hangs: the process that called it cannot be ended"
    if is_late:
        return "the time for the record is over"
    if status == -signal.SIGKILL:
        return "it took too long"
    return f"it ended the process: {status}"


def make_record(budget_s):
    """Calls everything within a time. Errors: OSError there is no NVML, or it cannot be initialised."""
    deadline = time.monotonic() + budget_s
    table = load_table()
    record = {"format": 1, "names": [], "exported": [], "functions": {}, "unfinished": {}}
    first = 0
    while time.monotonic() < deadline:
        # Not as a context, which would wait for a process that a driver holds. pylint: disable-next=consider-using-with
        process = subprocess.Popen([sys.executable, "-B", os.path.realpath(__file__), str(first)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        at = follow(process, record, deadline)
        if at is None or process.returncode is None:
            break
        first = record["names"].index(at) + 1
    exported = set(record["exported"])
    record["not_called"] = {name: why for name, why in table["not_called"].items() if name in exported}
    record["unknown"] = sorted(name for name in exported - set(table["functions"]) - set(table["not_called"]) if "Get" in name)
    del record["names"]
    return record


if __name__ == "__main__":
    make_calls(int(sys.argv[1]))
