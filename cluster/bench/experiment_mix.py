"""The jobs of `make experiment`, what is known of them, and the comparison of a run with a simulation: no Slurm here.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import json
import math
import random
import statistics
import subprocess
from dataclasses import dataclass

NODES, NODE_GPUS = 4, 8
GPUS = NODES * NODE_GPUS
MODEL = "A100-SXM4-40GB"
# The type that the Slurm cluster calls these GPUs.
GRES = "h100"
# 0: full clocks. Below 1000 MHz no kind saves energy on the emulated A100.
CLOCKS_MHZ = (0, 1305, 1200, 1095, 1005)
# So much work at full clocks, in s.
LENGTHS_S = (5, 7, 9, 12, 18)


@dataclass(frozen=True)
class Kind:
    """What a job computes: the program, the power profile of its kernels, how many GPUs it may ask for, and how often it comes."""
    program: str
    profile: str
    gpus: tuple
    share: float


KINDS = {
    "train": Kind("player", "training", (2, 4, 8, 8, 16), 0.36),
    "dynamics": Kind("player", "lammps", (1, 2, 4), 0.18),
    "lattice": Kind("player", "lbm", (2, 4, 8), 0.16),
    "stream": Kind("player", "stream", (1, 2, 4, 8), 0.14),
    "trainer": Kind("trainer", "training", (1,), 0.10),
    "ddp": Kind("ddp", "training", (2,), 0.06),
}


# GPUs with which a program is measured: the fewest that it can have.
RANKS = {"player": 1, "trainer": 1, "ddp": 2}


@dataclass(frozen=True)
class Job:
    number: int
    kind: str
    length_s: int
    gpus: int
    arrival_s: float
    deadline_s: float  # after the pass began; math.inf: none

    @property
    def name(self):
        return f"{self.kind}-{self.length_s}"

    @property
    def nodes(self):
        return max(1, self.gpus // NODE_GPUS)


def make_mix(count, seed, kinds=tuple(KINDS), load=0.95):
    """Jobs by arrival, the first at 0. They come as fast as that all GPUs would need 1/load of the time in which they come; half of them
    have a deadline."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        kind = chance.choices(kinds, [KINDS[name].share for name in kinds])[0]
        drawn.append((kind, chance.choice(LENGTHS_S), chance.choice(KINDS[kind].gpus)))
    span_s = sum(length * gpus for _, length, gpus in drawn) / GPUS / load
    times = sorted(chance.uniform(0, span_s) for _ in drawn)
    jobs = []
    for number, ((kind, length, gpus), at) in enumerate(zip(drawn, times)):
        arrival = round(at - times[0], 3)
        deadline = math.ceil(arrival + 3 + length * chance.uniform(1.3, 4)) if chance.random() < 0.5 else math.inf
        jobs.append(Job(number, kind, length, gpus, arrival, deadline))
    return jobs


def job_points(measured, kind, length_s, turnaround_s):
    """The operating points of a job, from Slurm's start of it to the moment when the next one can have its GPUs: for so long its GPUs
    idle while it starts and ends."""
    told, idle_w = measured["kinds"][kind], measured["idle_w"]
    still_s = turnaround_s + told["start_s"]
    times = [still_s + length_s * point["ratio"] for point in told["points"]]
    points = []
    for point, time_s in zip(told["points"], times):
        # Nothing is faster at a lower clock; what was measured may be, by less than its error.
        ratio = max(time_s / times[0], points[-1]["time_ratio"] if points else 1.0)
        points.append({"sm_mhz": point["sm_mhz"], "time_ratio": round(ratio, 5),
                       "gpu_w": round((idle_w * still_s + point["gpu_w"] * (time_s - still_s)) / time_s, 2)})
    return {"time_s": round(times[0], 3), "gpus": {GRES: points}}


def point_table(measured, jobs, turnaround_s):
    """The table of lull-schedule(1), for all jobs of the mix."""
    full_w = max(point["gpu_w"] for kind in measured["kinds"].values() for point in kind["points"])
    return {"gpus": {GRES: {"idle_w": measured["idle_w"], "full_w": full_w}},
            "jobs": {job.name: job_points(measured, job.kind, job.length_s, turnaround_s) for job in jobs}}


@dataclass(frozen=True)
class Starts:
    """What was measured of starting jobs, s: from the end of one to the begin of the next where that waits, and from coming to the begin
    where there is room."""
    gaps: list
    arrivals: list

    @property
    def gap_s(self):
        return statistics.mean(self.gaps)

    def draw(self, chance):
        """How much later a job is seen, and how much longer it takes than with the mean gap."""
        gap = chance.choice(self.gaps)
        return max(0.0, chance.choice(self.arrivals) - gap), gap - self.gap_s


AT_ONCE = Starts([0.0], [0.0])


def write_jobs(path, jobs, table, drawn):
    """The same jobs for lull simulate cluster, with what was drawn of their starts."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("job_id", "submit_s", "num_gpus", "duration_s", "deadline_s", "job_type"))
        for job, (later_s, longer_s) in zip(jobs, drawn):
            rows.writerow((job.number, round(job.arrival_s + later_s, 3), job.gpus, round(table["jobs"][job.name]["time_s"] + longer_s, 3),
                           "" if math.isinf(job.deadline_s) else job.deadline_s, job.name))


def simulate_once(lull, directory, jobs, table, policy, drawn):
    """When each job ends, in s by number, and the energy of all GPUs until the last end, J."""
    paths = {name: f"{directory}/simulated-{name}" for name in ("jobs.csv", "points.json", "ran.csv")}
    write_jobs(paths["jobs.csv"], jobs, table, drawn)
    with open(paths["points.json"], "w", encoding="utf-8") as file:
        json.dump(table, file)
    done = subprocess.run([lull, "simulate", "cluster", "--policy", policy, "--nodes", str(NODES), "--gpus-per-node", str(NODE_GPUS),
                           "--points", paths["points.json"], "--jobs-out", paths["ran.csv"], "--json", paths["jobs.csv"]],
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    with open(paths["ran.csv"], encoding="utf-8") as file:
        ends = {int(row["job_id"]): float(row["end_s"]) for row in csv.DictReader(file)}
    return ends, json.loads(done.stdout)["energy_j"]


def simulate(lull, directory, measured, jobs, table, policy, starts, draws=20):
    """What lull simulate cluster makes of the jobs: the mean of runs in which each job's start takes as long as one that was measured,
    drawn again, since the next job to find room depends on tenths of a second; with the least and the most of energy and completion."""
    runs = []
    for seed in range(draws):
        chance = random.Random(seed)
        drawn = [starts.draw(chance) for _ in jobs]
        runs.append(summary(measured, jobs, *simulate_once(lull, directory, jobs, table, policy, drawn)))
    told = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    for name in ("energy_j", "completion_s"):
        told[f"{name}_range"] = [min(run[name] for run in runs), max(run[name] for run in runs)]
    return told


def summary(measured, jobs, ends, energy_j):
    """The figures of a pass, real or simulated, in a table of results. A job's slowdown is its completion time over what its program takes at
    full clocks."""
    completion = [ends[job.number] - job.arrival_s for job in jobs]
    alone = [job_points(measured, job.kind, job.length_s, 0.0)["time_s"] for job in jobs]
    slowdown = sorted(took / least for took, least in zip(completion, alone))
    return {"energy_j": energy_j, "completion_s": sum(completion) / len(jobs), "last_s": max(ends.values()),
            "deadline_misses": sum(ends[job.number] > job.deadline_s for job in jobs),
            "slowdown": sum(slowdown) / len(jobs), "slowdown_p90": slowdown[math.ceil(0.9 * len(jobs)) - 1], "slowdown_worst": slowdown[-1]}


def compare(real, simulated):
    """By how much reality lies above the simulation, as ratios."""
    return {name: real[name] / simulated[name] - 1 for name in ("energy_j", "completion_s")}


HEAD = ("policy                    energy, kJ            completion, s          late    slowdown            last end, s\n"
        "                        real   sim.          real   sim.         re.  si.   mean  p90  worst    real   sim.")


def row(policy, real, simulated):
    off = compare(real, simulated)
    return (f"{policy:21} {real['energy_j'] / 1e3:6.1f} {simulated['energy_j'] / 1e3:6.1f} {100 * off['energy_j']:+5.1f} %  "
            f"{real['completion_s']:6.2f} {simulated['completion_s']:6.2f} {100 * off['completion_s']:+5.1f} %  "
            f"{real['deadline_misses']:4} {simulated['deadline_misses']:4.1f}   {real['slowdown']:4.2f} {real['slowdown_p90']:4.2f} "
            f"{real['slowdown_worst']:6.2f}   {real['last_s']:5.1f}  {simulated['last_s']:5.1f}")
