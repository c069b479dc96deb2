#!/usr/bin/env python3
"""Turns data/nccl_times.json into the constant C table of src/emulator/collective.h.

Usage: generate-nccl-times.py INPUT.json OUTPUT.c
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def lines(numbers):
    """The two protocols of an operation and a number of GPUs: start in us, bandwidth in GB/s."""
    low_us, low_gbs, high_us, high_gbs = numbers
    return f"{{{{{low_us!r}, {low_gbs!r}}}, {{{high_us!r}, {high_gbs!r}}}}}"


def row(name, gpus):
    entry = {**gpus[gpus[name]["as"]], **gpus[name]} if "as" in gpus[name] else gpus[name]
    operations = ["{" + ", ".join(lines(entry[operation][ranks]) for ranks in ("2", "4", "8")) + "}" for operation in OPERATIONS]
    return f'    {{.name = "{name}", .lines = {{{", ".join(operations)}}}}},\n'


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        gpus = json.load(source)["gpus"]
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write('/* Generated from nccl_times.json; do not edit. */\n#include "emulator/collective.h"\n\n')
        target.write("const struct lull_collective_gpu lull_collective_gpus[] = {\n")
        target.writelines(row(name, gpus) for name in gpus)
        target.write(f"}};\nconst uint32_t lull_collective_gpu_count = {len(gpus)};\n")


if __name__ == "__main__":
    main()
