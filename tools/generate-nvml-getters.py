#!/usr/bin/env python3
"""Turns NVIDIA's nvml.h into the table by which `lull selftest` calls every getter of NVML.

Usage: generate-nvml-getters.py NVML.H src/cli/selftest/nvml_getters.json

The header is that of the package nvidia-nvml-dev. Names, argument types and struct layouts are taken from it; the values of
inputs and the calls that are left out are below. SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import sys

# Inputs by type, then by name: the values that are tried, "first-last" or a list.
TYPE_VALUES = {
    "nvmlClockType_t": "0-3", "nvmlClockId_t": "0-3", "nvmlTemperatureSensors_t": "0", "nvmlTemperatureThresholds_t": "0-7",
    "nvmlEccCounterType_t": "0-1", "nvmlMemoryErrorType_t": "0-1", "nvmlMemoryLocation_t": "0-7", "nvmlPcieUtilCounter_t": "0-1",
    "nvmlSamplingType_t": "0-7", "nvmlPerfPolicyType_t": "0-5,10,11", "nvmlRestrictedAPI_t": "0-1", "nvmlEncoderType_t": "0-2",
    "nvmlPageRetirementCause_t": "0-1", "nvmlAffinityScope_t": "0-1", "nvmlInforomObject_t": "0-2", "nvmlGpuP2PCapsIndex_t": "0-5",
    "nvmlPstates_t": "0-15", "nvmlGpuTopologyLevel_t": "0,10,20,30,40,50", "nvmlNvLinkCapability_t": "0-5",
    "nvmlNvLinkErrorCounter_t": "0-4", "nvmlVgpuDriverCapability_t": "0-3", "nvmlDeviceVgpuCapability_t": "0-9",
}
NAME_VALUES = {
    "link": "0-17", "fan": "0-1", "profile": "0-14", "profileId": "0,5,9,14,15,19,20", "memoryClockMHz": "supported",
    "lastSeenTimeStamp": "0/u64", "sensorIndex": "0", "counter": "0-1", "cpuNumber": "0", "index": "0", "nodeSetSize": "%",
    "cpuSetSize": "%", "length": "%", "size": "%",
}
# By value, in bytes or elements of the array beside it.
LENGTHS = {("nvmlSystemGetDriverBranch", "length"): "%80", ("nvmlDeviceGetSupportedPerformanceStates", "size"): "%64"}
COUNTS = {"count", "hwbcCount", "infoCount", "sessionCount", "pageCount", "vgpuCount", "sampleCount", "processSamplesCount",
          "vgpuInstanceSamplesCount", "vgpuProcessSamplesCount"}
# Getters that are not called, and why.
NOT_CALLED = {
    r"HandleBy|DeviceHandleFromMig|GpuInstanceById": "returns a handle for an identity",
    r"^nvml(Vgpu|GpuInstance|ComputeInstance)|VgpuTypeSupportedPlacements|VgpuTypeCreatablePlacements": "needs a virtual GPU or an instance",
    r"^nvmlUnitGet(?!Count)": "needs an S-class unit",
    r"^nvmlEventSet": "needs a set of events",
    r"ProcessName|AccountingStats$|AccountingStats_v2": "reads a process of a user",
    r"Certificate|AttestationReport|CPER|PrivateInfo|RemapTable|VgpuMetadata|PgpuMetadata|VgpuCompatibility|Hostname": "returns secrets or identities",
    r"QueryDrainState": "takes a PCI address of a GPU that is drained",
    r"GpmMetricsGet|GpmSample|GpmMigSample": "called as a sequence (gpm)",
    r"FieldValues": "called for each field (fields)",
    r"PerfMetrics|Telemetry": "needs buffers of unknown size",
}
GETTER = re.compile(r"Get(?!ting)|Query|nvmlDeviceIs")
PRIMITIVES = {"char": "char", "unsigned char": "u8", "unsigned short": "u16", "int": "i32", "signed int": "i32", "unsigned int": "u32",
              "unsigned": "u32", "long long": "i64", "unsigned long long": "u64", "unsigned long": "ulong", "double": "f64", "long": "ulong",
              "signed long long": "i64"}


def read_header(path):
    with open(path, encoding="latin-1") as file:
        text = file.read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


class Header:
    def __init__(self, text):
        self.defines = dict(re.findall(r"^#define\s+(\w+)\s+(.+?)\s*$", text, re.M))
        self.functions = re.findall(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^;]*?)\)\s*;", text, re.S)
        self.enums = set(re.findall(r"^[ \t]*typedef\s+enum\s+\w*\s*\{[^}]*\}\s*(\w+)\s*;", text, re.M))
        self.handles = set(re.findall(r"^[ \t]*typedef\s+struct\s*(?:\w+\s*)?\*\s*(\w+)\s*;", text, re.M)) | set(
            re.findall(r"struct\s+\w+\s*\*\s*(nvml\w+_t)\s*;", text))
        self.aliases = dict((new, old) for old, new in re.findall(r"^[ \t]*typedef\s+((?:unsigned |long |int |char )*\w+)\s+(nvml\w+)\s*;", text, re.M))
        self.bodies = {}
        for at in re.finditer(r"^[ \t]*typedef\s+(?:struct|union)\s*\w*\s*\{", text, re.M):
            end, depth = at.end(), 1
            while depth > 0:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            for name in re.match(r"([^;]*);", text[end:])[1].split(","):
                self.bodies[name.strip()] = ("union" if "union" in at[0] else "struct", text[at.end():end - 1])
        versions = re.findall(r"^#define\s+nvml\w+_v(\d+)\s+NVML_STRUCT_VERSION\((\w+),\s*(\d+)\)", text, re.M)
        self.versions = {f"nvml{name}_v{number}_t": int(number) for _, name, number in versions}
        self.structs = {}

    def number(self, text):
        text = text.strip()
        while text in self.defines:
            text = self.defines[text].strip()
        words = re.sub(r"\b[A-Z]\w+\b", lambda word: str(self.number(word[0])), text)
        if not re.fullmatch(r"[\dxa-fA-F+*() <-]+", words):
            raise ValueError(text)
        return int(eval(words))  # pylint: disable=eval-used

    def type_of(self, name):
        """The name of a type in the table; structs that it needs are added."""
        name = re.sub(r"\bconst\b|\bstruct\b", "", name).strip()
        if "*" in name or name in self.handles:
            return "device" if name == "nvmlDevice_t" else "pointer"
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        if name in self.enums:
            return "u32"
        if name in self.bodies:
            if name not in self.structs:
                self.structs[name] = None
                kind, body = self.bodies[name]
                self.structs[name] = {"members": self.members(body, name)}
                if kind == "union":
                    self.structs[name]["union"] = True
                if name in self.versions:
                    self.structs[name]["version"] = self.versions[name]
            return name
        if name in self.aliases:
            return self.type_of(self.aliases[name])
        raise ValueError(f"unknown type {name}")

    def members(self, body, owner):
        found, inner = [], 0
        while (at := re.search(r"(struct|union)\s*\w*\s*\{", body)) is not None:
            end, depth = at.end(), 1
            while depth > 0:
                depth += {"{": 1, "}": -1}.get(body[end], 0)
                end += 1
            inner += 1
            name = f"{owner}.{inner}"
            self.structs[name] = {"members": self.members(body[at.end():end - 1], name)}
            if at[1] == "union":
                self.structs[name]["union"] = True
            self.bodies[name] = None
            tail = re.match(r"\s*\w", body[end:])
            body = body[:at.start()] + f"@{inner} " + ("" if tail else "_") + body[end:]
        for part in filter(None, (line.strip() for line in body.split(";"))):
            part = re.sub(r"\s+", " ", part)
            whole = re.fullmatch(r"(.*?[\s*])(\w+)((?:\s*\[[^\]]*\])*)(?:\s*:\s*(\d+))?", part)
            kind, name, lengths, bits = whole.groups()
            count = 1
            for length in re.findall(r"\[([^\]]*)\]", lengths):
                count *= self.number(length)
            kind = f"{owner}.{kind[1:].strip()}" if kind.startswith("@") else self.type_of(kind)
            found.append([name, kind] + ([int(bits), "bits"] if bits else [count] if lengths else []))
        return found

    def row(self, name, arguments):
        """The call as words: see nvml_calls.py."""
        words = []
        for argument in filter(None, (re.sub(r"\s+", " ", text).strip() for text in arguments.split(","))):
            kind, variable = re.fullmatch(r"(.*?[ *])(\w+)", argument).groups()
            pointer, kind = "*" in kind, kind.replace("*", "").strip()
            if kind == "nvmlDevice_t" and not pointer:
                words.append("peer" if "device" in words else "device")
            elif not pointer:
                value = LENGTHS.get((name, variable)) or TYPE_VALUES.get(kind) or NAME_VALUES[variable]
                words.append(f"{variable}{value}" if value[0] == "%" else f"{variable}={value}")
            elif variable in COUNTS and not (variable in ("count", "sessionCount") and ("RemainingCapacity" in name or "Stats" in name
                                             or "ErrorCounter" in name or "MaxMig" in name)):
                words.append(variable + "#")
            else:
                words.append(f"{variable}:{self.type_of(kind)}")
        has_count, has_length = any("#" in word for word in words), any("%" in word for word in words)

        def is_array(kind, variable):
            return kind == "char" or (has_count and variable != "sampleValType") or (has_length and kind in PRIMITIVES.values())

        return " ".join(word.replace(":", "*") if ":" in word and is_array(*word.split(":")[::-1]) else word for word in words)


def main():
    header = Header(read_header(sys.argv[1]))
    table = {"_about": "generated by tools/generate-nvml-getters.py; nvml_calls.py explains the words", "functions": {}, "not_called": {},
             "structs": header.structs}
    for name, arguments in header.functions:
        if not GETTER.search(name):
            continue
        reason = next((why for pattern, why in NOT_CALLED.items() if re.search(pattern, name)), None)
        if reason:
            table["not_called"][name] = reason
        else:
            table["functions"][name] = header.row(name, arguments)
    for name in ["nvmlFieldValue_t", "nvmlGpmMetric_t"]:
        header.type_of(name)
    for name in [name for name in header.structs if name in header.versions]:  # older and newer drivers take these
        family = re.sub(r"\d+_t$", "", name)
        for other in header.versions:
            if re.sub(r"\d+_t$", "", other) == family:
                header.type_of(other)
    with open(sys.argv[2], "w", encoding="ascii") as file:
        file.write("{\n" + ",\n".join(f" {json.dumps(key)}: " + (json.dumps(value) if isinstance(value, str) else "{\n" + ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(value.items())) + "\n }") for key, value in table.items()) + "\n}\n")


if __name__ == "__main__":
    main()
