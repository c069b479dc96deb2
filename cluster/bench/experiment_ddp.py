"""A data-parallel job of PyTorch with gloo for `make experiment`: two ranks on processors, each of which keeps its emulated
GPU busy for a while in every step. Nothing in it knows of Lull.

usage: experiment_ddp.py PLAYER PROFILE STEPS STEP_MS GPU,GPU
SPDX-License-Identifier: Apache-2.0
"""
import os
import socket
import subprocess
import sys

STEP_SAMPLES = 16


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(gpus):
    """The ranks' highest status. One thread each: there may be no more cores than that."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(len(gpus)),
              "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, **shared, RANK=str(rank), LOCAL_GPU=gpu))
             for rank, gpu in enumerate(gpus)]
    return max(rank.wait() for rank in ranks)


def train(player, profile, steps, step_ms):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with subprocess.Popen([player, os.environ["LOCAL_GPU"], profile, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as gpu:
        for step in range(steps):
            print(step_ms, file=gpu.stdin, flush=True)
            optimizer.zero_grad()
            if gpu.stdout.readline() == "":
                raise RuntimeError("the player of the GPU has ended")
            model(torch.randn(STEP_SAMPLES, 64)).square().mean().backward()
            optimizer.step()
            if dist.get_rank() == 0:
                print(f"step {step}", flush=True)
        gpu.stdin.close()
    dist.destroy_process_group()


def main():
    player, profile, steps, step_ms, gpus = sys.argv[1:]
    if "RANK" not in os.environ:
        return launch(gpus.split(","))
    train(player, profile, int(steps), float(step_ms))
    return 0


if __name__ == "__main__":
    sys.exit(main())
