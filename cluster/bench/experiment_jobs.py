"""How the jobs of `make experiment` are started. SPDX-License-Identifier: Apache-2.0"""
import os

import experiment_mix as mix

# A step of the trainer and of the PyTorch job, at full clocks.
STEP_MS = 500
DDP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiment_ddp.py")


def steps(length_s):
    return round(1e3 * length_s / STEP_MS)


def command(programs, kind, length_s, gpus):
    """The words that start a job of so much work on GPUs of its node, of which the shell's text for a list is taken as well."""
    known = mix.KINDS[kind]
    listed = gpus if isinstance(gpus, str) else ",".join(str(gpu) for gpu in gpus)
    if known.program == "trainer":
        return [programs["trainer"], "--gpu", listed, "--steps", str(steps(length_s)), "--gpu-ms", str(STEP_MS), "--hidden", "64", "--profile", known.profile]
    if known.program == "ddp":
        return [programs["python"], DDP, programs["player"], known.profile, str(steps(length_s)), str(STEP_MS), listed]
    return [programs["player"], listed, known.profile, str(length_s)]
