# SPDX-License-Identifier: Apache-2.0
"""The best schedule of a small cluster as an integer program, solved by glpsol: an oracle that shares no code with
what it checks.

Time is cut into steps of a second. In each a job holds the GPUs of one group (type and number) or none, and works there
at any clocks of the group for as much of the step as it likes; one that may not stop works all of a step if it holds
the next one, too. So every solution is a schedule that may be run (a job that ends within a step counts to its end),
and no true bound is above its cost."""
import functools
import os
import re
import subprocess
import tempfile


class Program:
    def __init__(self):
        self.cost, self.rows, self.binary, self.free = {}, [], set(), set()

    def row(self, terms, sense, right):
        kept = [(factor, name) for factor, name in terms if factor != 0]
        if kept:
            self.rows.append(" ".join(f"{factor:+.17g} {name}" for factor, name in kept) + f" {sense} {right:.17g}")
        elif (sense == ">=" and right > 0) or (sense == "=" and right != 0):
            self.rows.append(f"+1 impossible >= {right:.17g}\n impossible_: +1 impossible <= 0")

    def pay(self, factor, name):
        self.cost[name] = self.cost.get(name, 0.0) + factor

    def solve(self, limit_s):
        """The least cost; None: none found within the limit, or there is no schedule."""
        if not self.rows:
            return 0.0
        text = "minimize\n cost: 0 nothing " + " ".join(f"{v:+.17g} {k}" for k, v in self.cost.items())
        text += "\nsubject to\n" + "\n".join(f" r{i}: {row}" for i, row in enumerate(self.rows))
        text += "\nbinary\n" + "\n".join(f" {name}" for name in sorted(self.binary)) + "\nend\n"
        return solve_text(text, limit_s)


@functools.lru_cache(maxsize=16)
def solve_text(text, limit_s):
    """Runs of two policies that met the same deadlines have the same program."""
    with tempfile.TemporaryDirectory() as directory:
        asked, told = os.path.join(directory, "asked.lp"), os.path.join(directory, "told")
        with open(asked, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["glpsol", "--lp", asked, "--tmlim", str(limit_s), "-o", told], stdout=subprocess.DEVNULL,
                       check=True)
        with open(told, encoding="utf-8") as file:
            said = file.read()
    if "INTEGER OPTIMAL" not in said:
        return None
    return float(re.search(r"Objective:\s+cost = (\S+)", said).group(1))


def add_job(program, number, job, steps, second_j, must_run, until_s):
    """Returns what the job holds: [(type, GPUs, step, name)]."""
    arrival, deadline = job["arrival"], until_s
    if job["deadline"] is not None and (job["value"] or not must_run or job.get("keeps")):
        deadline = min(deadline, job["deadline"])
    groups = sorted({(mode[0], mode[1]) for mode in job["modes"]})
    ran, end, holds, made = f"n{number}", f"done{number}", [], []
    program.binary.add(ran)
    if must_run:
        program.row([(1, ran)], ">=", 1)
    window = [t for t in range(steps) if t >= arrival and t + 1 <= deadline]
    for k, group in enumerate(groups):
        modes = [(i, mode) for i, mode in enumerate(job["modes"]) if group == (mode[0], mode[1])]
        held = {t: f"a{number}_{k}_{t}" for t in window}
        program.binary.update(held.values())
        for t in window:
            name = held[t]
            holds.append((group[0], group[1], t, name))
            works = [(mode[2], f"f{number}_{i}_{t}") for i, mode in modes]
            made += [(1, term) for _, term in works]
            for (i, mode), (_, term) in zip(modes, works):
                program.pay(mode[3], term)
            program.row(works + [(-1, name)], "<=", 0)
            if not job["preemptible"] and t + 1 in held:
                program.row(works + [(-1, name), (-1, held[t + 1])], ">=", -1)
            program.row([(1, end), (-(t + 1 - arrival), name)], ">=", 0)
        if not job["preemptible"]:
            group_ran = f"h{number}_{k}"
            program.binary.add(group_ran)
            starts = []
            for t in window:
                starts.append((1, f"s{number}_{k}_{t}"))
                before = [(1, held[t - 1])] if t - 1 in held else []
                program.row([starts[-1], (-1, held[t])] + before, ">=", 0)
                program.row([(1, held[t]), (-1, group_ran)], "<=", 0)
            program.row(starts, "<=", 1)
    if not job["preemptible"]:
        program.row([(1, f"h{number}_{k}") for k in range(len(groups))], "<=", 1)
    for t in window:
        program.row([(1, name) for _, _, at, name in holds if at == t], "<=", 1)
    program.row(made + [(-1, ran)], "=", 0)
    program.pay(second_j, end)
    program.pay(-job["value"], ran)
    return holds


def best_cost(instance, ran, steps, second_j, limit_s, values=True, until_s=None):
    """ran: [job]: whether a schedule has to run it although it has no value; keeps its deadline where `keeps` says."""
    program, holds = Program(), []
    for number, job in enumerate(instance["jobs"]):
        must_run = ran[number] and (not values or not job["value"])
        if not must_run and not (values and job["value"]):
            continue
        asked = job if values else dict(job, value=0.0)
        holds += add_job(program, number, asked, steps, second_j, must_run,
                         steps if until_s is None else until_s)
    for kind, gpus in enumerate(instance["gpus"]):
        for t in range(steps):
            program.row([(size, name) for of, size, at, name in holds if of == kind and at == t], "<=", gpus)
    return program.solve(limit_s)
