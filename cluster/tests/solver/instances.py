# SPDX-License-Identifier: Apache-2.0
"""Random offline problems, and what they are by definition: every column, every row, nothing left out."""

import itertools
import json


def draw(rng, jobs, slots, types, is_capped, share_left_out):
    """A cluster and its jobs, as lull-bound(1) writes them."""
    cluster = {"slots": slots, "types": [{"name": f"t{i}", "gpus": rng.randint(2, 6)}
                                         for i in range(types)]}
    if is_capped:
        cluster["cap_w"] = rng.randint(500, 2500)
    drawn = [draw_job(rng, cluster, i, share_left_out) for i in range(jobs)]
    return [cluster] + drawn


def draw_job(rng, cluster, number, share_left_out):
    slots = cluster["slots"]
    job = {"job": f"j{number}", "arrival": rng.randrange(0, slots - 2)}
    job["deadline"] = rng.randint(job["arrival"] + 2, slots)
    if rng.random() < 0.4:
        job["weight_j"] = round(rng.uniform(0, 5), 2)
    if rng.random() < share_left_out:
        job["value_j"] = round(rng.uniform(20, 200), 1)
    modes = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(cluster["types"])
        modes.append({"type": kind["name"], "gpus": rng.randint(1, 4),
                      "slots": rng.randint(1, 4),
                      "energy_j": round(rng.uniform(5, 100), 2), "power_w": rng.randint(0, 600)})
    if "weight_j" not in job and rng.random() < 0.3:
        modes[0]["delay_j"] = round(rng.uniform(0, 3), 2)
        modes[0]["first"] = job["arrival"]
        modes[0]["last"] = max(job["arrival"], job["deadline"] - modes[0]["slots"] - 1)
        modes[0]["slots"] = min(modes[0]["slots"], slots - modes[0]["last"])
    job["modes"] = modes
    return job


def columns_of(instance):
    """(job, cost, uses), uses: {(resource, slot): amount}; one entry per schedule of each job."""
    cluster, jobs = instance[0], instance[1:]
    gpus = {kind["name"]: kind["gpus"] for kind in cluster["types"]}
    for number, job in enumerate(jobs):
        for mode in job["modes"]:
            if mode["gpus"] > gpus[mode["type"]] or mode.get("power_w", 0) > cluster.get("cap_w", 1e9):
                continue # never whole, and no part of it either
            first = mode.get("first", job.get("arrival", 0))
            last = mode.get("last", job.get("deadline", cluster["slots"]) - mode["slots"])
            for start in range(first, last + 1):
                end = start + mode["slots"]
                cost = mode["energy_j"] + mode.get("delay_j", 0) * (start - first)
                cost += job.get("weight_j", 0) * (end - job.get("arrival", 0))
                uses = {(mode["type"], t): mode["gpus"] for t in range(start, end)}
                if "cap_w" in cluster:
                    uses.update({("cap", t): mode.get("power_w", 0) for t in range(start, end)})
                yield number, cost, uses


def rooms_of(cluster):
    rooms = {(kind["name"], t): kind["gpus"]
             for kind in cluster["types"] for t in range(cluster["slots"])}
    if "cap_w" in cluster:
        rooms.update({("cap", t): cluster["cap_w"] for t in range(cluster["slots"])})
    return rooms


def write_instance(path, instance):
    with open(path, "w", encoding="utf-8") as out:
        for line in instance:
            print(json.dumps(line), file=out)


def write_program(path, instance, is_integer):
    """In CPLEX's LP format; y: the job is left out."""
    jobs = instance[1:]
    columns = list(columns_of(instance))
    out_of = [i for i, job in enumerate(jobs) if "value_j" in job]
    with open(path, "w", encoding="utf-8") as out:
        print("minimize\n c: 0 z", file=out)
        for i, (_, cost, _) in enumerate(columns):
            print(f" + {cost!r} x{i}", file=out)
        for j in out_of:
            print(f" + {jobs[j]['value_j']!r} y{j}", file=out)
        print("subject to", file=out)
        for j in range(len(jobs)):
            own = [f"x{i}" for i, column in enumerate(columns) if column[0] == j]
            own += [f"y{j}"] * (j in out_of)
            print(f" j{j}: " + "\n + ".join(own or ["0 z"]) + " = 1", file=out)
        rooms = rooms_of(instance[0])
        terms = {key: [] for key in rooms}
        for i, (_, _, uses) in enumerate(columns):
            for key, amount in uses.items():
                terms[key].append(f"{amount} x{i}")
        for row, (key, room) in enumerate(rooms.items()):
            print(f" r{row}: " + "\n + ".join(terms[key] or ["0 z"]) + f" <= {room}", file=out)
        if is_integer:
            print("binary", file=out)
            print("\n".join(f" x{i}" for i in range(len(columns))), file=out)
            print("\n".join(f" y{j}" for j in out_of), file=out)
        print("end", file=out)


def best_of_all(instance):
    """The least cost of all schedules, by looking at each; None: there is none."""
    jobs, rooms = instance[1:], rooms_of(instance[0])
    choices = [[(cost, uses) for number, cost, uses in columns_of(instance) if number == j]
               + [(job[key], {}) for key in ("value_j",) if key in job] for j, job in enumerate(jobs)]
    best = None
    for chosen in itertools.product(*choices):
        cost = sum(each[0] for each in chosen)
        if best is not None and cost >= best:
            continue
        taken = {}
        for _, uses in chosen:
            for key, amount in uses.items():
                taken[key] = taken.get(key, 0) + amount
        if all(amount <= rooms[key] for key, amount in taken.items()):
            best = cost
    return best
