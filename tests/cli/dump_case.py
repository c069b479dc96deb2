"""Compares a record of NVML of a real GPU (`lull selftest`, nvml.json) with that of an emulated node. SPDX-License-Identifier: Apache-2.0"""
import fnmatch
import gzip
import json


def load(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def names_of(value):
    """The names within an output, without values and lengths of lists."""
    if isinstance(value, dict):
        return {name: names_of(part) for name, part in value.items()}
    return "value"


def place_of(result):
    return json.dumps([result.get("gpu"), result.get("in")])


def compare_function(name, real, emulated, is_reading):
    found = set()
    others = {place_of(result): result for result in emulated}
    for result in real:
        other = others.get(place_of(result))
        if other is None:
            found.add(f"{name}: input not tried")
        elif other["code"] != result["code"]:
            found.add(f"{name}: code {result['code']}, emulated {other['code']}")
        elif names_of(other.get("out")) != names_of(result.get("out")):
            found.add(f"{name}: other outputs")
        elif not is_reading and other.get("out") != result.get("out"):
            found.add(f"{name}: other values")
    return found


def compare(real, emulated, readings):
    """The differences, as text, one of a kind for each function."""
    found = {f"{name}: not exported" for name in set(real["exported"]) - set(emulated["exported"])}
    found |= {f"{name}: exported by the emulation alone" for name in set(emulated["exported"]) - set(real["exported"])}
    for name in set(real["functions"]) & set(emulated["functions"]):
        is_reading = any(fnmatch.fnmatch(name, pattern) for pattern in readings)
        found |= compare_function(name, real["functions"][name], emulated["functions"][name], is_reading)
    return found


def judge(real, emulated, readings, allowed):
    """What is wrong: differences that are not allowed, and allowed ones that are no more."""
    found = compare(real, emulated, readings)
    return sorted([f"new: {text}" for text in found - set(allowed)] + [f"no longer: {text}" for text in set(allowed) - found])
