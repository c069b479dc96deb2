#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns data/serving_metrics.json into the constant C table of governor/serving/metrics_names.h.

usage: generate-serving-metrics.py INPUT OUTPUT"""
import json
import sys


def text(value):
    return "NULL" if value is None else json.dumps(value)


def row(metric):
    words = [f"LULL_METRICS_{metric['quantity'].upper()}"]
    words += [text(metric.get(key)) for key in ("name", "plus", "label", "value")]
    words += [str(float(metric.get("scale", 1))), "true" if metric.get("less") == "waiting" else "false"]
    return f"    {{{', '.join(words)}}},\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        engines = json.load(source)["engines"]
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write("/* Generated from serving_metrics.json; do not edit. */\n")
        target.write('#include <stddef.h>\n\n#include "governor/serving/metrics_names.h"\n\n')
        for number, engine in enumerate(engines):
            rows = "".join(row(metric) for metric in engine["metrics"])
            target.write(f"static const struct lull_metrics_name names_{number}[] = {{\n{rows}}};\n\n")
        target.write("const struct lull_metrics_engine lull_metrics_engines[] = {\n")
        for number, engine in enumerate(engines):
            target.write(f"    {{{text(engine['engine'])}, {text(engine.get('hint'))}, names_{number}, {len(engine['metrics'])}}},\n")
        target.write(f"}};\nconst uint32_t lull_metrics_engine_count = {len(engines)};\n")


if __name__ == "__main__":
    main()
