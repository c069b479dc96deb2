#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns data/communication_kernels.json into the constant C tables of the trace readers (communication.h).

usage: generate-communication-kernels.py INPUT OUTPUT"""
import json
import sys


def text(value):
    return "NULL" if value is None else json.dumps(value)


def words(target, name, values):
    target.write(f"const char *const {name}[] = {{{', '.join(text(value) for value in values)}, NULL}};\n")


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        table = json.load(source)
    kernels = table["kernels"]
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write("/* Generated from communication_kernels.json; do not edit. */\n")
        target.write('#include <stddef.h>\n\n#include "trace/communication.h"\n\n')
        target.write("const struct lull_communication_name lull_communication_names[] = {\n")
        for kernel in kernels:
            whole = "true" if kernel.get("whole") else "false"
            target.write(f"    {{{text(kernel['text'])}, {text(kernel['operation'])}, {whole}}},\n")
        target.write(f"}};\nconst uint32_t lull_communication_name_count = {len(kernels)};\n")
        words(target, "lull_communication_computes", table["computes"])
        words(target, "lull_communication_likely", table["likely"])


if __name__ == "__main__":
    main()
