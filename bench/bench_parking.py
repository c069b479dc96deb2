"""Measures what `lull attach` does to an idle server on an emulated node: the time until its GPUs are parked, what the first
work after an idle time pays, and the energy of an idle hour.

Usage: bench_parking.py BUILD [NODE [ROUNDS]]; NODE such as 1xA100-SXM4-40GB. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

WORK_MS = 100  # of the first work after an idle time, such as a prefill of some thousand tokens
HOUR_SCALE = 60  # seconds on the node per real second


def quantile(values, share):
    values = sorted(values)
    return values[min(int(share * len(values)), len(values) - 1)]


class Server:
    """A process with contexts on the GPUs (tests/governor/serving/load.c)."""

    def __init__(self, program, gpus):
        self.process = subprocess.Popen([program, str(gpus)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def work(self):
        return float(self.ask(f"run {WORK_MS}"))

    def highest(self):
        return max(int(word) for word in self.ask("clocks").split())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Lateness:
    """How late short sleeps of this host end, ms."""

    def __init__(self):
        self.values, self.is_over = [], threading.Event()
        self.thread = threading.Thread(target=self.measure, daemon=True)
        self.thread.start()

    def measure(self):
        while not self.is_over.is_set():
            begin = time.monotonic()
            time.sleep(0.005)
            self.values.append(1e3 * (time.monotonic() - begin) - 5)

    def end(self):
        self.is_over.set()
        self.thread.join()
        return self.values


def wait_parked(server, top_mhz):
    begin = time.monotonic()
    while server.highest() >= top_mhz:
        if time.monotonic() - begin > 10:
            raise SystemExit("bench_parking: the GPUs are not parked")
        time.sleep(0.002)
    return 1e3 * (time.monotonic() - begin)


def measure_rounds(lull, load, gpus, rounds, wake_ms):
    """Inside the emulated node."""
    server = Server(load, gpus)
    generator = random.Random(1)
    top_mhz = server.highest()
    server.work()
    full = [server.work() for _ in range(10)]
    attach = subprocess.Popen([lull, "attach", "--no-daemon", "--quiet", "--wake-ms", str(wake_ms), "--report",
                               os.path.join(os.environ["LULL_RUNTIME_DIR"], "report")])
    wait_parked(server, top_mhz)
    parked_mhz = server.highest()
    lateness, parking, first = Lateness(), [], []
    for _ in range(rounds):
        time.sleep(0.3 + generator.random())
        first.append(server.work())
        parking.append(wait_parked(server, top_mhz))
    late = lateness.end()
    attach.terminate()
    attach.wait()
    server.close()
    paid = [value - quantile(full, 0.5) for value in first]
    print(json.dumps({"rounds": rounds, "wake_ms": wake_ms, "parked_mhz": parked_mhz, "full_ms": quantile(full, 0.5),
                      "park_p50_ms": quantile(parking, 0.5), "park_most_ms": max(parking),
                      "first_p50_ms": quantile(paid, 0.5), "first_p99_ms": quantile(paid, 0.99), "first_most_ms": max(paid),
                      "host_late_p50_ms": quantile(late, 0.5), "host_late_p99_ms": quantile(late, 0.99),
                      "host_late_most_ms": max(late)}))


def measure_hour(lull, load, gpus, wake_ms):
    """Inside the emulated node: a server without requests for an hour of the node; wake_ms "": without Lull."""
    server = Server(load, gpus)
    if wake_ms == "":
        time.sleep(3600 / HOUR_SCALE)
    else:
        subprocess.run([lull, "attach", "--no-daemon", "--quiet", "--wake-ms", wake_ms, "--duration", str(3600 / HOUR_SCALE),
                        "--report", os.path.join(os.environ["LULL_RUNTIME_DIR"], "report")], check=True)
    server.close()


def emulate(lull, node, inside, *options):
    """Runs this file again on a node of its own. Returns its output, and the true energy per GPU, J."""
    with tempfile.TemporaryDirectory() as directory:
        truth = os.path.join(directory, "truth.json")
        done = subprocess.run([lull, "emulate", "--seed", "0", "--truth", truth, *options, node, "--", sys.executable, __file__, *inside],
                              env=dict(os.environ, LULL_RUNTIME_DIR=directory, LULL_STATE_DIR=directory), check=True,
                              stdout=subprocess.PIPE, text=True)
        with open(truth, encoding="utf-8") as file:
            energies = [gpu["energy_j"] for gpu in json.load(file)["gpus"]]
    return done.stdout, sum(energies) / len(energies)


def main():
    if sys.argv[1] == "--inside":
        lull, load, gpus, what, *more = sys.argv[2:]
        if what == "rounds":
            measure_rounds(lull, load, int(gpus), int(more[0]), float(more[1]))
        else:
            measure_hour(lull, load, int(gpus), more[0])
        return
    build = sys.argv[1]
    node = sys.argv[2] if len(sys.argv) > 2 else "1xA100-SXM4-40GB"
    rounds = sys.argv[3] if len(sys.argv) > 3 else "100"
    lull = os.path.join(build, "src", "cli", "lull")
    inside = ["--inside", lull, os.path.join(build, "tests", "governor", "serving", "serving_load"), node.split("x")[0]]
    for wake_ms in ("50", "1000"):
        output, _ = emulate(lull, node, [*inside, "rounds", rounds, wake_ms])
        print(node, output.strip())
    hours = {name: emulate(lull, node, [*inside, "hour", wake_ms], "--time-scale", str(HOUR_SCALE))[1]
             for name, wake_ms in (("without Lull", ""), ("--wake-ms 50", "50"), ("--wake-ms 1000", "1000"))}
    for name, energy_j in hours.items():
        print(f"{node} idle hour, {name}: {energy_j / 3600:.2f} Wh per GPU, "
              f"{100 * (1 - energy_j / hours['without Lull']):.1f} % less")


if __name__ == "__main__":
    main()
