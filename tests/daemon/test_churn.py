#!/usr/bin/env python3
"""Clients that connect, lease, lower, raise and die, without end: lulld grows by no memory, descriptor or thread, and
valgrind finds nothing lost.

Run as: lull emulate SPEC -- test_churn.py LULLD TOOL LULL VALGRIND SECONDS [SEED]; prints the seed. The suite plays
twenty seconds; ten minutes are 600, an hour is 3600. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import attacker
import host

LULLD, TOOL, LULL, VALGRIND = (os.path.abspath(word) for word in sys.argv[1:5])
SECONDS = float(sys.argv[5])
SEED = int(sys.argv[6]) if len(sys.argv) > 6 else 1
PER_ROUND = 60  # clients, after which all are gone and lulld is looked at
# What valgrind keeps of freed blocks is full after some rounds; then growth is lulld's.
WARM_UP_RATIO = 0.25
GROWTH_KB = 2048  # of the resident memory of lulld and valgrind together; chosen, not measured


class Churn:
    def __init__(self, directory):
        self.random = random.Random(SEED)
        self.log = os.path.join(directory, "valgrind")
        self.uuids = [gpu["uuid"] for gpu in json.loads(subprocess.check_output([LULL, "gpus", "--json"]))["gpus"]]
        self.daemon = host.start_lulld(
            lambda *words, **more: subprocess.Popen(words, stderr=subprocess.DEVNULL, **more), VALGRIND, "--quiet",
            "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=97", "--freelist-vol=1000000",
            f"--log-file={self.log}", LULLD, "--no-sandbox")
        self.clients = 0

    def uuid(self):
        return self.random.choice(self.uuids)

    # --- what clients do ---

    def lower_and_die(self):
        client = subprocess.Popen([TOOL, "hold", "daemon", self.uuid(), str(self.random.choice((600, 900)))],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        client.stdout.readline()
        time.sleep(self.random.uniform(0.0, 0.05))
        client.send_signal(self.random.choice((signal.SIGKILL, signal.SIGTERM)))
        client.communicate()

    def lower_and_raise(self):
        subprocess.run([TOOL, self.random.choice(("rules", "limits")), "daemon", self.uuid()], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=0.5, check=False)

    def lease_and_leave(self):
        client = attacker.greet()
        client.send(attacker.lease_message(self.uuid()))
        if self.random.random() < 0.5:
            client.recv(512)
        if self.random.random() < 0.5:
            client.send(attacker.message(attacker.RELEASE, attacker.ALL_SLOTS.to_bytes(4, "little")))
        client.close()

    def connect_and_leave(self):
        client = attacker.connect()
        if self.random.random() < 0.5:
            client.send(self.random.randbytes(self.random.randrange(1, 64)))
        client.close()

    def ask(self):
        subprocess.run([LULL, "status"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    # --- and what lulld is afterwards ---

    def play_round(self):
        actions = (self.lower_and_die, self.lower_and_raise, self.lease_and_leave, self.connect_and_leave, self.ask)
        for _ in range(PER_ROUND):
            try:
                self.random.choices(actions, (3, 1, 8, 8, 2))[0]()
            except (ConnectionError, subprocess.TimeoutExpired):
                pass  # lulld closes those who misbehave
            self.clients += 1
        assert self.daemon.poll() is None, self.said()

    def counts(self):
        return tuple(len(os.listdir(f"/proc/{self.daemon.pid}/{name}")) for name in ("fd", "task"))

    def resident_kb(self):
        with open(f"/proc/{self.daemon.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def check_counts(self, before):
        """Descriptors and threads of clients that are gone go as well, with the driver's next turn."""
        took_s = host.wait_for(lambda: all(now <= then for now, then in zip(self.counts(), before)), 10.0)
        assert took_s is not None, f"descriptors and threads were {before}, are {self.counts()}"

    def play(self):
        begin = time.monotonic()
        self.play_round()
        time.sleep(2.5)  # until those who never greet are closed
        before = self.counts()
        warm_kb = None
        while time.monotonic() - begin < SECONDS:
            self.play_round()
            self.check_counts(before)
            if warm_kb is None and time.monotonic() - begin > WARM_UP_RATIO * SECONDS:
                warm_kb = self.resident_kb()
        end_kb = self.resident_kb()
        print(f"{self.clients} clients in {time.monotonic() - begin:.0f} s: descriptors and threads {before}, "
              f"{warm_kb} kB resident after a quarter of the time, {end_kb} kB at the end, valgrind included")
        assert warm_kb is not None and end_kb - warm_kb <= GROWTH_KB, "lulld grows"
        self.daemon.terminate()
        status = self.daemon.wait(60)
        assert status == 0, f"lulld ended with {status}:\n{self.said()}"


def main():
    directory = host.Directory()
    os.environ["LULL_RUNTIME_DIR"] = os.path.join(directory.name, "run")
    print(f"seed {SEED}", flush=True)
    churn = Churn(directory.name)
    try:
        churn.play()
    finally:
        churn.daemon.kill()
        churn.daemon.wait()
        directory.cleanup()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    main()
