#!/usr/bin/env python3
"""Turns data/llm_models.json into the constant C tables of src/emulator/server/llm.h and step_gpu.h.

Usage: generate-llm-models.py INPUT.json OUTPUT.c
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

COUNTS = ("layers attention_layers hidden heads kv_heads head_dim ffn experts active_experts expert_layers "
          "expert_ffn shared_ffn vocabulary block_scaled tied").split()
REALS = "weight_bytes dense_bytes cache_bytes state_bytes dense_params".split()


def resolve(name, models):
    """Returns the dimensions of a model, those of another model included."""
    own = models[name]
    if "as" not in own:
        return own
    return {**resolve(own["as"], models), **own}


def complete(name, models):
    own = resolve(name, models)
    defaults = {**dict.fromkeys(COUNTS + REALS, 0), "attention_layers": own["layers"], "dense_bytes": own["weight_bytes"]}
    return {**defaults, **own}


def row(name, models):
    model = complete(name, models)
    fields = [f"        .name = {json.dumps(name)},\n"]
    fields += [f"        .{key} = {int(model[key])},\n" for key in COUNTS]
    fields += [f"        .{key} = {float(model[key])!r},\n" for key in REALS]
    return "    {\n" + "".join(fields) + "    },\n"


def numbers(value):
    if isinstance(value, list):
        return "{" + ", ".join(repr(float(part)) for part in value) + "}"
    return repr(float(value))


def gpu_row(name, gpus):
    lines = [f"        .name = {json.dumps(name)},\n"]
    for group in resolve(name, gpus).values():
        if isinstance(group, dict):
            lines += [f"        .{key} = {numbers(value)},\n" for key, value in group.items() if key != "src"]
    return "    {\n" + "".join(lines) + "    },\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        document = json.load(source)
    models = document["models"]
    gpus = document["gpus"]
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write("/* Generated from llm_models.json; do not edit. */\n")
        target.write('#include "emulator/server/llm.h"\n#include "emulator/server/step_gpu.h"\n\n')
        target.write("const struct lull_llm lull_llms[] = {\n")
        target.writelines(row(name, models) for name in models)
        target.write(f"}};\nconst uint32_t lull_llm_count = {len(models)};\n\n")
        target.write("const struct lull_step_gpu lull_step_gpus[] = {\n")
        target.writelines(gpu_row(name, gpus) for name in gpus)
        target.write(f"}};\nconst uint32_t lull_step_gpu_count = {len(gpus)};\n")


if __name__ == "__main__":
    main()
