"""The read-only checks of Lull's probes on a real GPU. Each runs a small job under the NCCL profiler plugin, the marker shim or the CUPTI
window, and compares the reports of the probe with what the job did; or compiles, runs and checks the kernel suite of lull sweep.

No governor and no lulld takes part: lull-watch only reads. SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
# Where a file of Lull may be, from here: an installation, a build.
PLACES = ("", "..", "../../probe", "../../../lab/sweep/suite")
LIBRARIES = ("../../../lib*/liblull.so.0", "../../../lib/*/liblull.so.0", "../../probe/liblull.so.0")
ROUNDS = 200
GRACE_S = 5.0


class Missing(Exception):
    """A check needs something that this machine lacks."""


class Failed(Exception):
    """A check has found an error."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Machine:
    """Lull's files, the GPUs, and the time that is left to the step that runs."""

    def __init__(self, lull, is_quick):
        self.lull, self.is_quick = lull, is_quick
        self.deadline = None
        self.place = None  # a folder for files of the steps
        self.device = None  # lull gpus --json
        self.torch_gpus = None  # how many PyTorch has; "": there is no PyTorch; None: not known yet

    def begin(self, budget_s):
        self.deadline = time.monotonic() + budget_s

    @staticmethod
    def file(name):
        for place in PLACES:
            path = os.path.normpath(os.path.join(HERE, place, name))
            if os.path.exists(path):
                return path
        raise Missing(f"{name} is not installed")

    @staticmethod
    def library():
        """The path of liblull; the name alone is searched by the system's loader."""
        found = [path for pattern in LIBRARIES for path in glob.glob(os.path.join(HERE, pattern))]
        return found[0] if found else "liblull.so.0"

    def left_s(self):
        return max(1.0, self.deadline - time.monotonic())

    def run(self, command, **variables):
        """Runs a command within the step's time. Errors: Failed it ran too long."""
        # Not as a context, which would wait for a process that a driver holds. pylint: disable-next=consider-using-with
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env=dict(os.environ, **variables), start_new_session=True)
        try:
            out, err = process.communicate(timeout=self.left_s())
        except subprocess.TimeoutExpired:
            end_group(process)
            raise Failed(f"{os.path.basename(command[0])} did not end within the step's time") from None
        except BaseException:
            end_group(process)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def output(self, command, **variables):
        done = self.run(command, **variables)
        if done.returncode == 77:
            raise Missing(done.stderr.strip()[-300:])
        if done.returncode != 0:
            raise Failed(f"{os.path.basename(command[0])} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def watch(self, command, **variables):
        """Runs a job; returns what it printed (one JSON line per rank) and the reports of its probes."""
        text = self.output([self.file("lull-watch")] + command, **variables)
        at = text.index("[{") if "[{" in text else text.rindex("[")
        job = [json.loads(line) for line in text[:at].splitlines() if line.startswith("{")]
        return job, json.loads(text[at:])

    def gpus(self):
        return json.loads(self.output([self.lull, "gpus", "--json"]))


def end_group(process):
    """Ends a job with all its processes: SIGTERM lets `lull run` restore clocks; then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=GRACE_S)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def one_process(processes):
    found = [process for process in processes if process["enqueued"] or process["kernels"] or
             process["compute_runs"] or process["failure"]]
    expect(len(found) == 1, f"{len(found)} processes reported events, not 1")
    return found[0]


def needs_torch(machine):
    """Returns how many GPUs PyTorch has. Another process imports it, once."""
    if machine.torch_gpus is None:
        done = machine.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"])
        machine.torch_gpus = done.stdout.strip() if done.returncode == 0 else ""
    if machine.torch_gpus == "":
        raise Missing(f"no PyTorch in {sys.executable}")
    if machine.torch_gpus == "0":
        raise Missing("PyTorch without CUDA")
    return int(machine.torch_gpus)


def needs_nccl(machine):
    """What a job needs in its environment to load NCCL: nothing, or the folder of the package nvidia-nccl."""
    find = "import ctypes\ntry:\n ctypes.CDLL('libnccl.so.2')\nexcept OSError:\n import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])"
    done = machine.run([sys.executable, "-c", find])
    if done.returncode != 0:
        raise Missing(f"no libnccl.so.2, and no package nvidia-nccl in {sys.executable}")
    folders = [os.path.join(done.stdout.strip(), "lib")] if done.stdout.strip() else []
    return {"LD_LIBRARY_PATH": ":".join(folders + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")} if folders else {}


# ---- checks --------------------------------------------------------------------------------------


def check_nvml(machine):
    """The readings of lull gpus, without any right."""
    gpus = machine.device["gpus"]
    for gpu in gpus:
        expect(gpu["sm_clock_max_mhz"] >= gpu["sm_clock_min_mhz"] > 0, "no SM clocks")
        expect(gpu["power_w"] > 0, "no power")
    return {"gpus": [gpu["name"] for gpu in gpus], "driver": machine.device["driver_version"]}


def check_plugin(machine):
    """KernelCh events of the profiler plugin under real NCCL."""
    nccl = needs_nccl(machine)
    plugin = machine.file("libnccl-profiler-lull.so")
    job, found = machine.watch([sys.executable, os.path.join(HERE, "nccl_self.py"), str(ROUNDS)],
                               NCCL_PROFILER_PLUGIN=plugin, **nccl)
    found = one_process(found)
    expect(found["communicators"] == 1, "the communicator was not reported")
    expect(found["enqueued"] == 2 * ROUNDS, f"{found['enqueued']} calls reported of {2 * ROUNDS}")
    expect(found["kernels"] > 0, "no kernel was timed")
    return {"nccl_version": job[0]["nccl_version"], **found}


def check_markers(machine):
    """The marker shim before real NCCL, without the plugin."""
    nccl = needs_nccl(machine)
    shim = machine.file("liblull-nccl.so")
    _, found = machine.watch([sys.executable, os.path.join(HERE, "nccl_self.py"), str(ROUNDS)],
                             LD_PRELOAD=shim, NCCL_PROFILER_PLUGIN="none", **nccl)
    found = one_process(found)
    expect(found["enqueued"] == 2 * ROUNDS, f"{found['enqueued']} calls reported of {2 * ROUNDS}")
    expect(found["kernels"] >= ROUNDS - 10, f"{found['kernels']} groups timed of {ROUNDS}")
    expect(found["unmatched"] == 0, f"{found['unmatched']} edges without their pair")
    return found


def check_window(machine):
    """Computation by the CUPTI window against CUDA's own events."""
    needs_torch(machine)
    job, found = machine.watch([sys.executable, os.path.join(HERE, "torch_job.py")],
                               CUDA_INJECTION64_PATH=machine.file("liblull-cupti.so"))
    found = one_process(found)
    if found["failure"]:
        raise Failed(f"the window stood aside: {os.strerror(-found['failure'])}")
    expect(found["compute_runs"] > 0, "no computation was reported")
    ratio = found["compute_ms"] / job[0]["compute_ms"]
    expect(0.8 < ratio < 1.1, f"{ratio:.2f} of the time that CUDA's events measured")
    return {"share_of_event_time_ratio": ratio, **found}


def check_window_aside(machine):
    """Beside torch.profiler the window must not disturb; whether it is refused depends on CUPTI."""
    needs_torch(machine)
    job, found = machine.watch([sys.executable, os.path.join(HERE, "torch_job.py"), "--profile"],
                               CUDA_INJECTION64_PATH=machine.file("liblull-cupti.so"))
    expect(job[0]["batches"] > 0, "the job did nothing")
    return one_process(found)


def check_torch_ranks(machine):
    """All probes together under PyTorch on two GPUs."""
    if needs_torch(machine) < 2:
        raise Missing("two GPUs")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
               os.path.join(HERE, "torch_job.py")]
    results = {}
    for name, variables in {
            "plugin": {"NCCL_PROFILER_PLUGIN": machine.file("libnccl-profiler-lull.so")},
            "markers": {"LD_PRELOAD": machine.file("liblull-nccl.so"),
                        "NCCL_PROFILER_PLUGIN": "none"}}.items():
        _, found = machine.watch(command, **variables)
        found = [process for process in found if process["enqueued"]]
        expect(len(found) == 2, f"{name}: {len(found)} ranks reported calls, not 2")
        expect(all(process["kernels"] > 0 for process in found), f"{name}: no kernel was timed")
        results[name] = found
    return results


def check_kernels(machine):
    """Every kernel of the suite that this GPU can run: compiled, run, and its results checked."""
    done = machine.run([machine.file("lull-check-kernels"), "0.05" if machine.is_quick else "0.2"])
    if done.returncode == 77:
        raise Missing(done.stderr.strip())
    expect(done.stdout.rstrip().endswith("]"), f"ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    kernels = json.loads(done.stdout)
    failed = [f"{kernel['kernel']} {kernel['arg']}: {kernel['reason']}" for kernel in kernels if kernel["result"] == "failed"]
    expect(not failed, "; ".join(failed))
    expect(any(kernel["result"] == "passed" for kernel in kernels), "no kernel could be run")
    return {"kernels": kernels}
