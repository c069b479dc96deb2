#!/usr/bin/env python3
"""A PyTorch job for a check of the probes: torch_job.py [--profile]

On each rank (torchrun, or one process without it) matrix products for about three seconds, and,
with more than one rank, an all-reduce after each batch of them. Prints one line of JSON per rank:
milliseconds of computation by CUDA's own events. --profile runs torch.profiler meanwhile, which
holds CUPTI.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import sys
import time

import torch

SECONDS = 3.0


def compute(a, b):
    """A batch of matrix products; its length on the GPU in milliseconds."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(20):
        b = a @ b
        b = b / b.norm()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end), b


def main():
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if ranks > 1:
        torch.distributed.init_process_group("nccl")
    a = torch.randn(4096, 4096, device="cuda")
    b = torch.randn(4096, 4096, device="cuda")
    profile = contextlib.nullcontext()
    if "--profile" in sys.argv:
        profile = torch.profiler.profile()
    total_ms, batches = 0.0, 0
    with profile:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until or (ranks > 1 and batches < 50):
            if ranks > 1 and batches >= 50:
                break
            elapsed_ms, b = compute(a, b)
            total_ms += elapsed_ms
            batches += 1
            if ranks > 1:
                torch.distributed.all_reduce(b)
    torch.cuda.synchronize()
    time.sleep(0.5)  # the window reports late
    print(json.dumps({"rank": rank, "batches": batches, "compute_ms": total_ms}), flush=True)
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
