"""The rule of pd-rats-safe beside the same rule in 400 digits: gangs of up to all GPUs but one, U over L of up to a
million, half of the problems with a storage. Decisions are the same but for ties, every booking finds room, and the
ratio holds exactly.

Usage: test_rule_exact.py RULE_MANY [PROBLEMS [FIRST_SEED]]
SPDX-License-Identifier: Apache-2.0"""
import decimal
import os
import random
import subprocess
import sys
import unittest
from decimal import Decimal

decimal.getcontext().prec = 400
RULE_MANY = os.path.abspath(sys.argv[1])
PROBLEMS = int(sys.argv[2]) if len(sys.argv) > 2 else 16
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
TIE = Decimal("1e-8")  # of the sums: the rule leaves 1e-9 of them unused


def draw(rng):
    """Laws as (GPUs, gang, L, U), the storage's last; jobs as lists of (type, GPUs, slots, first, last, gain, delay,
    MB/s)."""
    laws, storage = [], rng.choice([None, rng.choice([8, 100, 1000])])
    for _ in range(rng.randint(1, 2)):
        gpus = rng.choice([2, 3, 8, 23, 64])
        gang = rng.choice([1, gpus - 1, rng.randint(1, gpus - 1)])
        least = 10 ** rng.uniform(-3, 6)
        laws.append((gpus, gang, least, least * 10 ** rng.choice([0, rng.uniform(0, 6)])))
    jobs = []
    for _ in range(rng.randint(4, 40)):
        points = []
        for _ in range(rng.randint(1, 3)):
            kind = rng.randrange(len(laws))
            all_gpus, gang, least, most = laws[kind]
            gpus = all_gpus if rng.random() < 0.05 else rng.randint(1, gang)
            slots = rng.randint(1, 6)
            if least * slots > most:
                slots = max(1, int(most / least))
            gain = gpus * slots * least * (most / least / slots) ** rng.choice([0, 1, rng.random()])
            first = rng.randint(0, 8)
            reads = 0 if storage is None else rng.choice([0, 1, rng.randint(1, storage - 1), storage])
            points.append((kind, gpus, slots, first, first + rng.randint(0, 6), gain,
                           rng.choice([0.0, gain * 0.01 * rng.random()]), reads))
        jobs.append(points)
    reading = [point for points in jobs for point in points if 0 < point[7] < storage]
    laws.append((storage, max(point[7] for point in reading), min(point[5] / point[7] / point[2] for point in reading),
                 max(point[5] / point[7] for point in reading)) if reading else (storage or 0, 0, 0.0, 0.0))
    return laws, jobs


def ask(laws, jobs, is_least):
    lines = [f"{len(laws) - 1} {len(jobs)} {int(is_least)}"] + [f"{c} {g} {low!r} {high!r}" for c, g, low, high in laws]
    for points in jobs:
        lines.append(str(len(points)))
        lines += [" ".join(repr(each) for each in point) for point in points]
    done = subprocess.run([RULE_MANY], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    bends = [(Decimal(row[0]), int(row[1])) for row in rows[:len(laws)]]
    return bends, Decimal(rows[len(laws)][0]), [(int(row[0]), int(row[1])) for row in rows[len(laws) + 1:]]


class Exact:
    def __init__(self, laws, bends, ratio):
        self.laws, self.bends, self.ratio = laws, bends, ratio
        self.loads, self.memory = {}, {}
        self.dual, self.gain = Decimal(0), Decimal(0)

    def price(self, kind, load):
        if (kind, load) not in self.memory:
            gpus, gang, least, most = self.laws[kind]
            bend, free = self.bends[kind]
            floor = bend * Decimal(least)
            self.memory[kind, load] = floor * ((1 + Decimal(most) / floor) ** (
                Decimal(max(load - free, 0)) / (gpus - gang - free)) - 1)
        return self.memory[kind, load]

    def rise(self, kind, gpus, price, slots):
        if gpus == 0:
            return Decimal(0)
        all_gpus, gang, least, most = self.laws[kind]
        bend, free = self.bends[kind]
        floor = bend * Decimal(least)
        factor = (1 + Decimal(most) / floor) ** (Decimal(gpus) / (all_gpus - gang - free)) - 1
        return all_gpus * factor * (price + floor * slots)

    def in_row(self, kind, amount, start, slots, worth):
        """(price, rise, has room, is in the set) of so much of a type, or of the storage."""
        if amount == 0:
            return Decimal(0), Decimal(0), True, True
        everything, gang, least, most = self.laws[kind]
        if gang == 0:
            return Decimal(0), Decimal(0), False, False
        loads = [self.loads.get((kind, slot), 0) for slot in range(start, start + slots)]
        price = sum((self.price(kind, load) for load in loads), Decimal(0))
        slack = Decimal("1e-12")
        is_in = amount <= gang and 0 < worth <= Decimal(most) * amount * (1 + slack) and \
            worth >= Decimal(least) * amount * slots * (1 - slack)
        return amount * price, self.rise(kind, amount, price, slots), max(loads) + amount <= everything, is_in

    def schedules(self, points):
        """(number, start, gain, price of all GPUs and reads, rise, end, has room, is in the set)"""
        for number, (kind, gpus, slots, first, last, gain, delay, reads) in enumerate(points):
            for start in range(first, last + 1):
                worth = Decimal(gain) - Decimal(delay) * (start - first)
                rows = [self.in_row(kind, gpus, start, slots, worth),
                        self.in_row(len(self.laws) - 1, reads, start, slots, worth)]
                yield (number, start, worth, rows[0][0] + rows[1][0], rows[0][1] + rows[1][1], start + slots,
                       rows[0][2] and rows[1][2], rows[0][3] and rows[1][3])

    def book(self, kind, amount, start, slots):
        """What all there is costs more after it."""
        rise = Decimal(0)
        for slot in range(start, start + slots):
            before = self.loads.get((kind, slot), 0)
            self.loads[kind, slot] = before + amount
            rise += self.laws[kind][0] * (self.price(kind, before + amount) - self.price(kind, before))
        return rise

    def take(self, points, choice):
        """Checks a decision, and books it."""
        rows = list(self.schedules(points))
        surplus = max([row[2] - row[3] for row in rows if row[7]] + [Decimal(0)])
        left = self.ratio * self.gain - self.dual - surplus
        size = self.ratio * self.gain + self.dual + surplus + max(row[2] for row in rows)
        surely = [row for row in rows if row[6] and row[2] > 0 and row[4] <= self.ratio * row[2] + left - TIE * size]
        if choice[0] < 0:
            assert not surely, "rejected, though the ratio would hold"
            assert surplus <= TIE * size, "rejected with a surplus"
            self.dual += surplus
            return
        chosen = next(row for row in rows if row[:2] == choice)
        assert chosen[6], "overbooked"
        for row in surely:
            assert chosen[2] > row[2] * (1 - TIE), "another gains more"
            assert chosen[2] != row[2] or chosen[5] <= row[5], "another ends sooner"
        kind, gpus, slots = points[choice[0]][:3]
        rise = self.book(kind, gpus, choice[1], slots)
        if points[choice[0]][7] > 0:
            rise += self.book(len(self.laws) - 1, points[choice[0]][7], choice[1], slots)
        self.dual += surplus + chosen[4]
        self.gain += chosen[2]
        assert rise <= chosen[4] * (1 + Decimal("1e-300")), "the rise is too low"
        assert self.dual <= self.ratio * self.gain * (1 + Decimal("1e-13")), "the ratio does not hold"


class RuleExact(unittest.TestCase):
    def test_decisions(self):
        booked = 0
        for seed in range(SEED, SEED + PROBLEMS):
            with self.subTest(seed=seed):
                laws, jobs = draw(random.Random(seed))
                bends, ratio, choices = ask(laws, jobs, seed % 2 == 0)
                exact = Exact(laws, bends, ratio)
                for points, choice in zip(jobs, choices):
                    exact.take(points, choice)
                    booked += choice[0] >= 0
        self.assertGreater(booked, PROBLEMS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
