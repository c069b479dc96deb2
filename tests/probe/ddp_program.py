"""An ordinary data-parallel training program on CPUs with PyTorch and gloo; nothing in it knows of Lull. Where there is
a CUDA driver it takes the GPU of its local rank, as a program that computes there does.

usage: ddp_program.py OUTPUT_DIR [STATUS]
Started without RANK it starts two ranks of itself and ends with STATUS (0) if both ended well. Each rank
writes its losses, digit for digit, and what PyTorch's own profiler saw of gloo and of the main thread.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import json
import os
import socket
import subprocess
import sys

RANKS = 2
STEPS = 24


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(directory):
    """Both ranks' statuses. One thread each: there may be no more than two cores."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS),
              "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, __file__, directory],
                              env=dict(os.environ, **shared, RANK=str(rank), LOCAL_RANK=str(rank)))
             for rank in range(RANKS)]
    return [rank.wait() for rank in ranks]


def take_gpu():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    if cuda.cuInit(0) != 0:
        return
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), int(os.environ["LOCAL_RANK"])) == 0


def train(dist, torch):
    """Gradients are reduced beside the backward pass; every step ends with a loss that all ranks know."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048),
                                torch.nn.ReLU(), torch.nn.Linear(2048, 16))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(32, 512, generator=data)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :16].tanh()).square().mean()
        loss.backward()
        optimizer.step()
        shared = loss.detach().clone()
        dist.all_reduce(shared)
        losses.append(shared.item())
    return losses


def work(directory):
    import torch
    import torch.distributed as dist

    take_gpu()
    torch.set_num_threads(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        dist.init_process_group("gloo")
        losses = train(dist, torch)
        rank = dist.get_rank()
        dist.destroy_process_group()
    trace = os.path.join(directory, f"trace-{rank}.json")
    profiler.export_chrome_trace(trace)
    with open(os.path.join(directory, f"losses-{rank}.json"), "w", encoding="utf-8") as file:
        json.dump([loss.hex() for loss in losses], file)


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(sys.argv[1])
    elif any(launch(sys.argv[1])):
        sys.exit(1)
    else:
        sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
