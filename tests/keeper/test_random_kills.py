#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random deaths of daemon, governor, keeper and job, and of pairs of them, and what has to hold after each.

Run as: lull emulate SPEC -- test_random_kills.py LULLD TOOL LULL KEEPER JOB N SEED. Every round begins with a lowered
GPU. After the deaths, as long as a keeper or the daemon lives, an unleased GPU is at the reference within the bound;
where neither lives, after the next start (I1). A lowered GPU has a journal (I2), its power limit is never above
what it was (I3), the exit status is the job's (I4), and no descriptor, thread or process is left over (I5).
"""
import json
import os
import random
import select
import signal
import statistics
import sys
import time

from node import BOUND_S, JOB, LULL, Node, call, children, keepers, keepers_of, name_of, truth
import host

DEADLY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT)
LATE_S = 2.0  # how much later than the bound it is looked for, so that a failure says how late it was
JOB_ROUNDS = 10  # one round in so many has a real job, which needs seconds until it is lowered


class Watch:
    """When GPU 0 was lowered and freed, by the emulated node's own account."""

    def __init__(self, node):
        self.process = node.spawn(node.tool, "watch", "0")
        self.changes = []

    def read(self):
        """Every change so far, as (seconds, is_locked)."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            at_ns, state = os.read(self.process.stdout.fileno(), 1 << 16).decode().split()[-2:]
            self.changes.append((int(at_ns) * 1e-9, state == "locked"))
        return self.changes

    def freed_after(self, moment):
        """When the GPU was free for good, of those changes that came after the moment; None: it was not."""
        frees = [at for at, is_locked in self.read() if at >= moment and not is_locked]
        return frees[-1] if frees else None


def limit_w():
    return json.loads(call(LULL, "gpus", "--json").stdout)["gpus"][0]["power_limit_w"]


def size_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


class Rounds:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.node = Node()
        self.watch = Watch(self.node)
        self.limit_w = limit_w()
        self.daemon = None
        self.daemon_size = None
        self.times_s = {}
        self.number = 0

    def check(self, condition, what):
        assert condition, f"round {self.number}: {what}\n{self.node.said()[-4000:]}"

    # --- a round ---

    def start_daemon(self):
        if self.daemon is None or self.daemon.poll() is not None:
            self.daemon = self.node.start_daemon()
            self.node.wait_keeper(self.daemon.pid)
            self.daemon_size = None

    def stop_daemon(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.check(self.daemon.wait(10) in (0, *(-number for number in DEADLY)), "lulld has failed at its end")
            self.daemon = None

    def begin(self, mode, has_job):
        """{name: process id} of what may be killed, with GPU 0 lowered."""
        if mode == "daemon":
            self.start_daemon()
        else:
            self.stop_daemon()
        if has_job:
            governor = self.node.spawn(LULL, "run", *(["--no-daemon"] if mode == "local" else []), "--quiet",
                                       "--tolerance", "5%", "--", JOB, "0", "2000", "30", "120", "0")
            self.check(host.wait_for(lambda: truth(0) == "locked", 60.0) is not None, "the job is not lowered")
        else:
            governor = self.node.hold(0, mode)
        ward = self.daemon if mode == "daemon" else governor
        actors = {"governor": governor.pid, "keeper": self.node.wait_keeper(ward.pid)}
        if mode == "daemon":
            actors["daemon"] = ward.pid
        if has_job:
            (actors["job"],) = [child for child in children(governor.pid) if name_of(child) != "lull-keeper"]
        return governor, ward, actors

    def kill(self, actors):
        victims = self.random.sample(sorted(actors), self.random.choice((1, 2)))
        time.sleep(self.random.uniform(0.0, 0.1))
        for name in victims:
            number = signal.SIGKILL if name in ("keeper", "job") else self.random.choice(DEADLY)
            last = time.monotonic()
            try:
                os.kill(actors[name], number)
            except ProcessLookupError:  # it has done what the other's death asked of it, and has ended
                pass
            time.sleep(self.random.choice((0.0, 0.0, self.random.uniform(0.0, 0.02))))
        return victims, last

    def look(self):
        """I2: what is low has a journal, which is there before the first call and goes after the last one."""
        saved = self.node.saved()
        self.check(truth(0) == "free" or saved or self.node.saved(), "GPU 0 is low without a journal")

    def settle(self, governor, ward, actors, victims, last):
        """I1: the remaining process restores GPU 0, or the next start does."""
        is_leased = governor.pid not in [actors[name] for name in victims] and "daemon" not in victims
        if is_leased and "job" not in victims:  # only the keeper is dead
            self.look()
            # One that was killed may be seen for a moment yet.
            self.check(host.wait_for(lambda: set(keepers(ward.pid)) - {actors["keeper"]}, 5.0) is not None, "no new keeper")
            last = time.monotonic()
            governor.kill()
        is_ward_dead = ward is governor or "daemon" in victims
        bound_s = self.bound_s("job" in victims and not {"governor", "daemon"} & set(victims))
        freed_s = self.node.wait_free([0], bound_s + LATE_S)
        # A ward may have started another keeper before it died, or not.
        if is_ward_dead and "keeper" in victims and self.node.saved() and not keepers_of(self.node.runtime):
            return self.start_again()
        self.check(freed_s is not None, f"GPU 0 stays low, killed: {victims}")
        at = self.watch.freed_after(last)
        # The watch has real-time priority, but a killed process may be late to die on a busy host.
        self.check(at is None or at - last <= bound_s or at - last <= bound_s * host.slowness(),
                   f"GPU 0 was low for {(at or last) - last:.3f} s, killed: {victims}")
        if at is not None and is_ward_dead and "keeper" not in victims:
            self.times_s.setdefault("keeper", []).append(at - last)
        elif at is not None and "job" not in victims:
            self.times_s.setdefault("daemon" if ward is not governor else "new keeper", []).append(at - last)
        return "undone"

    @staticmethod
    def bound_s(is_by_governor):
        """A governor that lives notices its job's end by itself, and says so to the one that drives."""
        return 2.0 if is_by_governor else BOUND_S

    def start_again(self):
        self.daemon = None
        self.start_daemon()
        self.check(truth(0) == "free", "the next start leaves GPU 0 low")
        return "next start"

    def finish(self, mode, governor, actors, victims):
        if "job" in actors and name_of(actors["job"]):
            os.kill(actors["job"], signal.SIGKILL)
        status = governor.wait(20)
        # A daemon that got SIGQUIT stops in its own time, and has no keeper then.
        if "daemon" in victims and self.daemon is not None and self.daemon.pid == actors["daemon"]:
            self.daemon.wait(20)
        if "job" in actors and "governor" not in victims:
            self.check(status in (-signal.SIGKILL, 128 + signal.SIGKILL), f"I4: status {status}")
        self.check(host.wait_for(lambda: not self.node.saved(), 3.0) is not None, "I1: a record stays")
        self.check(limit_w() == self.limit_w, "I3: the power limit has changed")
        self.check_left_over(mode)
        self.node.processes = [each for each in self.node.processes if each is not governor]
        governor.stdout.close()

    def check_left_over(self, mode):
        if mode != "daemon" or self.daemon is None or self.daemon.poll() is not None:
            return
        self.node.wait_keeper(self.daemon.pid)
        # A daemon's first round starts what is started when it is needed first.
        if self.daemon_size is None:
            self.daemon_size = size_of(self.daemon.pid)
        size = self.daemon_size

        def is_no_larger():
            return all(now <= before for now, before in zip(size_of(self.daemon.pid), size))

        self.check(host.wait_for(is_no_larger, 3.0) is not None,
                   f"I5: lulld had {size} descriptors and threads, has {size_of(self.daemon.pid)}")

    def play(self, number):
        self.number = number
        mode = self.random.choice(("daemon", "local"))
        has_job = number % JOB_ROUNDS == JOB_ROUNDS // 2
        governor, ward, actors = self.begin(mode, has_job)
        self.check(limit_w() <= self.limit_w, "I3: the power limit was raised")
        self.look()
        victims, last = self.kill(actors)
        outcome = self.settle(governor, ward, actors, victims, last)
        self.finish(mode, governor, actors, victims)
        return mode, victims, outcome

    # --- all of them ---

    def end(self):
        self.stop_daemon()

        self.check(host.wait_for(lambda: not keepers_of(self.node.runtime), 5.0) is not None,
                   "I5: a keeper is left over")
        for who, times in sorted(self.times_s.items()):
            print(f"from the death to the reference, by the {who}: median {statistics.median(times) * 1e3:.1f} ms, "
                  f"max {max(times) * 1e3:.1f} ms ({len(times)} deaths)")


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    print(f"seed {seed}")
    rounds = Rounds(seed)
    outcomes = {}
    try:
        for number in range(count):
            mode, victims, outcome = rounds.play(number)
            key = (mode, "+".join(sorted(victims)), outcome)
            outcomes[key] = outcomes.get(key, 0) + 1
            if (number + 1) % 100 == 0:
                print(f"{number + 1} rounds", flush=True)
        rounds.end()
    finally:
        rounds.node.close()
    for key, times in sorted(outcomes.items()):
        print(*key, times)


if __name__ == "__main__":
    main()
