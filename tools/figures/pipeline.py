"""A pipeline before and after `lull plan`: all operations of each stage over time, coloured by clock. The plan is that of docs/user/pipelines.md.
SPDX-License-Identifier: Apache-2.0
"""
import csv
import json
import os

import picture

PROFILE, STAGES, MICROBATCHES = "data/samples/gpt3-stages.csv", 8, 16
LOWEST, HIGHEST = (247, 198, 120), (20, 104, 176)  # colours of the lowest and of the highest clock of the plan


def make_plan(build):
    return json.loads(picture.output_of(os.path.join(os.path.abspath(build), "src/cli/lull"), "plan", "--profile", PROFILE, "--stages", str(STAGES),
                                        "--microbatches", str(MICROBATCHES), "--blocking-w", "83.64", "--slowdown", "0%", "--json"))


def read_times():
    with open(os.path.join(picture.ROOT, PROFILE), encoding="utf-8") as file:
        return {(int(row["stage"]), row["instruction"], int(row["frequency"])): float(row["time"]) for row in csv.DictReader(file)}


def replay(stages, times):
    """(begin, end) of each operation: it waits for the one before it on its stage, and for that of its micro-batch on the neighbour."""
    ends, found, places, free = {}, [[] for _ in stages], [0] * len(stages), [0.0] * len(stages)
    while any(place < len(stage) for place, stage in zip(places, stages)):
        moved = False
        for number, stage in enumerate(stages):
            if places[number] == len(stage):
                continue
            operation = stage[places[number]]
            kind, batch = operation["operation"], operation["microbatch"]
            step = -1 if kind == "forward" else 1
            neighbour = number + step
            needs = [(kind, neighbour, batch)] if 0 <= neighbour < len(stages) else [("forward", number, batch)] if kind == "backward" else []
            if not all(need in ends for need in needs):
                continue
            begin = max([free[number], *(ends[need] for need in needs)])
            end = begin + times[number, kind, operation["sm_mhz"]]
            ends[kind, number, batch] = free[number] = end
            found[number].append((begin, end, operation))
            places[number] += 1
            moved = True
        assert moved, "the plan's order cannot run"
    return found, max(free)


def colour(mhz, low, high):
    share = (mhz - low) / (high - low)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(LOWEST, HIGHEST))


def draw_rows(top, rows, span, clocks):
    left, width, height = 78, 586, 17
    parts = []
    for number, row in enumerate(rows):
        y = top + number * (height + 3)
        parts.append(picture.text(left - 8, y + 13, f"stage {number}", "", "end", ' font-size="13"'))
        for begin, end, operation in row:
            mark = 0.5 if operation["operation"] == "forward" else 1
            parts.append(f'<rect x="{left + begin / span * width:.1f}" y="{y + (1 - mark) * height:.1f}" width="{(end - begin) / span * width - 0.7:.1f}" '
                         f'height="{mark * height:.1f}" fill="{colour(operation["sm_mhz"], *clocks)}"/>')
    return parts


def draw(build):
    plan, times = make_plan(build), read_times()
    stages = [stage["operations"] if isinstance(stage, dict) else stage for stage in plan["plan"]]
    before = [[{**operation, "sm_mhz": 1410} for operation in stage] for stage in stages]
    rows_before, span_before = replay(before, times)
    rows_after, span_after = replay(stages, times)
    point = plan["frontier"][0]
    assert abs(span_before - plan["all_max"]["time_s"]) < 1e-6 and abs(span_after - point["time_s"]) < 1e-6, "the plan takes another time"
    clocks = (min(operation["sm_mhz"] for stage in stages for operation in stage), 1410)
    span = max(span_before, span_after)
    parts = [picture.text(20, 28, f'Before: all at 1410 MHz, {span_before:.3f} s, {plan["all_max"]["energy_j"]:.0f} J', "strong"),
             *draw_rows(42, rows_before, span, clocks),
             picture.text(20, 236, f'After: lull plan, {span_after:.3f} s, {point["energy_j"]:.0f} J: saves {picture.percent(plan["saving_ratio"], 2)}', "strong"),
             *draw_rows(250, rows_after, span, clocks)]
    for step in range(24):
        mhz = clocks[0] + (clocks[1] - clocks[0]) * step / 23
        parts.append(f'<rect x="{150 + 8 * step}" y="432" width="8.5" height="14" fill="{colour(mhz, *clocks)}"/>')
    parts += [picture.text(142, 445, f"{clocks[0]} MHz", "", "end"), picture.text(350, 445, f"{clocks[1]} MHz"),
              picture.text(448, 445, "low bar: forward, high: backward", "faint", "start", ' font-size="13"')]
    picture.write("user/pipeline.svg", 462, f"A pipeline of {STAGES} stages and {MICROBATCHES} micro-batches at the highest clock and as planned", parts)
