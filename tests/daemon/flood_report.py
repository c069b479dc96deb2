#!/usr/bin/env python3
"""Measures what attacks of 2, 10 and 50 users at once cost others. It is no test: it prints a table.

Run as: lull emulate SPEC -- python3 flood_report.py LULLD TOOL LULL [KIND...]. Kinds are those of KINDS. Columns: p50 and p99
of the questions of an honest user, who asks lulld and an echo server in turn, each every 8 ms; time of `lull restore`
(median of 5); time of the keeper from lulld's death to the GPU's restoration. The echo server is an ordinary process with
one client: what its client waits for is the host's delay, not lulld's. The kind `compute` does not touch lulld at all.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.argv, KINDS_ASKED = sys.argv[:4], sys.argv[4:]
import attacker  # noqa: E402
import test_trust  # noqa: E402
from test_daemon import LULLD, TOOL, host, lull  # noqa: E402

ATTACK_S = 10
PROCESSES = 20  # of each user, where one alone attacks slowly


def ask_without_end(_uuid):
    while True:
        with test_trust.greet() as connection:
            while True:
                connection.send(test_trust.message(test_trust.STATUS, struct.pack("<I", 0)))
                connection.recv(512)


def connect_without_end(_uuid):
    while True:
        test_trust.Crowds.connect_for(1, ATTACK_S)


def pass_descriptors(_uuid):
    kept = []
    while True:
        connection = test_trust.greet()
        writer, reader = test_trust.lingering()
        socket.send_fds(connection, [test_trust.message(test_trust.PROVE)], [writer.fileno()])
        kept = (kept + [connection, reader, writer])[-60:]


def compute(_uuid):
    while True:
        pass


def attack_as(kind):
    def attack(uuid):
        sys.stdout = open(os.devnull, "w", encoding="ascii")
        attacker.ATTACKS[kind](uuid)

    return attack


# What each process of a user does, and how many processes each user has.
KINDS = {"connects": [(connect_without_end, PROCESSES)], "questions": [(ask_without_end, 1)],
         "descriptors": [(pass_descriptors, 1)], "malformed": [(attack_as("malformed"), PROCESSES)],
         "refused": [(attack_as("refused"), 1)], "silent": [(attack_as("silent"), 1)], "compute": [(compute, 1)]}
KINDS["mixed"] = KINDS["connects"] + KINDS["questions"] + KINDS["descriptors"]


def attack(kind, uuid):
    """Starts the processes of one user; each ends by itself."""
    for run, count in KINDS[kind]:
        for _ in range(count):
            if os.fork() == 0:
                signal.alarm(ATTACK_S)
                while True:
                    try:
                        run(uuid)
                    except (OSError, AssertionError, struct.error, IndexError):
                        time.sleep(0.001)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return "over"


def start_echo(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(1)
    if os.fork() == 0:
        client, _ = listener.accept()
        while packet := client.recv(512):
            client.send(packet)
        os._exit(0)
    listener.close()


def ask_both(path, seconds=4):
    """[p50, p99] of lulld and of the echo server, in ms."""
    question = test_trust.message(test_trust.STATUS, struct.pack("<I", 0))
    echo = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    echo.connect(path)
    with test_trust.greet() as connection, echo:
        times = {connection: [], echo: []}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for server, taken in times.items():
                began = time.monotonic()
                server.send(question)
                server.recv(512)
                taken.append(1000 * (time.monotonic() - began))
                time.sleep(0.004)
    return json.dumps([[statistics.median(taken), sorted(taken)[len(taken) * 99 // 100]] for taken in times.values()])


def restore_ms():
    times = []
    for _ in range(5):
        began = time.monotonic()
        assert lull("restore").returncode == 0
        times.append(1000 * (time.monotonic() - began))
    return statistics.median(times)


def keeper_ms(daemon, spawn, uuid):
    """From lulld's death to the restoration, seen by a process whose priority no attack reaches."""
    watch = spawn(TOOL, "watch", "0")
    spawn(TOOL, "hold", "daemon", uuid, "900")
    while "locked" not in watch.stdout.readline():
        pass
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    began_ns = time.monotonic_ns()
    daemon.kill()
    seen_ns, state = watch.stdout.readline().split()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    assert state == "free", state
    return (int(seen_ns) - began_ns) / 1e6


def measure(kind, users, directory):
    """One row of the table."""
    place = tempfile.mkdtemp(dir=directory)
    os.chmod(place, 0o755)
    os.environ["LULL_RUNTIME_DIR"] = os.path.join(place, "run")
    policy = os.path.join(place, "policy.conf")
    echo = os.path.join(place, "echo")
    processes, crowd = [], []

    def spawn(*command, **options):
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options))
        return processes[-1]

    with open(policy, "w", encoding="utf-8") as file:
        file.write("[everybody]\ngpus = all\n")
    begin = time.monotonic()
    try:
        daemon = host.start_lulld(spawn, LULLD, "--policy", policy, stderr=subprocess.DEVNULL)
        uuid = json.loads(lull("gpus", "--json").stdout)["gpus"][0]["uuid"]
        start_echo(echo)
        crowd = [test_trust.User(30000 + i, lambda: attack(kind, uuid)) for i in range(users)]
        time.sleep(1 if users else 0)
        crowd.append(test_trust.User(29999, lambda: ask_both(echo)))
        asked = json.loads(crowd[-1].done())
        restored_ms = restore_ms()
        kept_ms = keeper_ms(daemon, spawn, uuid)
    finally:
        for user in crowd:
            user.end()
        host.stop_all(processes)
        lull("restore")
        time.sleep(max(ATTACK_S + 2 - (time.monotonic() - begin), 0) if users else 0)  # the attack ends by itself
    return *asked[0], *asked[1], restored_ms, kept_ms


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="lull-flood-") as area:
        os.chmod(area, 0o755)
        print("kind         users  lulld_p50_ms  lulld_p99_ms  echo_p50_ms  echo_p99_ms  restore_ms  keeper_ms")
        for name in KINDS_ASKED or KINDS:
            for count in (0, 2, 10, 50):
                row = measure(name, count, area)
                print("{:12} {:5d}  {:12.2f}  {:12.2f}  {:11.2f}  {:11.2f}  {:10.1f}  {:9.1f}".format(name, count, *row), flush=True)
