"""Runs the example trainer on an emulated node under `lull run --compare`, with a lulld of its own,
and holds the result against the oracle. Used by tools/demo, tools/bench and the tests.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile


@dataclasses.dataclass
class Setup:
    """What runs. Times are of the emulated GPU at its highest clock."""
    node: str = "4xA100-SXM4-40GB"
    ranks: int = 4
    steps: int = 110
    gpu_ms: float = 180.0
    link_gbs: float = 0.125
    channels: int = 4
    hidden: int = 2280
    profile: str = "training"
    overlap: bool = False
    descent: str = "bisect"
    tolerance: str = "1%"
    seed: int = 1  # of the units' spread and noise; 0: nominal units
    warm_w: float = 150.0  # GPUs start as warm as a job of this power leaves them
    fault: str = ""  # of the driver, see src/emulator/spec.h
    beside: tuple = ()  # a command that runs on the node beside the job

    def model(self):
        return self.node.split("x", 1)[1]

    def parameters(self):
        """Of the trainer's four layers, biases included."""
        h = self.hidden
        return 785 * h + 2 * (h + 1) * h + 10 * (h + 1)

    def transfer_bytes(self):
        return 2.0 * (self.ranks - 1) / self.ranks * 4.0 * self.parameters()

    def step_ms(self):
        return self.gpu_ms + 10.0 + self.transfer_bytes() / self.link_gbs * 1e-6

    def expected_s(self):
        return 2 * self.steps * self.step_ms() / 1e3

    def trainer_options(self):
        options = ["--steps", self.steps, "--gpu-ms", self.gpu_ms, "--link-gbs", self.link_gbs,
                   "--channels", self.channels, "--hidden", self.hidden]
        if self.profile:
            options += ["--profile", self.profile]
        if self.overlap:
            options.append("--overlap")
        return [str(option) for option in options]


@dataclasses.dataclass
class Result:
    setup: Setup
    report: dict
    losses: list  # of the unmanaged and of the managed run
    oracle: dict

    def same_losses(self):
        return len(self.losses) == 2 and self.losses[0] == self.losses[1] != []

    def succeeded(self):
        return self.report["status"] == 0 and self.same_losses()


def mpi_environment():
    """OpenMPI in a container: as root, with more ranks than cores."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1",
                OMPI_MCA_hwloc_base_binding_policy="none", OPENBLAS_NUM_THREADS="1")


def program(build, path):
    found = os.path.abspath(os.path.join(build, path))
    if not os.access(found, os.X_OK):
        sys.exit(f"{found}: not built; run make first")
    return found


class Daemon:
    """A lulld of this run's own, ready when the constructor returns, gone with it."""

    def __init__(self, build, runtime_dir):
        ready, child_end = os.pipe()
        self.process = subprocess.Popen(
            [program(build, "src/daemon/lulld"), "--runtime-dir", runtime_dir, "--ready-fd", str(child_end)],
            pass_fds=[child_end], stdin=subprocess.DEVNULL)
        os.close(child_end)
        if not os.read(ready, 1) and self.process.poll() is not None:
            raise subprocess.CalledProcessError(self.process.returncode, "lulld")
        os.close(ready)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)


def losses(text):
    """Loss curves of the runs in the trainer's output, one after the other."""
    runs = []
    for line in text.splitlines():
        match = re.match(r"step (\d+) loss (\S+) accuracy", line)
        if match and match.group(1) == "0":
            runs.append([])
        if match:
            runs[-1].append(match.group(2))
    return runs


def ask_oracle(build, setup, exposed_ms):
    """The best fixed clock of the section by exhaustive sweep, instant and with the real latency; at
    the temperature of the run, which is too short for the GPUs to cool down to what a lower power
    leads to (that saves some 0.3 % per degree more, for the oracle as for Lull)."""
    command = [program(build, "src/emulator/lull-oracle"), "--model", setup.model(),
               "--gpus", str(setup.ranks), "--compute-ms", str(setup.gpu_ms),
               "--bytes", str(setup.link_gbs * 1e6 * exposed_ms), "--link-gbs", str(setup.link_gbs),
               "--channels", str(setup.channels), "--heat-w", str(setup.warm_w)]
    if setup.profile:
        command += ["--profile", setup.profile]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def exposed_ms(report):
    return max((section["exposed_ms"] for gpu in report["gpus"] for section in gpu["sections"]), default=0.0)


def add_oracle(build, setup, directory, report):
    """Holds the run against the oracle and puts it into the report."""
    length_ms = exposed_ms(report)
    report["oracle_ideal_saving_ratio"] = None
    if length_ms <= 0.0 or not report["unmanaged"]["iterations"] or setup.overlap:
        return {}
    oracle = ask_oracle(build, setup, length_ms)
    # Ratios, because each emulated board reads a few percent more or less than nominal.
    report["oracle_saving_ratio"] = oracle["best_real"]["outcome"]["saving_ratio"]
    report["oracle_ideal_saving_ratio"] = oracle["best_ideal"]["outcome"]["saving_ratio"]
    path = os.path.join(directory, "report.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
    os.replace(path + ".new", path)
    return oracle


def run(build, setup, directory, compare=True):
    """Emulated node, lulld, lull run, trainer; raises CalledProcessError where one of them fails."""
    lull = program(build, "src/cli/lull")
    with tempfile.TemporaryDirectory(prefix="lull-") as runtime_dir:
        inner = [sys.executable, os.path.abspath(__file__), build, runtime_dir, json.dumps(setup.beside), lull, "run",
                 "--report", directory, "--descent", setup.descent, "--tolerance", setup.tolerance]
        inner += ["--compare"] if compare else []
        inner += ["--", "mpirun.openmpi", "-n", str(setup.ranks), program(build, "examples/train_mpi")]
        inner += setup.trainer_options()
        faults = [setup.fault] if setup.fault else []
        faults += [] if os.geteuid() == 0 else ["any_user"]
        done = subprocess.run([lull, "emulate", "--seed", str(setup.seed), "--warm", str(setup.warm_w),
                               *(["--fault", ",".join(faults)] if faults else []), setup.node, "--"] + inner, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              env=mpi_environment())
    with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    oracle = add_oracle(build, setup, directory, report) if compare else {}
    return Result(setup, report, losses(done.stdout), oracle)


def percent(ratio):
    return "unknown" if ratio is None else f"{ratio * 100:.2f} %"


def print_checks(result):
    """Prints what only an emulated run can check. `lull run` has printed the result itself."""
    report = result.report
    print(f"Upper reference with full foresight: saves {percent(report['oracle_saving_ratio'])} with this driver's latency, "
          f"{percent(report.get('oracle_ideal_saving_ratio'))} without latency")
    print(f"Loss curves with and without Lull: {'identical in all digits' if result.same_losses() else 'DIFFERENT'}")


def inside():
    """Within the emulated node: a daemon and what runs beside the job, then the command; the command's
    status."""
    build, runtime_dir, beside, command = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
    daemon = Daemon(build, runtime_dir)
    other = subprocess.Popen(beside, stdin=subprocess.DEVNULL) if beside else None
    try:
        return subprocess.run(command, env=dict(os.environ, LULL_RUNTIME_DIR=runtime_dir),
                              check=False).returncode
    finally:
        if other is not None:
            other.kill()
            other.wait()
        daemon.stop()


if __name__ == "__main__":
    sys.exit(inside())
