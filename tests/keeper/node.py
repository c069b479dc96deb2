# SPDX-License-Identifier: Apache-2.0
"""What the tests of the keeper share: wards on the emulated node that runs them, their keepers, and the node's truth."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL, KEEPER, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(5))
BOUND_S = 0.1  # faults.md: every death is undone within 100 ms


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def truth(gpu):
    return call(TOOL, "truth", str(gpu)).stdout.strip()


def children(pid):
    """Every process that this one has begun, whichever of its threads did it."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return found


def name_of(pid):
    """The name of a process that lives; "" of one that has ended, if only its parent has not noticed."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return ""
    return "" if text.rpartition(")")[2].split()[0] in "ZX" else text[text.index("(") + 1:text.rindex(")")]


def keepers(pid):
    return [child for child in children(pid) if name_of(child) == "lull-keeper"]


def keepers_of(runtime):
    """Every keeper of a runtime directory, also one whose ward is dead."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                if name_of(pid) == "lull-keeper" and file.read().split("\0")[1:2] == [runtime]:  # one that ends has no words left
                    found.append(int(pid))
        except OSError:
            continue  # it has ended meanwhile
    return found


class Node:
    """A runtime directory, and the processes that a test starts in it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="lull-ward-")
        self.runtime = os.path.join(self.directory, "run")
        os.environ["LULL_RUNTIME_DIR"] = self.runtime
        self.processes = []
        self.log = open(os.path.join(self.directory, "log"), "w+", encoding="utf-8")
        self.uuids = [gpu["uuid"] for gpu in json.loads(call(LULL, "gpus", "--json").stdout)["gpus"]]
        # A tool that drives GPUs itself looks for its keeper as lull does: beside itself.
        os.makedirs(os.path.join(self.directory, "tool"))
        os.makedirs(os.path.join(self.directory, "keeper"))
        self.tool = shutil.copy(TOOL, os.path.join(self.directory, "tool", "tool"))
        os.symlink(KEEPER, os.path.join(self.directory, "keeper", "lull-keeper"))

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()
        call(LULL, "restore")
        self.log.close()
        host.remove(self.directory)

    def said(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, **options)
        self.processes.append(process)
        return process

    def start_daemon(self):
        return host.start_lulld(self.spawn, LULLD)

    def hold(self, gpu, mode):
        """A client that keeps a GPU lowered. It comes again where the GPU is still being restored for the last one."""
        for _ in range(20):
            holder = self.spawn(self.tool, "hold", mode, self.uuids[gpu], "900")
            if "status=0" in holder.stdout.readline():
                return holder
            holder.wait()
            time.sleep(0.1)
        raise AssertionError(f"GPU {gpu} is not lowered\n{self.said()}")

    def saved(self):
        try:
            return [name for name in os.listdir(os.path.join(self.runtime, "saved")) if name.startswith("gpu-") and "." not in name]
        except OSError:
            return []

    def wait_free(self, gpus, limit_s=BOUND_S):
        """Seconds until none of the GPUs is lowered any more; None: not within the limit."""
        return host.wait_restored(lambda: all(truth(gpu) == "free" for gpu in gpus), limit_s, pause_s=0.001)

    def wait_keeper(self, ward):
        """The keeper of a ward, which may be starting."""
        found = []

        def look():
            found[:] = keepers(ward)
            return len(found) == 1

        assert host.wait_for(look, 5.0) is not None, self.said()
        return found[0]


def kill_both(ward, keeper):
    """A ward that stands still starts no other keeper, so none sees it die."""
    os.kill(ward.pid, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    ward.kill()
    ward.wait()
