#!/usr/bin/env python3
"""Writes tests/trace/schedules/: what torch.distributed.pipelining's schedules look like as CSV.

usage: make_torch_schedules.py DIRECTORY

Written with torch 2.15 (no GPU, no process group), best in a virtual environment of its own:
    python3 -m venv V && V/bin/pip install torch && V/bin/python tests/trace/make_torch_schedules.py tests/trace/schedules

Per schedule and size, compute_only and compute_comms, as torch's own writers format them, and a line in lengths.csv:
    file, columns    the table's width (compute_only: time steps, with torch's blanks)
    steps            when the last action ends if each takes one step and begins as early as its row and its data allow
    aligned          1: every action's data come from earlier columns, so the columns are time steps
"""

import csv
import os
import sys
from unittest import mock

import torch
from torch.distributed.pipelining import schedules as pipelining
from torch.distributed.pipelining.stage import PipelineStage

# schedule, chunks per rank, [(ranks, micro-batches)]
CASES = [
    ("GPipe", 1, [(2, 3), (4, 8)]),
    ("1F1B", 1, [(2, 3), (4, 4), (4, 8), (8, 16)]),
    ("Interleaved1F1B", 2, [(2, 2), (2, 6), (4, 10), (4, 16)]),
    ("Interleaved1F1B", 3, [(4, 8), (4, 3)]),
    ("LoopedBFS", 2, [(2, 4), (4, 8)]),
    ("InterleavedZeroBubble", 1, [(2, 4), (4, 8), (4, 16)]),
    ("InterleavedZeroBubble", 2, [(2, 4), (4, 8)]),
    ("ZBVZeroBubble", 2, [(2, 2), (2, 5), (4, 8), (4, 12)]),
    ("DualPipeV", 2, [(2, 4), (2, 7), (4, 8), (4, 12)]),
]


def build(name, ranks, chunks, microbatches):
    """The schedule object of rank 0; the orders of all ranks are in it."""
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.submod = 0, ranks, None
    stage.num_stages, stage.stage_index = ranks * chunks, 0
    kind = pipelining.get_schedule_class(name)
    if issubclass(kind, pipelining.PipelineScheduleSingle):
        return kind(stage, microbatches)
    return kind([stage] * chunks, microbatches)


def record(name, ranks, microbatches):
    """What a schedule of one stage per rank runs, seen from a stage that only takes notes. (torch 2.15's own table for
    1F1B lets the last rank begin with micro-batch 1: 1F1B_table.csv, which must be refused.)"""
    order = {}
    for rank in range(ranks):
        schedule, notes = build(name, ranks, 1, microbatches), []
        stage = schedule._stage
        stage.stage_index, stage.is_last, stage.is_first = rank, False, rank == 0
        for ops in "get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops":
            getattr(stage, ops).return_value = []
        stage.forward_one_chunk.side_effect = lambda m, *_, **__: notes.append(f"{rank}F{m}")
        stage.backward_one_chunk.side_effect = lambda m, *_, **__: notes.append(f"{rank}B{m}")
        schedule._has_backward = True
        with mock.patch.object(schedule, "_initialize_stage"):
            schedule._step_microbatches()
        order[rank] = [pipelining._Action.from_str(note) for note in notes]
    return order


def compute_only(order):
    """Without the reductions that torch's simple schedules have in their tables already."""
    kinds = "F", "B", "I", "W", "OVERLAP_F_B"
    return {rank: [None if a is None or a.computation_type.value not in kinds else a for a in actions]
            for rank, actions in order.items()}


def with_comms(order, schedule):
    """The order as torch's runtime runs it, lowered by torch."""
    stages = [schedule._stage] if hasattr(schedule, "_stage") else schedule._stages
    runtime = pipelining._PipelineScheduleRuntime(stages, schedule._n_microbatches)
    runtime._prepare_schedule_with_comms(order)
    return runtime.pipeline_order_with_comms


def parts(action):
    """(stage, letter, micro-batch) of an action, of both halves of an overlap."""
    halves = action.sub_actions or (action,)
    return [(half.stage_index, half.computation_type.value, half.microbatch_index) for half in halves]


def needs(stage, letter, microbatch, stages):
    """What must be done before, as alternatives per item."""
    if letter == "F":
        return [{(stage - 1, "F", microbatch)}] if stage > 0 else []
    if letter == "W":
        return [{(stage, "I", microbatch)}]
    own = [{(stage, "F", microbatch)}]
    if stage + 1 < stages:
        own.append({(stage + 1, "B", microbatch), (stage + 1, "I", microbatch)})
    return own


def is_met(action, done, stages):
    return all(alternatives & done for part in parts(action) for alternatives in needs(*part, stages))


def simulate(order, stages):
    """Steps until all is done, step by step: each rank runs its next action if its data were there before the step."""
    rows = {rank: [a for a in actions if a is not None] for rank, actions in order.items()}
    done, steps = set(), 0
    while any(rows.values()):
        ready = [rank for rank, actions in rows.items() if actions and is_met(actions[0], done, stages)]
        assert ready, "stuck"
        for rank in ready:
            done.update(parts(rows[rank].pop(0)))
        steps += 1
    return steps


def is_aligned(order, stages):
    done = set()
    for column in range(max(map(len, order.values()))):
        now = [a[column] for a in order.values() if column < len(a) and a[column] is not None]
        if not all(is_met(action, done, stages) for action in now):
            return False
        done.update(part for action in now for part in parts(action))
    return True


def columns(order):
    return max(1 + max(i for i, a in enumerate(actions) if a is not None) for actions in order.values())


def write(path, order):
    """As _PipelineScheduleRuntime._dump_csv does."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        for rank in sorted(order):
            writer.writerow(order[rank])


def write_case(directory, lengths, name, chunks, ranks, microbatches):
    schedule = build(name, ranks, chunks, microbatches)
    single = isinstance(schedule, pipelining.PipelineScheduleSingle)
    order = record(name, ranks, microbatches) if single else compute_only(schedule.pipeline_order)
    stages = ranks * chunks
    base = f"{name}_{ranks}x{chunks}_{microbatches}"
    write(os.path.join(directory, base + ".compute_only.csv"), order if single else schedule.pipeline_order)
    write(os.path.join(directory, base + ".compute_comms.csv"), with_comms(order, schedule))
    lengths.writerow([base, columns(order), simulate(order, stages), int(is_aligned(order, stages))])


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "lengths.csv"), "w", newline="") as file:
        lengths = csv.writer(file, lineterminator="\n")
        lengths.writerow(["file", "columns", "steps", "aligned"])
        for name, chunks, sizes in CASES:
            for ranks, microbatches in sizes:
                write_case(directory, lengths, name, chunks, ranks, microbatches)
    write(os.path.join(directory, "1F1B_table.csv"), build("1F1B", 2, 1, 3).pipeline_order)
    write(os.path.join(directory, "GPipe_table.csv"), build("GPipe", 2, 1, 3).pipeline_order)
    print(f"torch {torch.__version__}: {sum(len(sizes) for _, _, sizes in CASES)} schedules in {directory}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
