#!/usr/bin/env python3
"""Measures what attacks of 2, 10 and 50 users at once cost others. It is no test: it prints a table.

Run as: lull emulate SPEC -- python3 flood_report.py LULLD TOOL LULL [PROCESSES_PER_USER]. Each user has a connection that
asks for a GPU's state without end, one that sends descriptors whose close lingers, and processes that connect again and
again. Rows: time of `lull restore` (median of 5), of the keeper after lulld's death, and p99 of an honest user's questions.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.argv, PROCESSES = sys.argv[:4], int(sys.argv[4]) if len(sys.argv) > 4 else 20
import test_trust  # noqa: E402
from test_daemon import LULLD, TOOL, host, lull, truth  # noqa: E402


ATTACK_S = 12


def ask_without_end(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with test_trust.greet() as connection:
                while time.monotonic() < end:
                    connection.send(test_trust.message(test_trust.STATUS, struct.pack("<I", 0)))
                    connection.recv(512)
        except (OSError, AssertionError):
            time.sleep(0.01)


def attack(seconds):
    for _ in range(PROCESSES):
        if os.fork() == 0:
            test_trust.Crowds.connect_for(1, seconds)
            os._exit(0)
    if os.fork() == 0:
        ask_without_end(seconds)
        os._exit(0)
    try:
        test_trust.Descriptors.pass_lingering(5)
    except (OSError, AssertionError):
        pass
    for _ in range(PROCESSES + 1):
        os.wait()
    return "over"


def honest_p99_ms(seconds=3):
    """p99 of the questions of a user who asks every 3 ms."""
    times = []
    with test_trust.greet() as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            connection.send(test_trust.message(test_trust.STATUS, struct.pack("<I", 0)))
            connection.recv(512)
            times.append(time.monotonic() - began)
            time.sleep(0.003)
    return 1000 * sorted(times)[len(times) * 99 // 100]


def restore_ms():
    times = []
    for _ in range(5):
        began = time.monotonic()
        assert lull("restore").returncode == 0
        times.append(1000 * (time.monotonic() - began))
    return statistics.median(times)


def measure(users, directory):
    """One row of the table."""
    os.environ["LULL_RUNTIME_DIR"] = os.path.join(directory, f"run{users}")
    policy = os.path.join(directory, "policy.conf")
    processes, crowd = [], []

    def spawn(*command, **options):
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options))
        return processes[-1]

    with open(policy, "w", encoding="utf-8") as file:
        file.write("[everybody]\ngpus = all\n")
    try:
        daemon = host.start_lulld(spawn, LULLD, "--policy", policy, stderr=subprocess.DEVNULL)
        crowd = [test_trust.User(30000 + i, lambda: attack(ATTACK_S)) for i in range(users)]
        time.sleep(2 if users else 0)
        crowd.append(test_trust.User(29999, honest_p99_ms))
        p99_ms = float(crowd[-1].done())
        restored_ms = restore_ms()
        spawn(TOOL, "hold", "daemon", first_uuid(), "900")
        assert host.wait_for(lambda: truth(0) == "locked", 10) is not None, "the GPU was not lowered"
        daemon.kill()
        keeper_s = host.wait_for(lambda: truth(0) == "free", 20, 0.001)
        assert keeper_s is not None, "the keeper has not restored the GPU"
    finally:
        for user in crowd:
            user.end()
        host.stop_all(processes)
        lull("restore")
        time.sleep(ATTACK_S if users else 0)  # what the users have started ends by itself
    return p99_ms, restored_ms, 1000 * keeper_s


def first_uuid():
    return json.loads(lull("gpus", "--json").stdout)["gpus"][0]["uuid"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        print(f"users  honest_p99_ms  restore_ms  keeper_ms   ({PROCESSES} connecting processes per user)")
        for count in (0, 2, 10, 50):
            print("{:5d}  {:13.2f}  {:10.1f}  {:9.1f}".format(count, *measure(count, place)), flush=True)
