#!/usr/bin/env python3
"""Turns data/llm_models.json into the constant C tables of src/emulator/server/llm.h and step_gpu.h.

Usage: generate-llm-models.py INPUT.json OUTPUT.c
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

COUNTS = ("layers attention_layers hidden heads kv_heads head_dim ffn experts active_experts expert_layers "
          "expert_ffn shared_ffn vocabulary block_scaled").split()


def resolve(name, models):
    """Returns the dimensions of a model, those of another model included."""
    own = models[name]
    if "as" not in own:
        return own
    return {**resolve(own["as"], models), **own}


def expert_params(model):
    return 3 * model["hidden"] * model["expert_ffn"]


def dense_params(model):
    """The parameters of all layers that every token passes."""
    hidden = model["hidden"]
    heads = model["heads"] + model["kv_heads"]
    attention = 2 * hidden * heads * model["head_dim"]
    dense_layers = model["layers"] - model["expert_layers"]
    shared = hidden * (3 * model["shared_ffn"] + model["experts"])
    return model["layers"] * attention + dense_layers * 3 * hidden * model["ffn"] + model["expert_layers"] * shared


def complete(name, models):
    model = {**dict.fromkeys(COUNTS, 0), **resolve(name, models)}
    if model["attention_layers"] == 0:
        model["attention_layers"] = model["layers"]
    dense = model.get("dense_params") or dense_params(model)
    head = model["hidden"] * model["vocabulary"]
    embeddings = head if model.get("tied") else 2 * head
    experts = model["expert_layers"] * expert_params(model)
    cache = 4 * model["attention_layers"] * model["kv_heads"] * model["head_dim"]
    model.update({
        "dense_bytes": model.get("dense_bytes", model["weight_bytes"]),
        "kv_token_bytes": model.get("cache_bytes", cache),
        "state_bytes": model.get("state_bytes", 0),
        "dense_params": dense,
        "total_params": dense + embeddings + experts * model["experts"],
        "active_params": dense + head + experts * model["active_experts"],
    })
    return model


def row(name, models):
    model = complete(name, models)
    reals = "weight_bytes dense_bytes kv_token_bytes state_bytes dense_params total_params active_params".split()
    fields = [f"        .name = {json.dumps(name)},\n"]
    fields += [f"        .{key} = {model[key]},\n" for key in COUNTS]
    fields += [f"        .{key} = {float(model[key])!r},\n" for key in reals]
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
