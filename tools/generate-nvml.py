#!/usr/bin/env python3
"""Turns data/nvml_functions.json into parts of the emulated NVML.

Usage: generate-nvml.py stubs|releases TABLE.json OUTPUT.c
       generate-nvml.py map TABLE.json OUTPUT.map [BRANCH]
       generate-nvml.py branches TABLE.json
       generate-nvml.py fields FIELDS.json OUTPUT.c
       generate-nvml.py page TABLE.json docs/reference/emulation.md [--check]
stubs: the functions that are refused. fields: the table of field ids. releases: the branches of `lull emulate --driver`. map: the
names that a library exports, all of them or those of a driver branch. branches: prints the branches
but the newest, whose library exports all names. page: the document; --check only compares it.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import sys

LETTERS = {"device": "d", "set": "s", "handle": "h", "instance": "i", "pointer": "p", "optional": "-", "number": "-"}
CODES = {"INVALID_ARGUMENT": "NVML_INVALID_ARGUMENT", "NOT_SUPPORTED": "NVML_NOT_SUPPORTED", "NOT_FOUND": "NVML_NOT_FOUND"}
MOST_WORDS = 2
FIELDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "nvml_fields.json")


FAULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "emulator", "spec.c")
FAULT = re.compile(r'\[LULL_FAULT_\w+\] =\s*\{"(\w+)"')

SETTER = re.compile(r"^nvml(Device|System|Unit|Gpm)?(Set|Reset|Clear|Freeze|Modify)|PowerSmoothing|Profile(Set|Clear|Update)")

PAGE = """# The emulated NVML

After reading this page you know which functions of NVML work on an emulated node, which are refused and why, and how to
choose the release of the driver. `tools/generate-nvml.py` generates this page from `data/nvml_functions.json`; a test
compares it. The same table generates the exports of the library and the refusals.

`lull emulate 8xB200 -- COMMAND` runs a command on such a node. Every function first returns UNINITIALIZED before
`nvmlInit`, INVALID_ARGUMENT for a wrong handle or NULL, and ARGUMENT_VERSION_MISMATCH for a wrong version word. Calls that
set something need the capability CAP_SYS_ADMIN, as on a real driver, and return NO_PERMISSION without it.

## Compared with other stand-ins for NVML

The header is that of {header}. nvml-mock and DCGM's injection library return what a file or a test gives them; their
stubs and refusals are counted as refused. DCGM's library answers each function with the injected code.

| | Lull | [nvml-mock](https://github.com/NVIDIA/k8s-test-infra) | [DCGM's NVML injection](https://github.com/NVIDIA/DCGM) |
|---|---|---|---|
| functions of the header exported | {exported} of {exported} | 399 | 310 |
| missing | 0 | 37 | 126 |
| working | {working} | 145 | answers are injected |
| refused | {refused} | 254 | answers are injected |
| field ids answered, of {all_fields} | {answered} | 123 | those of the file and injected ones |
| setters of the header that are not stubs | {setters} of {all_setters} | 4 | 37, each changes the value of its getter |
| readings follow | clocks, power and work of the node | a file; curves over time if enabled | a file and injected values |
| faults | {fault_count} kinds of `lull emulate --fault` and `set`, each also after a number of calls: {faults} | \
`nvml-mock-ctl`: lost or fallen off the bus, also after a number of calls and with an XID; ECC; errors of NVLinks; health of the fabric; any value of the \
file | `dcgmInjectNvmlDevice`: the code and value of any function |
| older driver releases | `--driver` | a version text | no |

Sources: nvml-mock 3b2b865d (2026-08-21), files `pkg/gpu/mocknvml/bridge`, `pkg/gpu/mocknvml/engine` and `docs/nvml-mock-ctl.md`; DCGM
72fa3fe (2026-07-06), files `nvml-injection/README.md`, `nvml-injection/src/AttributeHolder.h` and `nvml-injection/src/nvml-injection.linux_defs`.
A function counts if the header has its name, a field id if some board answers it. `test_faults.c` in `tests/emulator` checks the effect of
each kind of fault.

## Clients

Tests run these clients on the node, unmodified, and compare what they show with NVML: nvidia-ml-py, nvitop, gpustat, GPUtil, Zeus,
CodeCarbon, carbontracker, cuda.core and nvtop; hwloc's NVML plugin; Lull's own readers. DCGM's library is in no package index, so a test
makes the NVML calls of DCGM 72fa3fe and of dcgm-exporter's default counters in their order. A test skips without its package.

`lull emulate --sysfs` adds the boards of NVIDIA to `/sys/bus/pci/devices`, so hwloc finds them at their PCI addresses, near the processors
that NVML names. cuda.core reads boards through
NVML. CUDA's driver has only what describes a GPU and what Lull's probes call.

## Releases of the driver

`lull emulate --driver VERSION` takes a branch or a full version of one of these branches. Functions that came later have no
symbol then, and field ids that came later are refused with NOT_SUPPORTED. NVML, `nvidia-smi` and `cuDriverGetVersion` report the
versions of the release. The default is the last row.

| branch | version | CUDA | functions | working | refused | field ids answered |
|---|---|---|---|---|---|---|
{releases}

First branches are known from the headers of CUDA 12.0 and newer. No driver of CUDA 13.5 was published when the table was made, so the
functions of that header count to branch {newest}.

## Fields

`nvmlDeviceGetFieldValues` answers {answered} of {all_fields} field ids; a board that lacks a feature refuses its fields. A field with a getter has the
getter's value. Fields without one are read from the node. `data/nvml_fields.json` has a row for each.

| ids | first id, NVML_FI_ | getter, nvml | unit |
|---|---|---|---|
{fields}

Refused with NOT_SUPPORTED:

| reason | ids |
|---|---|
{refused_fields}

## Refused functions

The code follows the checks of the arguments.

| reason | code | functions |
|---|---|---|
{reasons}

## Working functions

A board that lacks a feature refuses it as well: an A100 has no fan, a V100 remaps no rows.

| first branch | functions |
|---|---|
{works}
"""


def short(name):
    return name.removeprefix("nvml")


def count(functions, kind):
    return sum(function["class"] == kind for function in functions)


def first_branch(drivers, row):
    """The first branch of the driver that has the ids of a row."""
    return [entry["driver"] for entry in drivers if entry["first"] <= row["first"]][-1]


def count_fields(table, branch):
    """The number of field ids that the driver of a branch answers."""
    return sum(row["last"] - row["first"] + 1 for row in table["fields"]
               if "read" in row and first_branch(table["drivers"], row) <= branch)


def release_row(table, field_table, driver):
    functions = [function for function in table["functions"] if function["driver"] <= driver["branch"]]
    cuda = f"{driver['cuda'] // 1000}.{driver['cuda'] % 1000 // 10}"
    return (f"| {driver['branch']} | {driver['version']} | {cuda} | {len(functions)} | {count(functions, 'works')} "
            f"| {count(functions, 'refused')} | {count_fields(field_table, driver['branch'])} |")


def reason_rows(table):
    groups = {}
    for function in table["functions"]:
        if function["class"] == "refused":
            groups.setdefault((function["why"], function["code"]), []).append(short(function["name"]))
    return [f"| {why} | {code} | {', '.join(names)} |" for (why, code), names in sorted(groups.items())]


def works_rows(table):
    groups = {}
    for function in table["functions"]:
        if function["class"] == "works":
            groups.setdefault(function["driver"], []).append(short(function["name"]))
    return [f"| {branch}{' or older' if branch == min(groups) else ''} | {', '.join(names)} |"
            for branch, names in sorted(groups.items())]


def ids(row):
    return str(row["first"]) if row["first"] == row["last"] else f"{row['first']}-{row['last']}"


def field_rows(rows):
    return [f"| {ids(row)} | {row['name']} | {short(row['getter'])} | {row['unit']} |" for row in rows if "read" in row]


def refused_field_rows(rows):
    groups = {}
    for row in rows:
        if "why" in row:
            groups.setdefault(row["why"], []).append(ids(row))
    return [f"| {why} | {', '.join(numbers)} |" for why, numbers in sorted(groups.items())]


def page(table):
    with open(FIELDS, encoding="utf-8") as file:
        field_table = json.load(file)
    rows = field_table["fields"]
    with open(FAULTS, encoding="utf-8") as file:
        faults = FAULT.findall(file.read())
    functions = table["functions"]
    setters = [function for function in functions if SETTER.search(function["name"])]
    yield PAGE.format(
        header=table["_about"]["header"].split(";")[0], exported=len(functions), working=count(functions, "works"),
        refused=count(functions, "refused"), setters=count(setters, "works"), all_setters=len(setters),
        fault_count=len(faults), faults=", ".join(f"`{name}`" for name in faults), newest=table["drivers"][-1]["branch"], all_fields=rows[-1]["last"],
        answered=count_fields(field_table, table["drivers"][-1]["branch"]),
        fields="\n".join(field_rows(rows)), refused_fields="\n".join(refused_field_rows(rows)),
        releases="\n".join(release_row(table, field_table, driver) for driver in table["drivers"]),
        reasons="\n".join(reason_rows(table)), works="\n".join(works_rows(table)))


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


def fields(table):
    rows = [row for row in table["fields"] if "read" in row]
    yield '#include "emulator/nvml/nvml_field.h"\n\nconst struct lull_nvml_field_row lull_nvml_field_rows[] = {\n'
    for row in rows:
        numbers = ", ".join(map(str, row["arguments"]))
        yield f'    {{{row["first"]}, {row["last"]}, {first_branch(table["drivers"], row)}, nvml_field_{row["read"]}, {{{numbers}}}}},\n'
    yield f"}};\nconst uint32_t lull_nvml_field_row_count = {len(rows)};\n"


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
    if what == "page" and sys.argv[4:] == ["--check"]:
        with open(target, encoding="utf-8") as file:
            if file.read() != "".join(page(table)):
                sys.exit(f"{target} differs from the table: run tools/generate-nvml.py page {source} {target}")
        return
    if what == "map":
        parts = export_map(table, int(sys.argv[4]) if len(sys.argv) > 4 else None)
    else:
        parts = {"stubs": stubs, "fields": fields, "releases": releases, "page": page}[what](table)
    with open(target, "w", encoding="utf-8") as file:
        if target.endswith(".c"):
            file.write(f"/* Generated from {os.path.basename(source)}; do not edit. */\n")
        file.writelines(parts)


if __name__ == "__main__":
    main()
