# SPDX-License-Identifier: Apache-2.0
"""Looks for small clusters whose certificates and bounds are false: above the best schedule, found by
schedule_program.py, or above any run of any policy that is one of the schedules they speak of. Half of them are drawn at random, the others change the one before, and stay
where that brings a bound nearer to what it must not pass.

Usage: hunt_bounds.py JUDGE_MANY [COUNT [FIRST_SEED]]"""
import json
import random
import subprocess
import sys

import schedule_program

STEPS = 16
LIMIT_S = 5
CLIMB = 6  # changes of each instance that is drawn
SLIP = 1e-6
JUDGED = {"powerflow": 1, "pd-rats": 1}
POLICIES = ["fifo", "edf", "backfill", "greedy-energy", "srtf", "srsf", "hdf", "powerflow", "pd-rats"]


def draw_mode(rng, kinds):
    return [rng.randrange(kinds), rng.randint(1, 3), rng.randint(1, 6), round(rng.uniform(1, 40), 2)]


def draw_job(rng, kinds, all_values, pausing):
    first = draw_mode(rng, kinds)
    modes = [first]
    for _ in range(rng.randint(0, 3)):  # clocks: slower, and cheaper or not
        last = modes[-1]
        modes.append([first[0], first[1], last[2] + rng.randint(1, 3), round(last[3] * rng.uniform(0.4, 1.1), 2)])
    if rng.random() < 0.3:
        modes.append(draw_mode(rng, kinds))
    arrival = rng.randint(0, 4)
    job = {"arrival": arrival, "deadline": None, "value": 0.0, "preemptible": pausing and rng.random() < 0.8,
           "modes": modes}
    if rng.random() < 0.6 or all_values:
        job["deadline"] = arrival + modes[0][2] + rng.choice([0, 0.5, 1, 1.5, 2, 4])
    if all_values or rng.random() < 0.3:
        job["value"] = round(rng.uniform(0.5, 4.0) * modes[0][3], 2)
    return job


def draw(rng):
    kinds = rng.choice([1, 1, 2])
    all_values, pausing = rng.random() < 0.4, rng.random() < 0.4
    jobs = sorted((draw_job(rng, kinds, all_values, pausing) for _ in range(rng.randint(1, 4))),
                  key=lambda job: job["arrival"])
    instance = {"gpus": [rng.randint(2, 4) for _ in range(kinds)], "jobs": jobs,
                "second_j": rng.choice([0.0, 0.0, round(rng.uniform(0, 10), 2)]),
                "bound_slot_s": rng.choice([0.0, 0.5, 1.0]), "judged": JUDGED,
                "policies": {name: None for name in POLICIES}}
    instance["policies"]["hdf"] = round(10 ** rng.uniform(-1, 2), 3)
    instance["policies"]["powerflow"] = round(rng.uniform(0.3, 2.5), 4)
    instance["policies"]["greedy-energy"] = instance["policies"]["pd-rats"] = instance["second_j"]
    if rng.random() < 0.15:
        instance["cap_w"] = round(sum(max(mode[3] / mode[2] for mode in job["modes"]) for job in jobs) * rng.uniform(0.5, 1))
        instance["cap_w"] = max(instance["cap_w"], 1)
    if rng.random() < 0.15:
        begin = rng.randint(0, 8)
        instance["failure"] = [0, begin, begin + rng.randint(1, 5)]
        for job in jobs:
            job["checkpoint"] = rng.choice([0, 1])
    return instance


def change(rng, instance):
    """A copy with one thing changed."""
    new = json.loads(json.dumps(instance))
    job = rng.choice(new["jobs"])
    mode = rng.choice(job["modes"])
    what = rng.randrange(6)
    if what == 0:
        mode[3] = round(mode[3] * rng.uniform(0.7, 1.4), 2)
    elif what == 1:
        mode[2] = max(1, mode[2] + rng.choice([-1, 1]))
    elif what == 2 and job["deadline"] is not None:
        job["deadline"] = max(job["arrival"] + 1, job["deadline"] + rng.choice([-1, -0.5, 0.5, 1]))
    elif what == 3 and job["value"]:
        job["value"] = round(job["value"] * rng.uniform(0.7, 1.4), 2)
    elif what == 4:
        job["arrival"] = max(0, job["arrival"] + rng.choice([-1, 1]))
        new["jobs"].sort(key=lambda each: each["arrival"])
    else:
        new["policies"]["powerflow"] = round(rng.uniform(0.3, 2.5), 4)
    return new


class Hunt:
    def __init__(self, judge):
        self.process = subprocess.Popen([judge], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.counts = {"instances": 0, "certificates": 0, "bounds": 0, "optima": 0, "runs": 0}
        self.highest = 0.0  # bound over what it must not pass, of costs above 0

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, instance):
        self.process.stdin.write(json.dumps(instance) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the judge ended at {json.dumps(instance)}"
        return json.loads(line)

    def below(self, bound, cost, what, instance):
        size = sum(max(mode[3] for mode in job["modes"]) + job["value"] for job in instance["jobs"])
        assert bound <= cost + SLIP * size, f"{what}: {bound} above {cost}: {json.dumps(instance)}"
        if cost > 1e-3:
            self.highest = max(self.highest, bound / cost)
        return 1.0 - max(0.0, cost - bound) / (abs(cost) + 1e-3)

    def kept(self, instance, ends):
        """The jobs that schedules compared with such a run have to run, with the deadlines that they have to meet."""
        jobs = []
        for job, end in zip(instance["jobs"], ends):
            is_kept = end is not None and job["deadline"] is not None and end <= job["deadline"] + 1e-9
            jobs.append(dict(job, keeps=is_kept))
        return dict(instance, jobs=jobs), [end is not None for end in ends]

    def is_as_good(self, ends, instance, ran, has_values):
        for job, end, must in zip(instance["jobs"], ends, ran):
            free = has_values and job["value"] > 0
            if must and not free and (end is None or (job["keeps"] and end > job["deadline"] + 1e-9)):
                return False
        return True

    def certificates(self, instance, told, name):
        mine = told[name]
        second_j = instance["second_j"]
        kept, ran = self.kept(instance, mine["ends"])
        score = 0.0
        for other in told.values():
            if "ends" not in other or not self.is_as_good(other["ends"], kept, ran, True):
                continue
            cost = other["run_j"]
            for job, end in zip(instance["jobs"], other["ends"]):
                if end is not None:
                    cost += second_j * (end - job["arrival"])
                    cost -= job["value"] if job["deadline"] is None or end <= job["deadline"] + 1e-9 else 0.0
            score = max(score, self.below(mine["certificate_j"], cost, f"certificate of {name}", instance))
            self.counts["runs"] += 1
        best = schedule_program.best_cost(kept, ran, STEPS, second_j, LIMIT_S)
        if best is not None:
            score = max(score, self.below(mine["certificate_j"], best, f"certificate of {name}, optimum", instance))
            self.counts["optima"] += 1
        self.counts["certificates"] += 1
        return score

    def bounds(self, instance, told, name):
        mine = told[name]
        kept, ran = self.kept(instance, mine["ends"])
        last_s = max([end for end in mine["ends"] if end is not None], default=0.0)
        score = 0.0
        for other in told.values():
            if "ends" not in other or not self.is_as_good(other["ends"], kept, ran, False) or \
                    max([end for end in other["ends"] if end is not None], default=0.0) > last_s + 1e-9:
                continue
            score = max(score, self.below(mine["bound_j"], other["run_j"], f"bound of {name}", instance))
            self.counts["runs"] += 1
        if "cap_w" not in instance:
            best = schedule_program.best_cost(kept, ran, STEPS, 0.0, LIMIT_S, values=False, until_s=last_s + 1e-9)
            if best is not None:
                score = max(score, self.below(mine["bound_j"], best, f"bound of {name}, optimum", instance))
                self.counts["optima"] += 1
        self.counts["bounds"] += 1
        return score

    def check(self, instance):
        """Returns how near a bound came to what it must not pass, 1: it did."""
        told = self.ask(instance)
        self.counts["instances"] += 1
        score = 0.0
        for name, mine in told.items():
            assert "error" not in mine, f"{name}: {mine['error']}: {json.dumps(instance)}"
            if "certificate_j" in mine and name in ("pd-rats", "powerflow"):
                score = max(score, self.certificates(instance, told, name))
            if "bound_j" in mine and name in ("pd-rats", "powerflow"):
                score = max(score, self.bounds(instance, told, name))
        return score


def hunt(judge, count, first_seed):
    it = Hunt(judge)
    seed = first_seed
    while it.counts["instances"] < count:
        rng = random.Random(seed)
        instance = draw(rng)
        score = it.check(instance)
        for _ in range(CLIMB):
            changed = change(rng, instance)
            found = it.check(changed)
            if found >= score:
                instance, score = changed, found
        seed += 1
    it.close()
    print(f"seeds {first_seed} to {seed - 1}: {it.counts}, highest {it.highest:.9f}")
    assert it.counts["certificates"] > 0 and it.counts["bounds"] > 0


if __name__ == "__main__":
    hunt(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 28, int(sys.argv[3]) if len(sys.argv) > 3 else 8)
