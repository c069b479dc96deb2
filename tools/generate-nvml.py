#!/usr/bin/env python3
"""Turns data/nvml_functions.json into parts of the emulated NVML.

Usage: generate-nvml.py stubs|releases TABLE.json OUTPUT.c
       generate-nvml.py map TABLE.json OUTPUT.map [BRANCH]
       generate-nvml.py branches TABLE.json
stubs: the functions that are refused. releases: the branches of `lull emulate --driver`. map: the
names that a library exports, all of them or those of a driver branch. branches: prints the branches
but the newest, whose library exports all names.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

LETTERS = {"device": "d", "set": "s", "handle": "h", "instance": "i", "pointer": "p", "optional": "-", "number": "-"}
CODES = {"INVALID_ARGUMENT": "NVML_INVALID_ARGUMENT", "NOT_SUPPORTED": "NVML_NOT_SUPPORTED", "NOT_FOUND": "NVML_NOT_FOUND"}
MOST_WORDS = 2


def refusal(function, structs):
    checks = ""
    words = []
    for take in function["takes"].split():
        checks += LETTERS.get(take, "v")
        if take not in LETTERS:
            words = [structs[name] for name in take.split("|")]
    if len(words) > MOST_WORDS:
        sys.exit(f"{function['name']}: more than {MOST_WORDS} versions")
    versions = ", ".join(words) or "0"
    return f'NVML_REFUSE({function["name"]}, {CODES[function["code"]]}, "{checks}", {versions})\n'


def stubs(table):
    yield '#include "emulator/nvml/nvml_library.h"\n\n'
    for function in table["functions"]:
        if function["class"] == "refused":
            yield refusal(function, table["structs"])


def releases(table):
    yield '#include "emulator/release.h"\n\nconst struct lull_release lull_releases[] = {\n'
    for driver in table["drivers"]:
        yield f'    {{{driver["branch"]}, {driver["cuda"]}, "{driver["version"]}"}},\n'
    yield f'}};\nconst uint32_t lull_release_count = {len(table["drivers"])};\n'


def export_map(table, branch):
    yield "{\n    global:\n        lull_emulated_library;\n"
    for function in table["functions"]:
        if branch is None or function["driver"] <= branch:
            yield f'        {function["name"]};\n'
    yield "    local:\n        *;\n};\n"


def main():
    what, source = sys.argv[1:3]
    with open(source, encoding="utf-8") as file:
        table = json.load(file)
    if what == "branches":
        print(*(driver["branch"] for driver in table["drivers"][:-1]))
        return
    target = sys.argv[3]
    if what == "map":
        parts = export_map(table, int(sys.argv[4]) if len(sys.argv) > 4 else None)
    else:
        parts = {"stubs": stubs, "releases": releases}[what](table)
    with open(target, "w", encoding="utf-8") as file:
        if what != "map":
            file.write("/* Generated from nvml_functions.json; do not edit. */\n")
        file.writelines(parts)


if __name__ == "__main__":
    main()
